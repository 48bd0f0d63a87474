//! [`History`]: what happens to a store of sessions, one step after the other.

use std::fmt;
use std::time::Duration;

use limiter_sessions::Severity;
use proptest::prelude::*;

/// What happens to a store of sessions, in order. Prints as a readable story.
#[derive(Clone, Debug)]
pub struct History(pub Vec<Step>);

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// The store is called.
    Call(Call),
    /// The clock goes on.
    Wait(Duration),
    /// The clock goes on to the end of the session, address, anomaly or member written last, and so many microseconds more.
    WaitForEnd(i8),
    /// The clock steps back, at most to one second before the latest time it showed.
    StepBack(Duration),
    /// The store frees what is outlived.
    ForgetIdle,
}

/// Which call is made. Numbers choose among a few fingerprints, addresses, sessions and names.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "each is a method of a port, and its arguments")]
pub enum Call {
    Observe {
        fingerprint: u32,
        ip: u32,
        bot_ppm: Option<u32>,
        country: Option<u8>,
        keep: u8,
    },
    Touch {
        session: usize,
        keep: u8,
    },
    Get {
        session: usize,
    },
    End {
        session: usize,
    },
    ByFingerprint {
        fingerprint: u32,
    },
    Consume {
        scope: u8,
        nonce: u8,
    },
    Signal {
        ip: u32,
    },
    Push {
        severity: Severity,
        kind: u8,
    },
    Recent {
        severity: Severity,
        since_us_ago: u64,
        limit: usize,
    },
    Join {
        cluster: u8,
        fingerprint: u32,
        keep: u8,
    },
    Members {
        cluster: u8,
    },
}

/// Returns random histories of up to eighty steps.
pub fn histories() -> impl Strategy<Value = History> {
    prop::collection::vec(steps(), 1..=80).prop_map(History)
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => calls().prop_map(Step::Call),
        3 => (-1..=1_i8).prop_map(Step::WaitForEnd),
        3 => (1..=5_000_000_u64).prop_map(|us| Step::Wait(Duration::from_micros(us))),
        1 => (1..=7_200_000_000_u64).prop_map(|us| Step::Wait(Duration::from_micros(us))),
        2 => (0..=1_000_000_u64).prop_map(|us| Step::StepBack(Duration::from_micros(us))),
        1 => Just(Step::ForgetIdle),
    ]
}

fn calls() -> impl Strategy<Value = Call> {
    let (fingerprint, ip, session, keep) = (0..3_u32, 0..2_u32, 0..64_usize, 0..3_u8);
    let severity = prop::sample::select(&Severity::ALL[2..]);
    let bot_ppm = prop::option::of(0..=1_000_000_u32);
    let observe = (
        fingerprint.clone(),
        ip.clone(),
        bot_ppm,
        prop::option::of(0..3_u8),
        keep.clone(),
    );
    prop_oneof![
        10 => observe.prop_map(|(fingerprint, ip, bot_ppm, country, keep)| {
            Call::Observe { fingerprint, ip, bot_ppm, country, keep }
        }),
        3 => (session.clone(), keep.clone()).prop_map(|(session, keep)| Call::Touch { session, keep }),
        3 => session.clone().prop_map(|session| Call::Get { session }),
        2 => session.prop_map(|session| Call::End { session }),
        3 => fingerprint.clone().prop_map(|fingerprint| Call::ByFingerprint { fingerprint }),
        2 => (0..2_u8, 0..3_u8).prop_map(|(scope, nonce)| Call::Consume { scope, nonce }),
        3 => ip.prop_map(|ip| Call::Signal { ip }),
        2 => (severity.clone(), 0..2_u8).prop_map(|(severity, kind)| Call::Push { severity, kind }),
        2 => (severity, 0..=10_000_000_u64, 0..5_usize).prop_map(|(severity, since_us_ago, limit)| {
            Call::Recent { severity, since_us_ago, limit }
        }),
        2 => (0..2_u8, fingerprint, keep)
            .prop_map(|(cluster, fingerprint, keep)| Call::Join { cluster, fingerprint, keep }),
        2 => (0..2_u8).prop_map(|cluster| Call::Members { cluster }),
    ]
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the history was:")?;
        for (nth, step) in self.0.iter().enumerate() {
            writeln!(f, "  {nth}. {step:?}")?;
        }
        Ok(())
    }
}

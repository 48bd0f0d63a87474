//! [`Script`]: a Lua script and its name on the server.

use std::sync::LazyLock;

/// A Lua script, and the SHA1 that a server knows it by.
///
/// # Examples
/// ```
/// use limiter_lua::Script;
///
/// for script in Script::ALL {
///     assert!(script.text().starts_with("-- "));
///     assert_eq!(script.sha1().len(), 40);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Script {
    /// Decides one request under one enforced token bucket of the compact form.
    OneTokenBucket,
    /// Decides one request under two such.
    TwoTokenBuckets,
    /// Decides one request under three such.
    ThreeTokenBuckets,
    /// Decides, peeks or refunds under any chain of plans.
    Chain,
    /// Records, reads, forgives or unblocks attempts under a policy.
    Abuse,
    /// Observes a visit, touches or ends a session.
    #[cfg(feature = "sessions")]
    Visit,
    /// Reads the signals of an address.
    #[cfg(feature = "sessions")]
    Signals,
    /// Puts a member into an index, or lists them.
    #[cfg(feature = "sessions")]
    Index,
    /// Takes an anomaly in, or reads the newest.
    #[cfg(feature = "sessions")]
    Feed,
}

/// What a server is sent.
struct Written {
    text: String,
    sha1: String,
}

impl From<String> for Written {
    fn from(text: String) -> Self {
        let sha1 = sha1_smol::Sha1::from(&text).digest().to_string();
        Self { text, sha1 }
    }
}

#[cfg(not(feature = "sessions"))]
const COUNT: usize = Script::ALL.len();
#[cfg(feature = "sessions")]
const COUNT: usize = Script::ALL.len() + Script::SESSIONS.len();

/// The scripts, in the order of the variants.
static ALONE: LazyLock<[Written; COUNT]> = LazyLock::new(|| {
    [
        token_buckets(1).into(),
        token_buckets(2).into(),
        token_buckets(3).into(),
        include_str!("chain.lua").to_owned().into(),
        include_str!("abuse.lua").to_owned().into(),
        #[cfg(feature = "sessions")]
        include_str!("sessions/visit.lua").to_owned().into(),
        #[cfg(feature = "sessions")]
        include_str!("sessions/signals.lua").to_owned().into(),
        #[cfg(feature = "sessions")]
        include_str!("sessions/index.lua").to_owned().into(),
        #[cfg(feature = "sessions")]
        include_str!("sessions/feed.lua").to_owned().into(),
    ]
});

/// How the scripts ask for the time. In a batch it is asked for once.
const TIME: &str = "redis.call('TIME')";
const TIME_FOR_SHORT: &str = "call('TIME')";
/// What stands before this line depends on no key. In a batch it is done once for all calls with the same arguments.
const FOR_EACH_KEY: &str = "\n-- For each key\n";

/// The same, for several calls at once.
static IN_BATCHES: LazyLock<[Written; COUNT]> = LazyLock::new(|| {
    let in_batches = |alone: &Written| {
        let script = alone.text.replace(TIME, "server_time()");
        let script = script.replace(TIME_FOR_SHORT, "server_time()");
        let (prepare, run) = script.split_once(FOR_EACH_KEY).unwrap_or(("", &script));
        let batch = include_str!("batch.lua").replace("<<prepare>>", prepare);
        Written::from(batch.replace("<<run>>", run))
    };
    ALONE.each_ref().map(in_batches)
});

impl Script {
    /// Every script of the limiters, for those who load them beforehand: the text, and that of the batch.
    pub const ALL: [Self; 5] = [
        Self::OneTokenBucket,
        Self::TwoTokenBuckets,
        Self::ThreeTokenBuckets,
        Self::Chain,
        Self::Abuse,
    ];
    /// Every script of sessions.
    #[cfg(feature = "sessions")]
    pub const SESSIONS: [Self; 4] = [Self::Visit, Self::Signals, Self::Index, Self::Feed];

    /// Returns the script that decides one request under so many enforced token buckets of the compact form, if there is one.
    #[must_use]
    pub const fn for_token_buckets(plans: usize) -> Option<Self> {
        match plans {
            1 => Some(Self::OneTokenBucket),
            2 => Some(Self::TwoTokenBuckets),
            3 => Some(Self::ThreeTokenBuckets),
            _ => None,
        }
    }

    /// Returns the text, as `SCRIPT LOAD` takes it.
    #[must_use]
    pub fn text(self) -> &'static str {
        &self.among(&ALONE).text
    }

    /// Returns the SHA1 of the text in hexadecimal, as `EVALSHA` takes it.
    #[must_use]
    pub fn sha1(self) -> &'static str {
        &self.among(&ALONE).sha1
    }

    /// Returns the text of `batch.lua` around the script, which runs several calls as one.
    #[must_use]
    pub fn batch_text(self) -> &'static str {
        &self.among(&IN_BATCHES).text
    }

    /// Returns the SHA1 of [`batch_text`](Self::batch_text).
    #[must_use]
    pub fn batch_sha1(self) -> &'static str {
        &self.among(&IN_BATCHES).sha1
    }

    #[expect(clippy::indexing_slicing, reason = "there is one for each variant")]
    const fn among(self, all: &'static [Written; COUNT]) -> &'static Written {
        &all[self as usize]
    }
}

/// Writes the script for so many plans, as its template says.
fn token_buckets(plans: usize) -> String {
    let template = include_str!("token_buckets.lua");
    // The comment that explains the marks has some itself.
    let (comment, code) = template.split_once("\n\n").unwrap_or(("", template));
    let mut text = format!("{comment}\n\n");
    for part in code.split("<<") {
        let Some((repeated, rest)) = part.split_once(">>") else {
            text.push_str(part);
            continue;
        };
        let (each, between) = repeated.rsplit_once('|').unwrap_or((repeated, ""));
        let all = (1..=plans).map(|plan| each.replace('$', &plan.to_string()));
        text.push_str(&all.collect::<Vec<_>>().join(between));
        text.push_str(rest);
    }
    // One field needs no list.
    text.replace(
        "unpack(call('HMGET', key, field1))",
        "call('HGET', key, field1)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_has_its_own_text() {
        let begins = |script: Script, name| script.text().starts_with(&format!("-- {name}.lua: "));
        for script in Script::ALL.into_iter().take(3) {
            assert!(begins(script, "token_buckets"));
        }
        assert!(begins(Script::Chain, "chain") && begins(Script::Abuse, "abuse"));
        #[cfg(feature = "sessions")]
        for (script, name) in Script::SESSIONS
            .into_iter()
            .zip(["visit", "signals", "index", "feed"])
        {
            assert!(begins(script, name));
        }
    }

    #[test]
    fn every_script_has_a_form_for_batches_around_its_own_text() {
        let all = Script::ALL.into_iter();
        #[cfg(feature = "sessions")]
        let all = all.chain(Script::SESSIONS);
        for script in all {
            let text = script.batch_text();
            assert!(text.starts_with("-- batch.lua: "), "{script:?}");
            let of_its_own = script
                .text()
                .lines()
                .filter(|line| !line.contains("'TIME'"));
            for line in of_its_own {
                assert!(text.contains(line), "{script:?}: {line}");
            }
            assert_eq!(script.text().matches("call('TIME')").count(), 1);
            assert_eq!(text.matches("call('TIME')").count(), 1, "{text}");
            assert_eq!(text.matches("or server_time()").count(), 1, "{text}");
            let (_, prepared) = text.split_once("prepare(ARGV)\n").unwrap_or_default();
            let prepared = prepared
                .split("return function(KEYS)")
                .next()
                .unwrap_or_default();
            let is_split = prepared.contains("server_time()");
            let is_of_buckets = script.text().starts_with("-- token_buckets.lua");
            assert_eq!(is_split, is_of_buckets, "{script:?}");
            let code = prepared.lines().filter(|line| !line.starts_with("--"));
            assert!(
                !code.clone().any(|line| line.contains("KEYS")),
                "{prepared}"
            );
            assert_ne!(script.batch_sha1(), script.sha1());
        }
    }

    #[test]
    fn a_template_is_written_out_for_each_plan() {
        for plans in 1..=3 {
            let text = Script::for_token_buckets(plans).map_or("", Script::text);
            let code = text.split_once("\n\n").map_or("", |(_, code)| code);
            assert!(!code.contains("<<") && !code.contains(">>") && !code.contains('$'));
            assert_eq!(code.matches("return '?' end").count(), 3 * plans, "{text}");
            assert_eq!(code.contains("HMGET"), plans > 1, "{text}");
        }
        assert_eq!(Script::for_token_buckets(4), None);
    }
}

//! [`Machine`]: the states of a circuit breaker, without a clock or a store of its own.

use std::time::Duration;

use super::call_window::{CallResult, CallWindow, Counts};
use super::silence::Silence;
use super::{BreakerSettings, BreakerState};
use crate::Timestamp;

#[derive(Debug)]
pub(super) struct Machine {
    settings: BreakerSettings,
    phase: Phase,
    /// Counts phases, so that a call that began in an earlier one is not held against this one.
    generation: u64,
    /// How many times in a row the breaker opened without closing in between.
    relapses: u32,
}

#[derive(Debug)]
enum Phase {
    Closed(Box<Recent>),
    Open {
        until: Timestamp,
        lasts: Duration,
    },
    HalfOpen {
        successes: u32,
        /// When the probe began that is under way.
        probe: Option<Timestamp>,
    },
}

/// How calls went of late.
#[derive(Debug)]
struct Recent {
    window: CallWindow,
    silence: Silence,
}

/// The right to make one call, in the phase in which it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permit {
    generation: u64,
}

impl Machine {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            phase: Phase::closed(&settings),
            generation: 0,
            relapses: 0,
        }
    }

    pub(super) const fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed(_) => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Returns a permit, or how long there will be none. `chance` is as in [`tell`](Self::tell).
    pub(super) fn ask(
        &mut self,
        now: Timestamp,
        chance: impl FnOnce() -> u64,
    ) -> Result<Permit, Duration> {
        self.end_overdue_probe(now, chance);
        match &mut self.phase {
            Phase::Closed(_) => {}
            Phase::Open { until, lasts } => {
                // A clock that stepped back must not keep the breaker open for longer than it was meant to be.
                *until = (*until).min(now.saturating_add(*lasts));
                if now < *until {
                    return Err(until.since(now));
                }
                self.enter(Phase::HalfOpen {
                    successes: 0,
                    probe: Some(now),
                });
            }
            Phase::HalfOpen { probe, .. } => {
                if probe.is_some() {
                    return Err(Duration::ZERO);
                }
                *probe = Some(now);
            }
        }
        Ok(Permit {
            generation: self.generation,
        })
    }

    /// Takes the result of a permitted call. `chance` spreads the moments at which many nodes come back; it is drawn only if the
    /// breaker opens.
    pub(super) fn tell(
        &mut self,
        permit: Permit,
        now: Timestamp,
        result: CallResult,
        chance: impl FnOnce() -> u64,
    ) {
        if permit.generation != self.generation {
            return;
        }
        match &mut self.phase {
            Phase::Closed(recent) => {
                if self.settings.are_exceeded(recent, now, result) {
                    self.open(now, chance());
                }
            }
            Phase::HalfOpen { probe, .. }
                if result.failed || result.slow || self.settings.is_overdue(*probe, now) =>
            {
                self.open(now, chance());
            }
            Phase::HalfOpen { successes, probe } => {
                *successes += 1;
                *probe = None;
                if *successes >= self.settings.successes_to_close {
                    self.relapses = 0;
                    self.enter(Phase::closed(&self.settings));
                }
            }
            Phase::Open { .. } => {}
        }
    }

    /// Takes a permit back whose call was given up before anything could be learnt from it.
    pub(super) fn give_up(&mut self, permit: Permit) {
        if permit.generation == self.generation
            && let Phase::HalfOpen { probe, .. } = &mut self.phase
        {
            *probe = None;
        }
    }

    /// Opens again, as of the moment at which the probe had used up its time. Nobody else may ever tell how it went: its caller may
    /// have stopped polling it, and the store may have no deadline.
    fn end_overdue_probe(&mut self, now: Timestamp, chance: impl FnOnce() -> u64) {
        let Phase::HalfOpen { probe, .. } = &mut self.phase else {
            return;
        };
        // A clock that stepped back must not give the probe more time than it was meant to have.
        let began = probe.map(|began| began.min(now));
        *probe = began;
        if let Some(began) = began
            && self.settings.is_overdue(Some(began), now)
        {
            self.open(began.saturating_add(self.settings.probe_limit), chance());
        }
    }

    fn open(&mut self, now: Timestamp, chance: u64) {
        let lasts = self.settings.open_time(self.relapses, chance);
        self.relapses = self.relapses.saturating_add(1);
        self.enter(Phase::Open {
            until: now.saturating_add(lasts),
            lasts,
        });
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation += 1;
    }
}

impl Phase {
    fn closed(settings: &BreakerSettings) -> Self {
        Self::Closed(Box::new(Recent {
            window: CallWindow::new(settings.window),
            silence: Silence::default(),
        }))
    }
}

impl BreakerSettings {
    /// Counts a call that ended `now`, and returns whether the store is to be left alone.
    fn are_exceeded(&self, recent: &mut Recent, now: Timestamp, result: CallResult) -> bool {
        let counts = recent.window.count(now, result);
        recent.silence.count(now, result.unanswered);
        self.are_exceeded_by(counts)
            || recent
                .silence
                .reaches(now, self.silent_calls, self.silent_for)
    }

    fn is_overdue(&self, probe: Option<Timestamp>, now: Timestamp) -> bool {
        probe.is_some_and(|began| now.since(began) >= self.probe_limit)
    }

    fn are_exceeded_by(&self, counts: Counts) -> bool {
        let reaches = |some: u64, percent: u32| some * 100 >= counts.calls * u64::from(percent);
        counts.calls >= u64::from(self.min_calls)
            && (reaches(counts.failed, self.failure_percent)
                || reaches(counts.slow, self.slow_percent))
    }

    /// Doubles with each relapse up to the most, then adds or takes up to a fifth.
    fn open_time(&self, relapses: u32, chance: u64) -> Duration {
        let doubled = self
            .open_for
            .saturating_mul(1u32.checked_shl(relapses).unwrap_or(u32::MAX));
        let steady = u64::try_from(doubled.min(self.open_at_most).as_micros()).unwrap_or(u64::MAX);
        let fifth = steady / 5;
        Duration::from_micros(steady - fifth + chance % (2 * fifth + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OK: CallResult = CallResult {
        failed: false,
        slow: false,
        unanswered: false,
    };
    const FAILED: CallResult = CallResult {
        failed: true,
        slow: false,
        unanswered: true,
    };
    const SLOW: CallResult = CallResult {
        failed: false,
        slow: true,
        unanswered: false,
    };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000 + millis * 1_000).unwrap()
    }

    /// The chance that adds and takes nothing: a fifth of one second, in microseconds.
    const MIDDLE: u64 = 200_000;

    fn middle() -> u64 {
        MIDDLE
    }

    /// Pauses that are told from the times of probes at a glance: from 1 s, doubled up to 30 s.
    fn with_long_pauses() -> BreakerSettings {
        BreakerSettings::new().with_open_for(Duration::from_secs(1), Duration::from_secs(30))
    }

    fn opened(now: Timestamp) -> Machine {
        let mut machine = Machine::new(with_long_pauses());
        call(&mut machine, now, FAILED, 20);
        assert_eq!(machine.state(), BreakerState::Open);
        machine
    }

    fn call(machine: &mut Machine, now: Timestamp, result: CallResult, times: u32) {
        for _ in 0..times {
            let permit = machine.ask(now, middle).unwrap();
            machine.tell(permit, now, result, middle);
        }
    }

    #[test]
    fn opens_when_half_of_enough_calls_fail() {
        let mut machine = Machine::new(BreakerSettings::new());
        call(&mut machine, at(0), OK, 10);
        call(&mut machine, at(1), FAILED, 9);
        assert_eq!(machine.state(), BreakerState::Closed);
        call(&mut machine, at(2), FAILED, 1);
        assert_eq!(machine.state(), BreakerState::Open);
    }

    #[test]
    fn opens_when_most_calls_are_slow() {
        let mut machine = Machine::new(BreakerSettings::new());
        call(&mut machine, at(0), OK, 4);
        call(&mut machine, at(0), SLOW, 15);
        assert_eq!(machine.state(), BreakerState::Closed);
        call(&mut machine, at(0), SLOW, 1);
        assert_eq!(machine.state(), BreakerState::Open);
    }

    #[test]
    fn too_few_calls_do_not_open_it() {
        let mut machine = Machine::new(BreakerSettings::new());
        call(&mut machine, at(0), FAILED, 19);
        assert_eq!(machine.state(), BreakerState::Closed);
    }

    #[test]
    fn open_refuses_until_its_time_is_over_then_lets_one_probe_through() {
        let mut machine = opened(at(0));
        assert_eq!(machine.ask(at(999), middle), Err(Duration::from_millis(1)));
        let probe = machine.ask(at(1000), middle).unwrap();
        assert_eq!(machine.state(), BreakerState::HalfOpen);
        assert_eq!(machine.ask(at(1000), middle), Err(Duration::ZERO));
        machine.tell(probe, at(1001), OK, middle);
        assert!(machine.ask(at(1001), middle).is_ok());
    }

    #[test]
    fn five_good_probes_close_it() {
        let mut machine = opened(at(0));
        call(&mut machine, at(1000), OK, 4);
        assert_eq!(machine.state(), BreakerState::HalfOpen);
        call(&mut machine, at(1000), OK, 1);
        assert_eq!(machine.state(), BreakerState::Closed);
    }

    #[test]
    fn a_bad_or_slow_probe_opens_it_for_twice_as_long() {
        for bad in [FAILED, SLOW] {
            let mut machine = opened(at(0));
            let probe = machine.ask(at(1000), middle).unwrap();
            machine.tell(probe, at(1000), bad, || 2 * MIDDLE);
            assert_eq!(machine.ask(at(1000), middle), Err(Duration::from_secs(2)));
        }
    }

    #[test]
    fn a_probe_that_is_given_up_makes_room_for_the_next() {
        let mut machine = opened(at(0));
        let probe = machine.ask(at(1000), middle).unwrap();
        machine.give_up(probe);
        assert!(machine.ask(at(1000), middle).is_ok());
    }

    #[test]
    fn a_call_from_before_the_opening_is_not_held_against_the_probes() {
        let mut machine = Machine::new(BreakerSettings::new());
        let early = machine.ask(at(0), middle).unwrap();
        call(&mut machine, at(0), FAILED, 20);
        let probe = machine.ask(at(1000), middle).unwrap();
        machine.tell(early, at(1000), FAILED, middle);
        machine.give_up(early);
        assert_eq!(
            machine.ask(at(1000), middle),
            Err(Duration::ZERO),
            "the probe still runs"
        );
        machine.tell(probe, at(1000), OK, middle);
        assert_eq!(machine.state(), BreakerState::HalfOpen);
    }

    #[test]
    fn a_clock_that_steps_back_an_hour_does_not_keep_it_open_for_an_hour() {
        let mut machine = opened(at(3_600_000));
        assert_eq!(machine.ask(at(0), middle), Err(Duration::from_secs(1)));
        assert!(machine.ask(at(1000), middle).is_ok());
    }

    proptest! {
        #[test]
        fn prop_open_time_doubles_and_stays_within_a_fifth(relapses in 0u32..100, chance: u64) {
            let settings = with_long_pauses();
            let steady = Duration::from_secs(1 << relapses.min(5)).min(Duration::from_secs(30));
            let open = settings.open_time(relapses, chance);
            prop_assert!(open >= steady * 4 / 5 && open <= steady * 6 / 5, "{open:?} around {steady:?}");
        }

        #[test]
        fn prop_at_most_one_probe_runs_that_has_time_left(
            steps in prop::collection::vec((0u64..700, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let limit = 500;
            let mut machine = opened(at(0));
            let (mut now, mut probe) = (0, None);
            for (wait, ends, good) in steps {
                now += wait;
                if machine.state() == BreakerState::Closed {
                    break;
                }
                let runs = probe.is_some_and(|(_, began)| now - began < limit);
                match machine.ask(at(now), middle) {
                    Ok(permit) => {
                        prop_assert!(!runs, "two probes");
                        probe = Some((permit, now));
                    }
                    Err(wait) => prop_assert!(
                        !runs || wait.is_zero(),
                        "the probe ended before its time"
                    ),
                }
                if ends && let Some((permit, began)) = probe.take() {
                    let before = machine.state();
                    machine.tell(permit, at(now), if good { OK } else { FAILED }, middle);
                    let counts = now - began < limit;
                    prop_assert!(counts || machine.state() == before, "too late to count");
                }
            }
        }
    }
}

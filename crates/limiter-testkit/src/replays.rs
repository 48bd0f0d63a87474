//! [`replay_all`]: random histories, replayed on a store.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, TestError, TestRunner};

use crate::state_machine::Mismatch;

/// Replays a history on a fresh store.
pub(crate) type Replay<'a, H> =
    dyn Fn(H) -> Pin<Box<dyn Future<Output = Result<(), Mismatch>> + 'a>> + 'a;

/// Replays `cases` random histories; the environment variable `PROPTEST_CASES`, where set, takes the place of `cases`.
/// Failures shrink to the shortest history that shows them; its seed is kept in the file `seeds`, and is tried first the next
/// time.
///
/// # Panics
/// If a history shows that a store differs from the model.
#[expect(clippy::panic, reason = "a store that differs has to fail its test")]
pub(crate) fn replay_all<H: Display>(
    cases: u32,
    seeds: &'static str,
    histories: &impl Strategy<Value = H>,
    replay: &Replay<'_, H>,
) {
    let asked_for = Config::default();
    let cases = match std::env::var_os("PROPTEST_CASES") {
        Some(_) => asked_for.cases,
        None => cases,
    };
    let config = Config {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(seeds))),
        ..asked_for
    };
    let runtime = crate::runtime::runtime();
    let outcome = TestRunner::new(config).run(histories, |history| {
        runtime.block_on(replay(history))?;
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, history)) => panic!("{reason}\n{history}"),
        Err(TestError::Abort(reason)) => panic!("no history could be made: {reason}"),
    }
}

//! The state machine: random histories, in which a store of sessions answers like the model, call by call.

mod history;
mod run;

use std::future::Future;

use proptest::test_runner::{Config, FileFailurePersistence, TestError, TestRunner};

use super::SessionStoreUnderTest;

pub use history::{Call, History, Step, histories};
pub use run::replay;

/// How many histories [`session_laws!`](crate::session_laws) replays if it is told no number.
pub const DEFAULT_CASES: u32 = 64;

/// Replays `cases` random histories on stores made by `make`, and compares every answer with the
/// [`SessionModel`](super::SessionModel).
///
/// The environment variable `PROPTEST_CASES`, where set, takes the place of `cases`. Failures shrink to the shortest
/// history that shows them; its seed is kept in the file `seeds`, and is tried first the next time.
///
/// # Panics
/// If a store differs from the model, with the history that shows it.
#[expect(clippy::panic, reason = "a store that differs has to fail its test")]
pub fn check_against_model<S, F>(cases: u32, seeds: &'static str, make: impl Fn() -> F)
where
    S: SessionStoreUnderTest,
    F: Future<Output = S>,
{
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
    let outcome = TestRunner::new(config).run(&histories(), |history| {
        runtime.block_on(async { replay(&make().await, &history).await })?;
        Ok(())
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, history)) => panic!("{reason}\n{history}"),
        Err(TestError::Abort(reason)) => panic!("no history could be made: {reason}"),
    }
}

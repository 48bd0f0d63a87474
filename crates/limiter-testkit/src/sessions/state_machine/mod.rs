//! The state machine: random histories, in which a store of sessions answers like the model, call by call.

mod history;
mod run;

use std::future::Future;

use super::SessionStoreUnderTest;
use crate::replays::{Replay, replay_all};

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
pub fn check_against_model<S, F>(cases: u32, seeds: &'static str, make: impl Fn() -> F)
where
    S: SessionStoreUnderTest,
    F: Future<Output = S>,
{
    replay_histories(cases, seeds, &|history| {
        let make = &make;
        Box::pin(async move { replay(&make().await, &history).await })
    });
}

/// Apart, as nothing in it depends on the store: it is built here, and not anew for every store.
fn replay_histories(cases: u32, seeds: &'static str, replay: &Replay<'_, History>) {
    replay_all(cases, seeds, &histories(), replay);
}

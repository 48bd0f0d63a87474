//! The state machine: random histories, in which a store answers like the model, call by call.

mod history;
mod limits;
mod run;

use std::future::Future;

use crate::StoreUnderTest;
use crate::replays::{Replay, replay_all};

pub use history::{Call, History, Step, Wait, histories};
pub use limits::{fixed_windows, limits, sliding_windows, suppressing_windows, token_buckets};
pub use run::{Mismatch, replay};

/// How many histories [`store_laws!`](crate::store_laws) replays if it is told no number.
pub const DEFAULT_CASES: u32 = 64;

/// Replays `cases` random histories on stores made by `make`, and compares every answer with the [`Model`](crate::Model).
///
/// The environment variable `PROPTEST_CASES`, where set, takes the place of `cases`. Failures shrink to the shortest
/// history that shows them; its seed is kept in the file `seeds`, and is tried first the next time.
///
/// # Panics
/// If a store differs from the model, with the history that shows it.
pub fn check_against_model<S, F>(cases: u32, seeds: &'static str, make: impl Fn() -> F)
where
    S: StoreUnderTest,
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

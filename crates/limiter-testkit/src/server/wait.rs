use std::thread;
use std::time::{Duration, Instant};

use super::ServerError;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What one look at the awaited state found.
pub(super) enum Seen<T> {
    /// It is there.
    Ready(T),
    /// It is not there yet; the text goes into the error if it never comes.
    NotYet(String),
}

/// Looks again and again until the state is there or `limit` has passed.
///
/// An error of `look` counts as "not yet": servers refuse and break off while they start and fail over.
pub(super) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Seen<T>, ServerError>,
) -> Result<T, ServerError> {
    let started = Instant::now();
    loop {
        let seen = match look() {
            Ok(Seen::Ready(value)) => return Ok(value),
            Ok(Seen::NotYet(seen)) => seen,
            Err(error @ (ServerError::Start { .. } | ServerError::NotFound { .. })) => {
                return Err(error);
            }
            Err(error) => error.to_string(),
        };
        if started.elapsed() >= limit {
            return Err(ServerError::TimedOut {
                what: what.to_owned(),
                limit,
                seen,
            });
        }
        thread::sleep(POLL_INTERVAL);
    }
}

//! [`Failures`]: what went wrong so far with servers that are tried side by side.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::Driver;
use super::destination::NotConnected;

/// What went wrong so far with servers that are tried side by side, while others among them say
/// nothing.
///
/// The last failure counts. One that a person has to mend counts more than others, and what a
/// server says more than what a sentinel says.
#[derive(Debug)]
pub(super) struct Failures<D: Driver>(Mutex<Seen<D>>);

#[derive(Debug)]
struct Seen<D: Driver> {
    of_servers: Option<NotConnected<D::Error>>,
    of_sentinels: Option<NotConnected<D::Error>>,
}

/// So long, others may make good what is misconfigured at one server. Then it is told, though they
/// have not said anything yet.
const MOMENT: Duration = Duration::from_millis(100);

impl<D: Driver> Default for Failures<D> {
    fn default() -> Self {
        Self(Mutex::new(Seen {
            of_servers: None,
            of_sentinels: None,
        }))
    }
}

impl<D: Driver> Failures<D> {
    pub(super) fn note(&self, error: &NotConnected<D::Error>) {
        note::<D>(&mut self.seen().of_servers, error);
    }

    pub(super) fn note_of_sentinel(&self, error: &NotConnected<D::Error>) {
        note::<D>(&mut self.seen().of_sentinels, error);
    }

    /// Returns what is to be told.
    pub(super) fn told(&self) -> Option<NotConnected<D::Error>> {
        let seen = self.seen();
        let told = seen.of_servers.as_ref().or(seen.of_sentinels.as_ref());
        told.cloned()
    }

    /// Waits for an attempt whose failures these are; if it takes longer, tells early what is
    /// misconfigured.
    pub(super) async fn of<T>(
        &self,
        attempt: impl Future<Output = T>,
        tell: impl FnOnce(NotConnected<D::Error>),
    ) -> T {
        let mut attempt = pin!(attempt);
        let misconfigured = loop {
            if let Ok(ended) = timeout(MOMENT, attempt.as_mut()).await {
                return ended;
            }
            if let Some(error) = self.told().filter(NotConnected::is_misconfigured::<D>) {
                break error;
            }
        };
        tell(misconfigured);
        attempt.await
    }

    fn seen(&self) -> MutexGuard<'_, Seen<D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note<D: Driver>(seen: &mut Option<NotConnected<D::Error>>, error: &NotConnected<D::Error>) {
    let is_kept = seen
        .as_ref()
        .is_some_and(NotConnected::is_misconfigured::<D>);
    if !is_kept {
        *seen = Some(error.clone());
    }
}

//! [`Link`]: a connection that is made when it is first needed, and made anew when it breaks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use limiter_core::{Charge, StoreError};
use tokio::sync::watch;

use super::deadline::Sent;
use super::gather::Gather;
use super::{Driver, Job, Route};

/// A connection that is made when it is first needed, and made anew when it breaks.
///
/// Connecting runs in a task of its own, one at a time: a caller whose deadline passes does not stop it, and callers do
/// not crowd a server that is coming back. After a failure there is a pause, longer each time, in which calls fail at once.
#[derive(Debug)]
pub(super) struct Link<D: Driver>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Driver> {
    driver: Arc<D>,
    keeps_apart: bool,
    born: Instant,
    state: Mutex<State<D>>,
    /// Since when calls have gone unanswered, in microseconds after `born`; 0 while they are answered.
    silent_since_us: AtomicU64,
}

#[derive(Debug)]
struct State<D: Driver> {
    live: Option<Live<D>>,
    dialing: Option<watch::Receiver<()>>,
    failed: Option<Failed<D::Error>>,
    generation: u64,
}

/// A connection, and which one in the row of all.
#[derive(Debug)]
pub(super) struct Live<D: Driver> {
    pub(super) connection: D::Connection,
    gather: Arc<Gather<D>>,
    generation: u64,
}

#[derive(Debug)]
struct Failed<E> {
    error: E,
    times: u32,
    retry_at: Instant,
}

/// Says that a connection was not made because the runtime ended that was to make it.
#[derive(Debug, thiserror::Error)]
#[error("the runtime ended while it connected")]
struct RuntimeEnded;

const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// A store that is back is asked again within a second, with a circuit breaker before it, too.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A connection on which nothing was answered for so long is given up, though it looks whole.
const LONGEST_SILENCE: Duration = Duration::from_millis(400);

impl<D: Driver> Clone for Live<D> {
    fn clone(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            gather: Arc::clone(&self.gather),
            generation: self.generation,
        }
    }
}

impl<D: Driver> Live<D> {
    /// Sends `job` where and how `route` says, once, and returns the reply; `sent` is told if it was not sent after all.
    pub(super) async fn send(
        &mut self,
        job: &Job<'_>,
        route: &Route,
        sent: &Sent,
    ) -> Result<D::Reply, D::Error> {
        let (connection, with_text) = (&mut self.connection, route.with_text);
        match &route.redirect {
            Some(node) => {
                let command = D::command(job, with_text);
                Box::pin(D::send_to(connection, command, node)).await
            }
            // What is sent together goes to one node.
            None if job.goes_alone() || D::is_cluster(connection) => {
                D::send(connection, D::command(job, with_text)).await
            }
            None => self.gather.send(connection, job, with_text, sent).await,
        }
    }
}

impl<D: Driver> Link<D> {
    pub(super) fn new(driver: Arc<D>, keeps_apart: bool) -> Self {
        Self(Arc::new(Shared {
            driver,
            keeps_apart,
            born: Instant::now(),
            state: Mutex::new(State {
                live: None,
                dialing: None,
                failed: None,
                generation: 0,
            }),
            silent_since_us: AtomicU64::new(0),
        }))
    }

    /// Returns the connection, making it first if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be made; nothing was sent then.
    ///
    /// # Cancel safety
    /// Connecting goes on if the caller gives up.
    pub(super) async fn live(&self) -> Result<Live<D>, StoreError> {
        let mut abandoned = 0;
        loop {
            let mut dialed = {
                let mut state = self.0.state();
                if let Some(live) = self.0.open(&mut state) {
                    return Ok(live.clone());
                }
                match self.dialing(&mut state) {
                    Ok(dialing) => dialing,
                    Err(error) => {
                        return Err(D::failure_to_connect(&error).into_error(error, false));
                    }
                }
            };
            // An error says that the task is gone that was to connect. If it was another runtime's, this one begins anew; if
            // it was this one's, there is no use in that.
            abandoned += u8::from(dialed.changed().await.is_err());
            if abandoned > 1 {
                return Err(StoreError::unavailable(Charge::Impossible, RuntimeEnded));
            }
        }
    }

    /// Returns the connection if there is one.
    pub(super) fn live_now(&self) -> Option<Live<D>> {
        self.0.open(&mut self.0.state()).cloned()
    }

    /// Returns whether there is a connection; if not, begins to make it.
    pub(super) fn is_ready(&self) -> bool {
        let mut state = self.0.state();
        // That it failed a moment ago is said to who waits for it.
        let is_open = self.0.open(&mut state).is_some();
        if !is_open {
            let _ = self.dialing(&mut state);
        }
        is_open
    }

    /// Returns when the connection is made, and begins to make it if nobody does; or why it was not made a moment ago.
    fn dialing(&self, state: &mut State<D>) -> Result<watch::Receiver<()>, D::Error> {
        // A task that connected and is gone had no time to say so: its runtime ended before it began.
        let is_going_on = |dialing: &&watch::Receiver<()>| dialing.has_changed().is_ok();
        match (state.dialing.as_ref().filter(is_going_on), &state.failed) {
            (Some(dialing), _) => Ok(dialing.clone()),
            (None, Some(failed)) if Instant::now() < failed.retry_at => Err(failed.error.clone()),
            (None, _) => Ok(self.dial(state)),
        }
    }

    /// Sends what waits for its turn in vain.
    pub(super) fn send_overdue(&self) {
        if let Some(live) = self.live_now() {
            live.gather.send_overdue(&live.connection);
        }
    }

    /// Drops a connection that broke, unless it was replaced already.
    pub(super) fn drop_broken(&self, live: &Live<D>) {
        if self.0.driver.is_given() {
            return;
        }
        let mut state = self.0.state();
        let is_this = |now: &Live<D>| now.generation == live.generation;
        if state.live.as_ref().is_some_and(is_this) {
            state.drop_live();
        }
    }

    /// Notes that a call was answered.
    pub(super) fn note_answer(&self) {
        if self.0.silent_since_us.load(Ordering::Relaxed) != 0 {
            self.0.silent_since_us.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that a call that was sent went unanswered; after a long silence the connection is dropped.
    pub(super) fn note_silence(&self) {
        let now_us = u64::try_from(self.0.born.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1);
        let since_us = &self.0.silent_since_us;
        let began = since_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed);
        let Err(began_us) = began else { return };
        if Duration::from_micros(now_us.saturating_sub(began_us)) < LONGEST_SILENCE {
            return;
        }
        let live = self.0.state().live.clone();
        if let Some(live) = live {
            self.drop_broken(&live);
            since_us.store(0, Ordering::Relaxed);
        }
    }

    fn dial(&self, state: &mut State<D>) -> watch::Receiver<()> {
        let (done, dialing) = watch::channel(());
        state.dialing = Some(dialing.clone());
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            // Should connecting panic, the link must not wait for it for ever.
            let guard = DialGuard(&shared);
            let dialed = shared.driver.connect().await;
            shared.finish(dialed);
            drop(guard);
            let _ = done.send(());
        });
        dialing
    }
}

impl<D: Driver> State<D> {
    fn drop_live(&mut self) {
        if let Some(broken) = self.live.take() {
            D::close(broken.connection);
        }
        self.failed = None;
    }
}

struct DialGuard<'a, D: Driver>(&'a Shared<D>);

impl<D: Driver> Drop for DialGuard<'_, D> {
    fn drop(&mut self) {
        self.0.state().dialing = None;
    }
}

impl<D: Driver> Shared<D> {
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection, if there is one and the client has not lost it meanwhile.
    fn open<'a>(&self, state: &'a mut State<D>) -> Option<&'a Live<D>> {
        let is_lost = |live: &Live<D>| !self.driver.is_given() && !D::is_open(&live.connection);
        if state.live.as_ref().is_some_and(is_lost) {
            state.drop_live();
        }
        state.live.as_ref()
    }

    fn finish(&self, dialed: Result<D::Connection, D::Error>) {
        let mut state = self.state();
        match dialed {
            Ok(connection) => {
                state.generation += 1;
                state.live = Some(Live {
                    connection,
                    gather: Arc::new(Gather::new(self.keeps_apart)),
                    generation: state.generation,
                });
                state.failed = None;
            }
            Err(error) => {
                let times = state.failed.as_ref().map_or(0, |failed| failed.times + 1);
                state.failed = Some(Failed {
                    error,
                    times,
                    retry_at: Instant::now() + pause(times),
                });
            }
        }
    }
}

/// Returns how long to leave the server alone after so many failures: twice as long each time, up to half a
/// second, and somewhat at random so that nodes do not come back all at once.
fn pause(times: u32) -> Duration {
    let pause = FIRST_PAUSE
        .saturating_mul(1 << times.min(10))
        .min(LONGEST_PAUSE);
    pause.mul_f64(0.9 + fastrand::f64() / 5.0)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::super::tenfold::{Tenfold, Wire};
    use super::*;
    use tokio::runtime::{Builder, Runtime};
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(10);

    fn link() -> Link<Tenfold> {
        Link::new(Arc::new(Tenfold(Wire::silent().open())), false)
    }

    fn one_thread() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    #[test]
    fn a_runtime_that_ends_before_it_connects_leaves_that_to_the_next() {
        let (link, ended) = (link(), one_thread());
        {
            let _inside = ended.enter();
            assert!(!link.is_ready(), "it begins to connect");
        }
        drop(ended);
        let live = one_thread().block_on(async { timeout(LONG, link.live()).await });
        assert!(live.expect("no wait for ever").is_ok());
    }

    #[test]
    fn a_runtime_that_has_ended_connects_nobody_and_says_so() {
        let (link, ended) = (link(), one_thread());
        let handle = ended.handle().clone();
        drop(ended);
        let mut live = pin!(link.live());
        let live = one_thread().block_on(poll_fn(|context| {
            let _inside = handle.enter();
            live.as_mut().poll(context)
        }));
        assert!(!live.expect_err("no connection").may_have_charged());
        let live = one_thread().block_on(link.live());
        assert!(live.is_ok(), "another runtime connects");
    }
}

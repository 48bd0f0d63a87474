//! [`Link`]: a connection that is made when it is first needed, and made anew when it breaks.

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use limiter_core::StoreError;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use super::attempts::Attempts;
use super::deadline::Sent;
use super::destination::{Destination, NotConnected};
use super::failures::Failures;
use super::first_success::first_success;
use super::gather::Gather;
use super::{Driver, Failure, Job, Node, Route};

/// A connection that is made when it is first needed, and made anew when it breaks.
///
/// Connecting runs in a task of its own, one at a time: a caller whose deadline passes does not stop it, and callers do
/// not crowd a server that is coming back. After an attempt there is a pause, in which calls without a connection fail at once.
#[derive(Debug)]
pub(super) struct Link<D: Driver>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Driver> {
    /// Where connections go; `None` if the one there is is the user's own, and not ours to replace.
    destination: Option<Arc<Destination<D>>>,
    keeps_apart: bool,
    born: Instant,
    state: Mutex<State<D>>,
    /// Since when calls have gone unanswered, in microseconds after `born`; 0 while they are answered.
    silent_since_us: AtomicU64,
}

#[derive(Debug)]
struct State<D: Driver> {
    live: Option<Live<D>>,
    attempts: Attempts<NotConnected<D::Error>>,
    generation: u64,
}

/// A connection, and which one in the row of all.
#[derive(Debug)]
pub(super) struct Live<D: Driver> {
    pub(super) connection: D::Connection,
    gather: Arc<Gather<D>>,
    generation: u64,
}

const RUNTIME_ENDED: &str = "the runtime ended while it connected";
/// After so long, an attempt to connect that stays silent gets another one beside it.
const BEGINS_ANEW: Duration = Duration::from_millis(550);
const SILENT: &str = "the server has not answered for a while";
const LOST: &str = "the connection was lost a moment ago";
/// A connection on which nothing was answered for so long is given up, though it looks whole.
const LONGEST_SILENCE: Duration = Duration::from_millis(400);

impl<D: Driver> Clone for Link<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

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
    fn new(connection: D::Connection, keeps_apart: bool, generation: u64) -> Self {
        Self {
            connection,
            gather: Arc::new(Gather::new(keeps_apart)),
            generation,
        }
    }

    /// Sends `job` how `route` says, once, and returns the reply; `sent` is told if it was not sent after all.
    pub(super) async fn send(
        &mut self,
        job: &Job<'_>,
        route: &Route,
        sent: &Sent<D>,
    ) -> Result<D::Reply, D::Error> {
        let (connection, with_text) = (&mut self.connection, route.with_text);
        match &route.redirect {
            Some(redirect) if D::is_cluster(connection) => {
                let command = D::command(job, with_text);
                Box::pin(D::send_to(connection, command, redirect)).await
            }
            Some(redirect) if redirect.asking => {
                let commands = [Job::bare("ASKING"), job.clone()];
                let commands = commands.iter().map(|job| D::command(job, with_text));
                let sending = D::send_all(connection, commands.collect());
                let [asked, reply] = <[_; 2]>::try_from(Box::pin(sending).await)
                    .unwrap_or_else(|_| [Err(D::lost()), Err(D::lost())]);
                // A call that ran has run, whatever became of the word before it.
                reply.or_else(|error| asked.and(Err(error)))
            }
            // What is sent together goes to one node.
            _ if job.goes_alone() || D::is_cluster(connection) => {
                D::send(connection, D::command(job, with_text)).await
            }
            _ => self.gather.send(connection, job, with_text, sent).await,
        }
    }
}

impl<D: Driver> Link<D> {
    pub(super) fn new(destination: Arc<Destination<D>>, keeps_apart: bool) -> Self {
        Self::with(Some(destination), None, keeps_apart)
    }

    /// Takes a connection of the user's.
    pub(super) fn given(connection: D::Connection, keeps_apart: bool) -> Self {
        Self::with(
            None,
            Some(Live::new(connection, keeps_apart, 0)),
            keeps_apart,
        )
    }

    fn with(
        destination: Option<Arc<Destination<D>>>,
        live: Option<Live<D>>,
        keeps_apart: bool,
    ) -> Self {
        Self(Arc::new(Shared {
            destination,
            keeps_apart,
            born: Instant::now(),
            state: Mutex::new(State {
                live,
                attempts: Attempts::default(),
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
        // What a person has to mend is told until an attempt has succeeded, not only between
        // attempts: one may take long.
        let is_told_at_once = NotConnected::is_misconfigured::<D>;
        let connected = self.connected_unless(is_told_at_once).await;
        connected.map_err(NotConnected::into_error::<D>)
    }

    /// As [`live`](Self::live), with the error as it is, and only when an attempt is over.
    pub(super) async fn connected(&self) -> Result<Live<D>, NotConnected<D::Error>> {
        self.connected_unless(|_| false).await
    }

    async fn connected_unless(
        &self,
        is_told_at_once: impl Fn(&NotConnected<D::Error>) -> bool,
    ) -> Result<Live<D>, NotConnected<D::Error>> {
        let mut abandoned = 0;
        loop {
            let mut connecting = {
                let mut state = self.0.state();
                if let Some(live) = self.0.open(&mut state) {
                    return Ok(live.clone());
                }
                let connecting = self.connecting(&mut state);
                match (connecting, state.attempts.failure()) {
                    (_, Some(error)) if is_told_at_once(error) => return Err(error.clone()),
                    (Ok(connecting), _) => connecting,
                    (Err(error), _) => return Err(error.unwrap_or(NotConnected::Said(LOST))),
                }
            };
            // An error says that the task is gone that was to connect. If it was another runtime's, this one begins anew; if
            // it was this one's, there is no use in that.
            abandoned += u8::from(connecting.changed().await.is_err());
            if abandoned > 1 {
                return Err(NotConnected::Said(RUNTIME_ENDED));
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
        // Why it failed a moment ago is told to a call that waits for it.
        let is_open = self.0.open(&mut state).is_some();
        if !is_open {
            let _ = self.connecting(&mut state);
        }
        is_open
    }

    /// Returns the node that connections go to, if it is always the same.
    pub(super) fn node(&self) -> Option<&Node> {
        self.0.destination.as_ref()?.as_node()
    }

    /// Returns whether the connection is the user's own.
    pub(super) fn is_given(&self) -> bool {
        self.0.destination.is_none()
    }

    /// Returns what tells when the connection is made, and begins to make it if nobody does.
    ///
    /// # Errors
    /// Why there is none, if it is too early for another attempt.
    fn connecting(
        &self,
        state: &mut State<D>,
    ) -> Result<watch::Receiver<()>, Option<NotConnected<D::Error>>> {
        let Some(destination) = self.0.destination.clone() else {
            return Err(None);
        };
        state.attempts.join(|done| {
            let shared = Arc::clone(&self.0);
            tokio::spawn(async move {
                Connecting(&shared).run(&destination, &done).await;
                let _ = done.send(());
            });
        })
    }

    /// Sends what waits for its turn in vain.
    pub(super) fn send_overdue(&self) {
        if let Some(live) = self.live_now() {
            live.gather.send_overdue(&live.connection);
        }
    }

    /// Gives a connection up that is of no use any longer, and says why, unless it was replaced already.
    pub(super) fn give_up(&self, generation: u64, why: NotConnected<D::Error>) {
        if self.is_given() {
            return;
        }
        let mut state = self.0.state();
        let is_this = |now: &Live<D>| now.generation == generation;
        if state.live.as_ref().is_some_and(is_this) {
            state.lose(why);
        }
    }

    /// Looks for a better connection in the background; the one there is goes on until then.
    pub(super) fn replace(&self, generation: u64) {
        let mut state = self.0.state();
        let is_this = |now: &Live<D>| now.generation == generation;
        if state.live.as_ref().is_some_and(is_this) {
            // If it is too early, a later call asks for it again.
            let _ = self.connecting(&mut state);
        }
    }

    /// Notes that a call was answered.
    pub(super) fn note_answer(&self) {
        if self.0.silent_since_us.load(Ordering::Relaxed) != 0 {
            self.0.silent_since_us.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that a call that was sent on a connection went unanswered; after a long silence the connection is given up.
    pub(super) fn note_silence(&self, generation: u64) {
        if self.0.state().generation != generation {
            // It was replaced already.
            return;
        }
        let now_us = u64::try_from(self.0.born.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1);
        let since_us = &self.0.silent_since_us;
        let began = since_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed);
        let Err(began_us) = began else {
            self.ask_for_a_sign_of_life(generation, now_us);
            return;
        };
        if Duration::from_micros(now_us.saturating_sub(began_us)) < LONGEST_SILENCE {
            return;
        }
        self.give_up(generation, NotConnected::Said(SILENT));
    }

    /// Gives a connection up that stays silent, though no other call may follow: callers may be
    /// impatient. One that is merely slower than they are is kept.
    fn ask_for_a_sign_of_life(&self, generation: u64, silent_since_us: u64) {
        let is_this = |live: &Live<D>| live.generation == generation;
        let live = self.live_now().filter(is_this);
        // A call may be dropped where there is no runtime.
        let (Some(mut live), false, Ok(runtime)) = (live, self.is_given(), Handle::try_current())
        else {
            return;
        };
        let link = self.clone();
        runtime.spawn(async move {
            let ping = D::command(&Job::bare("PING"), false);
            let asked = timeout(LONGEST_SILENCE, D::send(&mut live.connection, ping));
            match asked.await {
                Ok(Err(error)) if !matches!(D::failure(&error), Failure::Reply(_)) => {
                    link.give_up(generation, NotConnected::Client(error));
                }
                Ok(_) => link.note_answer(),
                Err(_) => {
                    let since_us = link.0.silent_since_us.load(Ordering::Relaxed);
                    if since_us == silent_since_us {
                        link.give_up(generation, NotConnected::Said(SILENT));
                    }
                }
            }
        });
    }
}

impl<D: Driver> Live<D> {
    /// Returns which connection it is in the row of all.
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }
}

impl<D: Driver> State<D> {
    fn lose(&mut self, why: NotConnected<D::Error>) {
        if let Some(lost) = self.live.take() {
            D::abort(lost.connection);
            self.attempts.note_failure(why);
        }
    }
}

/// An attempt to connect that is under way. Should it panic, the link must not wait for it for ever.
struct Connecting<'a, D: Driver>(&'a Shared<D>);

impl<D: Driver> Connecting<'_, D> {
    async fn run(self, destination: &Destination<D>, done: &watch::Sender<()>) {
        let failures = Failures::default();
        let connected = failures.of(self.connect(destination, &failures), |error| {
            self.0.state().attempts.note_failure(error);
            let _ = done.send(());
        });
        let connected = connected.await;
        self.end(connected);
    }

    /// Connects; begins anew beside an attempt that stays silent. Its first packet may have been
    /// lost, which the kernel does not repeat for a second, and the host may be back long before.
    /// Any other failure ends all of them.
    async fn connect(
        &self,
        destination: &Destination<D>,
        failures: &Failures<D>,
    ) -> Result<D::Connection, NotConnected<D::Error>> {
        let again = iter::repeat_with(async || {
            self.0.state().attempts.note_begun();
            destination.connect(failures).await
        });
        let connected = first_success(again, BEGINS_ANEW, |_| true).await;
        connected.map_err(|error| error.unwrap_or(NotConnected::Said(LOST)))
    }

    fn end(self, connected: Result<D::Connection, NotConnected<D::Error>>) {
        let mut state = self.0.state();
        match connected {
            Ok(connection) => {
                self.0.silent_since_us.store(0, Ordering::Relaxed);
                state.attempts.note_success();
                state.generation += 1;
                let (keeps_apart, nth) = (self.0.keeps_apart, state.generation);
                // One that is replaced ends with the calls that are under way on it.
                state.live = Some(Live::new(connection, keeps_apart, nth));
            }
            Err(error) => state.attempts.note_failure(error),
        }
    }
}

impl<D: Driver> Drop for Connecting<'_, D> {
    fn drop(&mut self) {
        self.0.state().attempts.end();
    }
}

impl<D: Driver> Shared<D> {
    fn state(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the connection, if there is one and the client has not lost it meanwhile.
    fn open<'a>(&self, state: &'a mut State<D>) -> Option<&'a Live<D>> {
        let is_lost = |live: &Live<D>| self.destination.is_some() && !D::is_open(&live.connection);
        if state.live.as_ref().is_some_and(is_lost) {
            state.lose(NotConnected::Said(LOST));
        }
        state.live.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use super::super::tenfold::{Tenfold, Wire};
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    const LONG: Duration = Duration::from_secs(10);

    fn link() -> Link<Tenfold> {
        let driver = Arc::new(Tenfold(Wire::silent().open()));
        Link::new(Arc::new(Destination::local(driver, LONG)), false)
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

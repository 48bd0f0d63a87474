//! [`Runner`]: runs jobs on a server, each before its deadline, and none twice that may have run.

use std::pin::{Pin, pin};
use std::time::Duration;

use limiter_core::math::Draw;
use limiter_core::{
    AbuseVerdict, Cost, Key, Limit, Plan, Refund, StoreError, Timestamp, Verdict, check_request,
};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, timeout};

use super::deadline::Sent;
use super::destination::NotConnected;
use super::failure::settled;
use super::link::{Link, Live};
use super::pool::Pool;
use super::router::Router;
use super::slots::Slots;
use super::unanswered::Unanswered;
use super::{Driver, Failure, Job, Node, Route, Servers, Settings};
use crate::{AbuseCall, Answer, BadReply, Call, Fault, KeyLayout, field};

/// Runs jobs on a server: each answers or fails before its deadline, and none is sent again that may have run.
///
/// # Cancel safety
/// A dropped call may still take effect, once: what was sent is not called back.
#[derive(Debug)]
pub struct Runner<D: Driver> {
    router: Router<D>,
    settings: Settings,
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);
/// After so long, a call that is not answered is looked after: well before its deadline, and later than most replies come.
const PATIENCE: Duration = Duration::from_millis(5);
/// A cluster is changing if it sends a call on more often than that: the call waits a little between attempts then.
const REDIRECTIONS_AT_ONCE: u32 = 2;

impl<D: Driver> Runner<D> {
    /// Makes a runner that connects to `servers` by itself. Nothing is connected yet.
    #[must_use]
    pub fn new(driver: D, servers: Servers, settings: Settings) -> Self {
        let router = Router::new(driver, servers, &settings);
        Self { router, settings }
    }

    /// Makes a runner on connections that are there already; `None` if there is none.
    #[must_use]
    pub fn on(
        connections: impl IntoIterator<Item = D::Connection>,
        settings: Settings,
    ) -> Option<Self> {
        let pool = Pool::given(connections, settings.keeps_calls_apart)?;
        let router = Router::Pool(pool);
        Some(Self { router, settings })
    }

    /// Returns where the state of a key is kept.
    #[must_use]
    pub const fn layout(&self) -> &KeyLayout {
        &self.settings.layout
    }

    /// Returns whether every call is sent with its own keys alone.
    #[cfg(feature = "sessions")]
    pub(crate) const fn keeps_calls_apart(&self) -> bool {
        self.settings.keeps_calls_apart
    }

    /// Returns the moment to decide at, if it is not the server's own.
    #[must_use]
    pub fn manual_now(&self) -> Option<Timestamp> {
        self.settings.clock.as_ref().map(|clock| clock.now())
    }

    /// Spends `cost` if every enforced plan allows it.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no usable answer in time.
    pub async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let draws = plans
            .iter()
            .any(|plan| matches!(plan.limit(), Limit::SuppressingWindow(_)));
        let draw = if draws {
            Draw::from_random(self.settings.random.next_u64())
        } else {
            Draw::LOWEST
        };
        let call = self.timed(Call::acquire(self.layout(), key, plans, cost, draw)?);
        self.run(&call).await
    }

    /// Says what [`try_acquire`](Self::try_acquire) would, and changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no usable answer in time.
    pub async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        let call = self.timed(Call::peek(self.layout(), key, plans, cost)?);
        self.run(&call).await
    }

    /// Gives units of one charge back under each of `plans`.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no usable answer in time.
    pub async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        let call = self.timed(Call::refund(self.layout(), key, plans, refund)?);
        self.run(&call).await
    }

    /// Forgets `plans` of `key`.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no usable answer in time.
    pub async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        check_request(plans, None)?;
        let name = self.layout().name(key);
        let fields = plans.iter().map(|plan| field(plan.name()));
        let forget = Job::command("HDEL", &name).args(fields);
        self.ask_for(&forget, self.settings.deadline, count::<D>)
            .await
    }

    /// Runs a call about attempts.
    ///
    /// # Errors
    /// [`StoreError`] if the store gave no usable answer in time.
    pub async fn attempt(&self, call: AbuseCall<'_>) -> Result<AbuseVerdict, StoreError> {
        let call = match self.manual_now() {
            Some(now) => call.at(now),
            None => call,
        };
        let read = |reply: D::Reply| call.answer(bytes::<D>(&reply)?);
        self.ask_for(&call.job(), self.settings.deadline, read)
            .await
    }

    fn timed<'a>(&self, call: Call<'a>) -> Call<'a> {
        match self.manual_now() {
            Some(now) => call.at(now),
            None => call,
        }
    }

    async fn run(&self, call: &Call<'_>) -> Result<Verdict, StoreError> {
        let mut unanswered = Unanswered::new(&self.router);
        let answer = {
            let sent = unanswered.sent();
            let running = pin!(self.verdict(call, sent));
            self.within(self.settings.deadline, running, sent).await
        };
        let Some(verdict) = answer else {
            return Err(unanswered.deadline_passed(self.settings.deadline, call.writes()));
        };
        unanswered.note_answer();
        verdict.map_err(|error| settled(error, call.writes()))
    }

    async fn verdict(&self, call: &Call<'_>, sent: &Sent<D>) -> Result<Verdict, StoreError> {
        let reply = self.reply(&call.job(), &Route::FIRST, sent).await?;
        let answer = bytes::<D>(&reply).and_then(|reply| call.answer(reply));
        match understood(answer, sent)? {
            Answer::Verdict(verdict) => Ok(verdict),
            Answer::Ask(other) => Box::pin(self.verdict(&other, sent)).await,
        }
    }

    /// Does a job before its deadline.
    ///
    /// # Errors
    /// [`StoreError`] if there was no reply in time, or it was an error.
    pub async fn ask(&self, job: &Job<'_>) -> Result<D::Reply, StoreError> {
        self.ask_for(job, self.settings.deadline, Ok).await
    }

    /// Does a job in the time that is `left` of its deadline, and reads the reply.
    ///
    /// # Errors
    /// [`StoreError`] if there was no reply in time, or it was an error, or `read` says that it is not one to this job.
    pub async fn ask_for<T>(
        &self,
        job: &Job<'_>,
        left: Duration,
        read: impl FnOnce(D::Reply) -> Result<T, BadReply>,
    ) -> Result<T, StoreError> {
        self.ask_by(job, &Route::FIRST, left, read).await
    }

    /// As [`ask_for`](Self::ask_for), of the server that `route` names.
    ///
    /// # Errors
    /// [`StoreError`] if there was no reply in time, or it was an error, or `read` says that it is not one to this job.
    pub async fn ask_by<T>(
        &self,
        job: &Job<'_>,
        route: &Route,
        left: Duration,
        read: impl FnOnce(D::Reply) -> Result<T, BadReply>,
    ) -> Result<T, StoreError> {
        let mut unanswered = Unanswered::new(&self.router);
        let answer = {
            let sent = unanswered.sent();
            let running = pin!(self.reply(job, route, sent));
            self.within(left, running, sent).await
        };
        let Some(reply) = answer else {
            return Err(unanswered.deadline_passed(self.settings.deadline, job.writes()));
        };
        unanswered.note_answer();
        let said = understood(read(reply?), unanswered.sent());
        said.map_err(|error| settled(error, job.writes()))
    }

    /// Waits for a call for as long as it may take; after a while it looks whether the call waits in vain to be sent.
    ///
    /// What is known of a call that was not answered is known once its future is dropped.
    async fn within<T>(
        &self,
        limit: Duration,
        mut running: Pin<&mut impl Future<Output = Result<T, StoreError>>>,
        sent: &Sent<D>,
    ) -> Option<Result<T, StoreError>> {
        let began = Instant::now();
        // One timer at a time, and the second is rarely needed.
        let failed = match timeout(PATIENCE.min(limit / 4), running.as_mut()).await {
            Ok(Ok(done)) => return Some(Ok(done)),
            Ok(Err(error)) => Some(Box::pin(in_turn(error))),
            Err(_) => None,
        };
        if let Some(error) = failed {
            return Some(Err(error.await));
        }
        let left = limit.saturating_sub(began.elapsed());
        if left.is_zero() {
            return None;
        }
        if let Some(link) = sent.link() {
            link.send_overdue();
        }
        timeout(left, running).await.ok()
    }

    /// Returns whether calls go to a cluster; if that is for a connection of the user's to tell, before the deadline.
    ///
    /// # Errors
    /// [`StoreError`] if there is no connection.
    pub async fn is_cluster(&self) -> Result<bool, StoreError> {
        match &self.router {
            Router::Cluster(_) => Ok(true),
            Router::Pool(pool) if !pool.is_given() => Ok(false),
            Router::Pool(pool) => match pool.pick().live().await {
                Ok(live) => Ok(D::is_cluster(&live.connection)),
                Err(error) => Err(in_turn(error).await),
            },
        }
    }

    /// Returns the nodes of a cluster that serve slots, and whether these are all of them, in the time that is `left`.
    ///
    /// # Errors
    /// [`StoreError`] if no node could tell.
    pub async fn primaries(&self, left: Duration) -> Result<(Vec<Node>, bool), StoreError> {
        let Router::Cluster(cluster) = &self.router else {
            let slots = Job::bare("CLUSTER").arg(b"SLOTS");
            let read = |reply| Slots::read(&D::reply(reply), None, &self.settings.address_map);
            let malformed = BadReply::Malformed { len: 0 };
            let slots = self.ask_for(&slots, left, |reply| read(reply).ok_or(malformed));
            return slots.await.map(Slots::primaries);
        };
        let mut unanswered = Unanswered::new(&self.router);
        let Ok(known) = timeout(left, cluster.primaries()).await else {
            return Err(unanswered.deadline_passed(self.settings.deadline, false));
        };
        unanswered.note_answer();
        match known {
            Ok(known) => Ok(known),
            Err(error) => Err(in_turn(error).await),
        }
    }

    /// Returns how long a call may take.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.settings.deadline
    }

    /// Sends a job until it is answered, or fails in a way that does not rule out that it ran.
    ///
    /// What is rare is boxed: the future of a call is made and moved for every call, and its size is its cost.
    async fn reply(
        &self,
        job: &Job<'_>,
        route: &Route,
        sent: &Sent<D>,
    ) -> Result<D::Reply, StoreError> {
        let (link, mut live) = match self.connected_now(job, route) {
            Some(connected) => connected,
            None => Box::pin(self.connected(job, route)).await?,
        };
        sent.on(&link, &live);
        match live.send(job, route, sent).await {
            Ok(reply) => {
                link.note_answer();
                Ok(reply)
            }
            Err(error) => {
                let route = route.clone();
                Box::pin(self.reply_after(error, link, live, job, route, sent)).await
            }
        }
    }

    fn connected_now(&self, job: &Job<'_>, route: &Route) -> Option<(Link<D>, Live<D>)> {
        let link = self.router.link_now(job, route.redirect.as_ref())?;
        let live = link.live_now()?;
        Some((link, live))
    }

    /// Returns the link for a job and its connection, making it first if there is none.
    async fn connected(
        &self,
        job: &Job<'_>,
        route: &Route,
    ) -> Result<(Link<D>, Live<D>), StoreError> {
        let link = self.router.link(job, route.redirect.as_ref()).await?;
        let live = link.live().await;
        let live = live.inspect_err(|_| self.router.note_trouble())?;
        Ok((link, live))
    }

    /// Goes on with a job that was answered with `error` on a connection.
    async fn reply_after(
        &self,
        mut error: D::Error,
        mut link: Link<D>,
        mut live: Live<D>,
        job: &Job<'_>,
        mut route: Route,
        sent: &Sent<D>,
    ) -> Result<D::Reply, StoreError> {
        let (mut pause, mut redirections) = (FIRST_PAUSE, 0);
        loop {
            match D::failure(&error) {
                Failure::Reply(fault) => {
                    link.note_answer();
                    sent.back();
                    let again = fault.is_retried()
                        && self.prepare_retry(fault, &error, job, (&link, &live), &mut route);
                    if !again {
                        return Err(settled(fault.into_error(error), job.writes()));
                    }
                    redirections += u32::from(route.redirect.is_some());
                    let is_sent_elsewhere =
                        route.redirect.is_some() && redirections <= REDIRECTIONS_AT_ONCE;
                    if fault != Fault::NoScript && !is_sent_elsewhere {
                        // Nodes whose calls failed at the same moment do not come back at the same moment.
                        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    }
                }
                failure => {
                    let why = NotConnected::Client(error.clone());
                    link.give_up(live.generation(), why);
                    self.router.note_trouble();
                    return Err(failure.into_error(error, job.writes()));
                }
            }
            (link, live) = self.connected(job, &route).await?;
            sent.on(&link, &live);
            error = match live.send(job, &route, sent).await {
                Ok(reply) => {
                    link.note_answer();
                    return Ok(reply);
                }
                Err(error) => error,
            };
        }
    }

    /// Makes ready to send again what did not run; returns whether that makes sense.
    fn prepare_retry(
        &self,
        fault: Fault,
        error: &D::Error,
        job: &Job<'_>,
        (link, live): (&Link<D>, &Live<D>),
        route: &mut Route,
    ) -> bool {
        match fault {
            Fault::NoScript => route.with_text = true,
            Fault::Moved | Fault::Ask => {
                let (from, asking) = ((link, live), fault == Fault::Ask);
                return self.router.follow(from, job, error, asking, route);
            }
            _ => {
                route.redirect = None;
                if fault == Fault::Demoted {
                    link.replace(live.generation());
                }
            }
        }
        true
    }
}

/// Returns an answer; if it was read from a reply that is not one to its call, gives up the connection: whose replies come on it
/// now, nobody knows.
fn understood<T, D: Driver>(answer: Result<T, BadReply>, sent: &Sent<D>) -> Result<T, StoreError> {
    answer.map_err(|bad| {
        if bad.is_out_of_step() {
            sent.give_up_connection();
        }
        bad.into()
    })
}

/// Returns the error of a call that failed early, now or when other tasks have had a turn.
///
/// The call may never have waited. A task that makes such calls in a loop would keep its thread to itself, and a runtime from
/// ending. One that failed late has waited, and its caller is not kept any longer.
async fn in_turn(error: StoreError) -> StoreError {
    consume_budget().await;
    error
}

/// Reads a reply that is to be a count of what was forgotten, whatever the count.
fn count<D: Driver>(reply: D::Reply) -> Result<(), BadReply> {
    let count = D::reply(reply).number();
    count.map(drop).ok_or(BadReply::Malformed { len: 0 })
}

fn bytes<D: Driver>(reply: &D::Reply) -> Result<&[u8], BadReply> {
    D::bytes(reply).ok_or(BadReply::Malformed { len: 0 })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::super::tenfold::{Tenfold, Wire};
    use super::*;
    use tokio::runtime::{Builder, Runtime};
    use tokio::task::coop::has_budget_remaining;
    use tokio::task::yield_now;

    fn one_thread() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn runner(wire: &Wire, deadline: Duration) -> Arc<Runner<Tenfold>> {
        let settings = Settings {
            deadline,
            ..Settings::default()
        };
        Arc::new(Runner::new(Tenfold(wire.clone()), Servers::Local, settings))
    }

    fn job() -> Job<'static> {
        Job::command("GET", b"key")
    }

    /// Lets the wire carry one call, so that those after it wait for their turn.
    async fn busy(runner: &Arc<Runner<Tenfold>>, wire: &Wire) {
        let first = Arc::clone(runner);
        tokio::spawn(async move { first.ask(&job()).await });
        while wire.sent().is_empty() {
            yield_now().await;
        }
    }

    /// Makes a call on a runtime, and lets it wait for its turn.
    fn begin(runtime: &Runtime, call: Pin<&mut impl Future>) {
        let _inside = runtime.enter();
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(call.poll(&mut nobody).is_pending());
    }

    #[test]
    fn a_call_is_looked_after_whose_turn_does_not_come() {
        let wire = Wire::silent();
        let runner = runner(&wire, Duration::from_secs(10));
        let (stuck, lasting) = (one_thread(), one_thread());
        lasting.block_on(busy(&runner, &wire));
        let job = job();
        let mut second = pin!(runner.ask(&job));
        begin(&stuck, second.as_mut());
        wire.may_reply.add_permits(10);
        let third = lasting.block_on(runner.ask(&job));
        assert_eq!(third.expect("an answer"), 0);
        assert_eq!(wire.sent(), [vec![0], vec![0, 0]]);
    }

    #[tokio::test]
    async fn a_job_that_goes_alone_does_not_wait_for_others() {
        for (job, together) in [(job(), vec![1, 2]), (job().alone(), vec![1, 1, 1])] {
            let wire = Wire::silent();
            let runner = runner(&wire, Duration::from_secs(10));
            busy(&runner, &wire).await;
            let calls: Vec<_> = (0..2)
                .map(|_| {
                    let (runner, job) = (Arc::clone(&runner), job.clone());
                    tokio::spawn(async move { runner.ask(&job).await })
                })
                .collect();
            wire.may_reply.add_permits(1);
            for call in calls {
                assert_eq!(call.await.unwrap().expect("an answer"), 0);
            }
            let lengths: Vec<usize> = wire.sent().iter().map(Vec::len).collect();
            assert_eq!(lengths, together, "{job:?}");
        }
    }

    /// After the first, calls fail without a wait: the server refused a connection a moment ago.
    #[tokio::test]
    async fn a_task_whose_calls_fail_at_once_lets_others_get_on() {
        const CALLS: usize = 20_000;
        let mut wire = Wire::silent();
        wire.refuses = true;
        let runner = runner(&wire, Duration::from_secs(10));
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        let before = turns.load(Ordering::Relaxed);
        for _ in 0..CALLS {
            let error = runner.ask(&job()).await.expect_err("no connection");
            assert!(!error.may_have_charged(), "{error:?}");
        }
        let turns = turns.load(Ordering::Relaxed) - before;
        assert!(turns > CALLS / 500, "{turns} turns beside {CALLS} calls");
        other.abort();
    }

    /// The thread was busy until both the deadline and another one around the call had passed: the call itself is heard first,
    /// however little its task may still do in this turn.
    #[tokio::test]
    async fn a_call_that_is_late_is_kept_no_longer() {
        let deadline = Duration::from_millis(20);
        let runner = runner(&Wire::silent(), deadline);
        let mut whole = 0;
        while has_budget_remaining() {
            consume_budget().await;
            whole += 1;
        }
        for left in 0..8 {
            let job = job();
            let mut call = pin!(timeout(2 * deadline, runner.ask(&job)));
            yield_now().await;
            assert!(poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending())).await);
            std::thread::sleep(3 * deadline);
            yield_now().await;
            for _ in left..whole {
                consume_budget().await;
            }
            let said = call.await.expect("the call is heard");
            assert!(said.is_err(), "with {left} of {whole} left");
        }
    }

    /// The one thread is busy from when the call waits for its turn until after the deadline.
    #[test]
    fn a_call_that_was_never_sent_has_not_charged() {
        let (wire, deadline) = (Wire::silent(), Duration::from_millis(20));
        let (runner, runtime) = (runner(&wire, deadline), one_thread());
        runtime.block_on(busy(&runner, &wire));
        let job = job();
        let mut call = pin!(runner.ask(&job));
        begin(&runtime, call.as_mut());
        std::thread::sleep(2 * deadline);
        let error = runtime.block_on(call).expect_err("too late");
        assert!(error.is_outage() && !error.may_have_charged(), "{error:?}");
        assert_eq!(wire.sent(), [[0]]);
    }
}

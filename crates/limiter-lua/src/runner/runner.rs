//! [`Runner`]: runs jobs on a server, each before its deadline, and none twice that may have run.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use limiter_core::math::Draw;
use limiter_core::{
    AbuseVerdict, Cost, Key, Limit, Plan, Refund, StoreError, Timestamp, Verdict, check_request,
};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, timeout};

use super::deadline::Sent;
use super::failure::settled;
use super::link::{Link, Live};
use super::pool::Pool;
use super::{Driver, Failure, Job, Route, Settings};
use crate::{AbuseCall, Answer, BadReply, Call, Fault, KeyLayout, field};

/// Runs jobs on a server: each answers or fails before its deadline, and none is sent again that may have run.
///
/// # Cancel safety
/// A dropped call may still take effect, once: what was sent is not called back.
#[derive(Debug)]
pub struct Runner<D: Driver> {
    pool: Pool<D>,
    settings: Settings,
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(16);
/// After so long, a call that is not answered is looked after: well before its deadline, and later than most replies come.
const PATIENCE: Duration = Duration::from_millis(5);

impl<D: Driver> Runner<D> {
    /// Makes a runner that connects as often as the settings say. Nothing is connected yet.
    #[must_use]
    pub fn new(driver: D, settings: Settings) -> Self {
        let driver = Arc::new(driver);
        let others = (1..settings.connections.get()).map(|_| Arc::clone(&driver));
        let pool = Pool::new(Arc::clone(&driver), others, settings.keeps_calls_apart);
        Self { pool, settings }
    }

    /// Makes a runner on connections that are there already, a driver for each.
    #[must_use]
    pub fn over(first: D, others: impl IntoIterator<Item = D>, settings: Settings) -> Self {
        let others = others.into_iter().map(Arc::new);
        let pool = Pool::new(Arc::new(first), others, settings.keeps_calls_apart);
        Self { pool, settings }
    }

    /// Returns where the state of a key is kept.
    #[must_use]
    pub const fn layout(&self) -> &KeyLayout {
        &self.settings.layout
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
        self.ask(&Job::command("HDEL", &name).args(fields))
            .await
            .map(drop)
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
        let reply = self.ask(&call.job()).await?;
        let verdict = bytes::<D>(&reply).and_then(|reply| call.answer(reply));
        verdict.map_err(|bad| settled(bad.into(), call.writes()))
    }

    fn timed<'a>(&self, call: Call<'a>) -> Call<'a> {
        match self.manual_now() {
            Some(now) => call.at(now),
            None => call,
        }
    }

    async fn run(&self, call: &Call<'_>) -> Result<Verdict, StoreError> {
        let sent = Sent::default();
        let answer = {
            let running = pin!(self.verdict(call, &sent));
            self.within(self.settings.deadline, running, &sent).await
        };
        match answer {
            Some(verdict) => verdict.map_err(|error| settled(error, call.writes())),
            None => Err(self.deadline_passed(&sent, call.writes())),
        }
    }

    async fn verdict(&self, call: &Call<'_>, sent: &Sent) -> Result<Verdict, StoreError> {
        let reply = self.reply(&call.job(), &Route::FIRST, sent).await?;
        match call.answer(bytes::<D>(&reply)?)? {
            Answer::Verdict(verdict) => Ok(verdict),
            Answer::Ask(other) => Box::pin(self.verdict(&other, sent)).await,
        }
    }

    /// Does a job before its deadline.
    ///
    /// # Errors
    /// [`StoreError`] if there was no reply in time, or it was an error.
    pub async fn ask(&self, job: &Job<'_>) -> Result<D::Reply, StoreError> {
        self.ask_by(job, &Route::FIRST, self.settings.deadline)
            .await
    }

    /// Does a job as `route` says, in the time that is `left` of its deadline.
    ///
    /// # Errors
    /// [`StoreError`] if there was no reply in time, or it was an error.
    pub async fn ask_by(
        &self,
        job: &Job<'_>,
        route: &Route,
        left: Duration,
    ) -> Result<D::Reply, StoreError> {
        let sent = Sent::default();
        let answer = {
            let running = pin!(self.reply(job, route, &sent));
            self.within(left, running, &sent).await
        };
        match answer {
            Some(reply) => reply,
            None => Err(self.deadline_passed(&sent, job.writes())),
        }
    }

    /// Waits for a call for as long as it may take; after a while it looks whether the call waits in vain to be sent.
    ///
    /// What is known of a call that was not answered is known once its future is dropped.
    async fn within<T>(
        &self,
        limit: Duration,
        mut running: Pin<&mut impl Future<Output = Result<T, StoreError>>>,
        sent: &Sent,
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
            self.pool.get(link).send_overdue();
        }
        timeout(left, running).await.ok()
    }

    /// Returns whether calls go to a cluster; connects first, before the deadline.
    ///
    /// # Errors
    /// [`StoreError`] if there is no connection.
    pub async fn is_cluster(&self) -> Result<bool, StoreError> {
        let (sent, (_, link)) = (Sent::default(), self.pool.pick());
        match timeout(self.settings.deadline, link.live()).await {
            Ok(Ok(live)) => Ok(D::is_cluster(&live.connection)),
            Ok(Err(error)) => Err(in_turn(error).await),
            Err(_) => Err(self.deadline_passed(&sent, false)),
        }
    }

    /// Returns how long a call may take.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.settings.deadline
    }

    fn deadline_passed(&self, sent: &Sent, writes: bool) -> StoreError {
        if let Some(link) = sent.link() {
            self.pool.get(link).note_silence();
        }
        sent.deadline_passed(self.settings.deadline, writes)
    }

    /// Sends a job until it is answered, or fails in a way that does not rule out that it ran.
    ///
    /// What is rare is boxed: the future of a call is made and moved for every call, and its size is its cost.
    async fn reply(
        &self,
        job: &Job<'_>,
        route: &Route,
        sent: &Sent,
    ) -> Result<D::Reply, StoreError> {
        let (nth, link) = self.pool.pick();
        let mut live = match link.live_now() {
            Some(live) => live,
            None => Box::pin(link.live()).await?,
        };
        sent.on(nth);
        match live.send(job, route, sent).await {
            Ok(reply) => {
                link.note_answer();
                Ok(reply)
            }
            Err(error) => {
                let route = route.clone();
                Box::pin(self.reply_after(error, nth, live, job, route, sent)).await
            }
        }
    }

    /// Goes on with a job that was answered with `error` on the link of that number.
    async fn reply_after(
        &self,
        mut error: D::Error,
        mut nth: usize,
        mut live: Live<D>,
        job: &Job<'_>,
        mut route: Route,
        sent: &Sent,
    ) -> Result<D::Reply, StoreError> {
        let mut pause = FIRST_PAUSE;
        loop {
            let link = self.pool.get(nth);
            match D::failure(&error) {
                Failure::Reply(fault) => {
                    link.note_answer();
                    sent.back();
                    if !fault.is_retried() || !link.prepare_retry(fault, &error, &live, &mut route)
                    {
                        return Err(settled(fault.into_error(error), job.writes()));
                    }
                    if matches!(fault, Fault::NotNow | Fault::Demoted) {
                        sleep(pause).await;
                        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    }
                }
                failure => {
                    // A cluster's client renews what it lost of many connections; the others are still good.
                    if !D::is_cluster(&live.connection) {
                        link.drop_broken(&live);
                    }
                    return Err(failure.into_error(error, job.writes()));
                }
            }
            let (next, link) = self.pool.pick();
            (nth, live) = (next, link.live().await?);
            sent.on(nth);
            error = match live.send(job, &route, sent).await {
                Ok(reply) => {
                    link.note_answer();
                    return Ok(reply);
                }
                Err(error) => error,
            };
        }
    }
}

impl<D: Driver> Link<D> {
    /// Makes ready to send again what did not run; returns whether that makes sense.
    fn prepare_retry(
        &self,
        fault: Fault,
        error: &D::Error,
        live: &Live<D>,
        route: &mut Route,
    ) -> bool {
        let is_cluster = D::is_cluster(&live.connection);
        match fault {
            Fault::NoScript => route.with_text = true,
            Fault::Moved | Fault::Ask => {
                route.redirect = D::redirect(error, fault == Fault::Ask);
                // Elsewhere a redirection leads nowhere.
                return is_cluster;
            }
            _ => {
                route.redirect = None;
                if fault == Fault::Demoted && !is_cluster {
                    self.drop_broken(live);
                }
            }
        }
        true
    }
}

/// Returns the error of a call that failed early, now or when other tasks have had a turn.
///
/// The call may never have waited. A task that makes such calls in a loop would keep its thread to itself, and a runtime from
/// ending. One that failed late has waited, and its caller is not kept any longer.
async fn in_turn(error: StoreError) -> StoreError {
    consume_budget().await;
    error
}

fn bytes<D: Driver>(reply: &D::Reply) -> Result<&[u8], BadReply> {
    D::bytes(reply).ok_or(BadReply::Malformed { len: 0 })
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
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
        Arc::new(Runner::new(Tenfold(wire.clone()), settings))
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
        for asks in [true, false] {
            let before = turns.load(Ordering::Relaxed);
            for _ in 0..CALLS {
                let error = if asks {
                    runner.ask(&job()).await.expect_err("no connection")
                } else {
                    runner.is_cluster().await.expect_err("no connection")
                };
                assert!(!error.may_have_charged(), "{error:?}");
            }
            let turns = turns.load(Ordering::Relaxed) - before;
            assert!(turns > CALLS / 500, "{turns} turns beside {CALLS} calls");
        }
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

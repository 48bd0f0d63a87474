//! [`Gather`]: sends what is ready at the same time in one go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::deadline::Sent;
use super::departure::Outcome;
use super::owned_job::OwnedJob;
use super::waiting::{Next, Waiting};
use super::{Driver, Job};

/// The jobs on one connection that wait to be sent together.
///
/// A lone job is sent at once. One that comes while others are under way waits for a turn: until every task has run that
/// is ready on the thread of the first. All that came until then is written by one call of the system, and read by one. Should
/// the thread not come to that, because a task blocks it or its runtime is not driven, whoever comes next sends what is
/// overdue, or whoever [looks after it](Self::send_overdue).
#[derive(Debug)]
pub(super) struct Gather<D: Driver> {
    under_way: AtomicUsize,
    waiting: Mutex<Waiting<D>>,
}

/// How long a turn takes at most. Microseconds are the rule: what has waited longer will go on waiting.
const TURN: Duration = Duration::from_millis(1);

impl<D: Driver> Gather<D> {
    /// Makes one that sends several calls as one, or, if so told, keeps each call apart.
    pub(super) fn new(keeps_apart: bool) -> Self {
        Self::with_turn(TURN, keeps_apart)
    }

    fn with_turn(turn: Duration, keeps_apart: bool) -> Self {
        Self {
            under_way: AtomicUsize::new(0),
            waiting: Mutex::new(Waiting::new(turn, keeps_apart)),
        }
    }

    /// Does a job on `connection`, alone or with others, and returns its reply; its script goes with its text if so told.
    /// `sent` was told that the job is on its way, and is told otherwise if the caller gives up before it is.
    ///
    /// # Cancel safety
    /// A job that waits is not sent if its caller gives up.
    pub(super) async fn send(
        self: &Arc<Self>,
        connection: &mut D::Connection,
        job: &Job<'_>,
        with_text: bool,
        sent: &Sent<D>,
    ) -> Result<D::Reply, D::Error> {
        let under_way = UnderWay::begin(&self.under_way);
        if under_way.is_alone {
            return D::send(connection, D::command(job, with_text)).await;
        }
        let (number, answer) = self.join(connection, OwnedJob::of(job, with_text));
        let place = Place {
            gather: self,
            number,
            sent,
            is_kept: true,
        };
        let outcome = answer.await;
        place.end();
        match outcome {
            Ok(Outcome::Answered(reply)) => reply,
            Ok(Outcome::Unsent) => {
                let command = D::command(job, with_text);
                Box::pin(D::send(connection, command)).await
            }
            Err(_) => Err(D::lost()),
        }
    }

    /// Sends what waits, if its turn does not come.
    pub(super) fn send_overdue(&self, connection: &D::Connection) {
        let overdue = self.waiting().take_overdue();
        if let Some(departure) = overdue {
            tokio::spawn(departure.send(connection.clone()));
        }
    }

    fn join(
        self: &Arc<Self>,
        connection: &D::Connection,
        job: OwnedJob,
    ) -> (u64, oneshot::Receiver<Outcome<D>>) {
        let (reply, answer) = oneshot::channel();
        let (number, next) = self.waiting().add(job, reply);
        // The lock is free again: a runtime that ends drops at once what is spawned on it, and a turn takes the lock then.
        match next {
            Next::Wait => {}
            Next::BeginTurn => {
                let turn = Turn(Some(Arc::clone(self)));
                tokio::spawn(turn.send(connection.clone()));
            }
            Next::Leave(departure) => {
                tokio::spawn(departure.send(connection.clone()));
            }
        }
        (number, answer)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting<D>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a job until it is answered or given up.
struct UnderWay<'a> {
    count: &'a AtomicUsize,
    is_alone: bool,
}

impl<'a> UnderWay<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        let is_alone = count.fetch_add(1, Ordering::Relaxed) == 0;
        Self { count, is_alone }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of a job among those that wait. Dropped while it is kept, it takes the job back.
struct Place<'a, D: Driver> {
    gather: &'a Gather<D>,
    number: u64,
    sent: &'a Sent<D>,
    is_kept: bool,
}

impl<D: Driver> Place<'_, D> {
    /// Ends the wait: the job is no longer there.
    fn end(mut self) {
        self.is_kept = false;
    }
}

impl<D: Driver> Drop for Place<'_, D> {
    fn drop(&mut self) {
        if self.is_kept {
            let unsent = self.gather.waiting().remove(self.number);
            if unsent.is_some() {
                self.sent.back();
            }
        }
    }
}

/// The task that sends what waits, when its turn has come. Should its runtime end before, the jobs are handed back.
struct Turn<D: Driver>(Option<Arc<Gather<D>>>);

impl<D: Driver> Turn<D> {
    async fn send(mut self, connection: D::Connection) {
        yield_now().await;
        if let Some(gather) = self.0.take() {
            let departure = gather.waiting().take();
            departure.send(connection).await;
        }
    }
}

impl<D: Driver> Drop for Turn<D> {
    fn drop(&mut self) {
        if let Some(gather) = self.0.take() {
            // Who gets a job back may come to the lock: it is free again when they do.
            let departure = gather.waiting().take();
            drop(departure);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use super::super::link::Link;
    use super::super::tenfold::{Lost, Tenfold, Wire};
    use super::super::waiting::MOST;
    use super::*;
    use tokio::runtime::{Builder, Runtime};
    use tokio::task::JoinSet;

    /// With turns so long that a crowded machine does not cut them short.
    fn gather() -> Arc<Gather<Tenfold>> {
        Arc::new(Gather::with_turn(Duration::from_secs(30), false))
    }

    fn asking(number: u64) -> OwnedJob {
        OwnedJob::of(&Job::command("GET", number.to_string().as_bytes()), false)
    }

    async fn send(
        gather: &Arc<Gather<Tenfold>>,
        wire: &mut Wire,
        number: u64,
        sent: &Sent<Tenfold>,
    ) -> Result<u64, Lost> {
        let job = asking(number);
        gather.send(wire, &job.job(), false, sent).await
    }

    /// Notes that a call is sent on a wire.
    fn on_its_way(wire: &Wire) -> Sent<Tenfold> {
        let (sent, link) = (Sent::default(), Link::given(wire.clone(), false));
        sent.on(&link, &link.live_now().expect("it is there"));
        sent
    }

    /// Sends each number from a task of its own.
    fn send_each(
        gather: &Arc<Gather<Tenfold>>,
        wire: &Wire,
        numbers: impl IntoIterator<Item = u64>,
    ) -> JoinSet<(u64, Result<u64, Lost>)> {
        let mut tasks = JoinSet::new();
        for number in numbers {
            let (gather, mut wire) = (Arc::clone(gather), wire.clone());
            tasks.spawn(async move {
                (
                    number,
                    send(&gather, &mut wire, number, &Sent::default()).await,
                )
            });
        }
        tasks
    }

    async fn until_nothing_is_ready() {
        for _ in 0..8 {
            yield_now().await;
        }
    }

    #[tokio::test]
    async fn commands_one_after_another_are_each_sent_alone() {
        let (gather, mut wire) = (gather(), Wire::silent().open());
        for number in 0..3 {
            assert_eq!(
                send(&gather, &mut wire, number, &Sent::default()).await,
                Ok(number * 10)
            );
        }
        assert_eq!(wire.sent(), [[0], [1], [2]]);
    }

    #[tokio::test]
    async fn what_is_ready_together_is_sent_together_and_each_gets_its_own_reply() {
        let (gather, wire) = (gather(), Wire::silent());
        let tasks = send_each(&gather, &wire, 0..6);
        until_nothing_is_ready().await;
        assert_eq!(wire.sent(), [vec![0], vec![1, 2, 3, 4, 5]]);
        wire.may_reply.add_permits(2);
        for (number, reply) in tasks.join_all().await {
            assert_eq!(reply, Ok(number * 10));
        }
    }

    #[tokio::test]
    async fn a_pipeline_takes_so_many_and_no_more() {
        let (gather, wire) = (gather(), Wire::silent().open());
        let tasks = send_each(&gather, &wire, 0..100);
        assert!(
            tasks
                .join_all()
                .await
                .iter()
                .all(|(_, reply)| reply.is_ok())
        );
        let lengths: Vec<usize> = wire.sent().iter().map(Vec::len).collect();
        assert_eq!(lengths.iter().sum::<usize>(), 100);
        assert!(lengths.iter().all(|len| *len <= MOST), "{lengths:?}");
    }

    #[tokio::test]
    async fn a_command_whose_caller_gave_up_is_not_sent() {
        let (gather, mut wire) = (gather(), Wire::silent());
        let _first = send_each(&gather, &wire, [1]);
        until_nothing_is_ready().await;
        let sent = on_its_way(&wire);
        tokio::select! {
            biased;
            _ = send(&gather, &mut wire, 2, &sent) => unreachable!("nothing is answered"),
            () = std::future::ready(()) => {}
        }
        assert!(sent.link().is_none(), "it did not leave");
        until_nothing_is_ready().await;
        assert_eq!(wire.sent(), [[1]]);
    }

    #[tokio::test]
    async fn a_connection_is_let_go_when_nobody_waits_for_its_replies() {
        let (gather, wire) = (gather(), Wire::silent());
        let mut tasks = send_each(&gather, &wire, 0..6);
        until_nothing_is_ready().await;
        assert_eq!(wire.sent().len(), 2);
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        until_nothing_is_ready().await;
        assert_eq!(Arc::strong_count(&wire.may_reply), 1);
    }

    #[tokio::test]
    async fn replies_of_which_one_is_missing_are_given_to_nobody() {
        let (gather, mut wire) = (gather(), Wire::silent().open());
        wire.swallows_one = true;
        let tasks = send_each(&gather, &wire, 0..6);
        assert!(
            tasks
                .join_all()
                .await
                .iter()
                .all(|(_, reply)| *reply == Err(Lost))
        );
        assert_eq!(gather.under_way.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_command_that_left_counts_as_sent_when_its_caller_gives_up() {
        let (gather, mut wire) = (gather(), Wire::silent());
        let _first = send_each(&gather, &wire, [1]);
        until_nothing_is_ready().await;
        let sent = on_its_way(&wire);
        tokio::select! {
            biased;
            _ = send(&gather, &mut wire, 2, &sent) => unreachable!("nothing is answered"),
            () = until_nothing_is_ready() => {}
        }
        assert_eq!(wire.sent(), [[1], [2]]);
        assert!(sent.link().is_some());
    }

    fn one_thread() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    /// Lets a number wait for its turn on a runtime that is not driven.
    fn join_on(
        runtime: &Runtime,
        gather: &Arc<Gather<Tenfold>>,
        wire: &Wire,
        number: u64,
    ) -> oneshot::Receiver<Outcome<Tenfold>> {
        let _inside = runtime.enter();
        gather.join(wire, asking(number)).1
    }

    #[test]
    fn what_waits_when_its_runtime_ends_is_handed_back() {
        let (gather, wire) = (gather(), Wire::silent());
        let (ended, lasting) = (one_thread(), one_thread());
        let answer = join_on(&ended, &gather, &wire, 1);
        drop(ended);
        let outcome = lasting.block_on(answer);
        assert!(matches!(outcome, Ok(Outcome::Unsent)));
        let full: Vec<_> = {
            let ended = one_thread();
            (0..32)
                .map(|number| join_on(&ended, &gather, &wire, number))
                .collect()
        };
        for answer in full {
            let outcome = lasting.block_on(answer);
            assert!(matches!(outcome, Ok(Outcome::Unsent)));
        }
        assert!(wire.sent().is_empty());
    }

    #[test]
    fn a_caller_whose_command_is_handed_back_sends_it() {
        let (gather, mut wire) = (gather(), Wire::silent().open());
        let (sent_on, sent) = (wire.clone(), Sent::default());
        let (ended, lasting) = (one_thread(), one_thread());
        let _other = UnderWay::begin(&gather.under_way);
        let mut call = pin!(send(&gather, &mut wire, 2, &sent));
        {
            let _inside = ended.enter();
            let mut nobody = Context::from_waker(Waker::noop());
            assert!(call.as_mut().poll(&mut nobody).is_pending());
        }
        drop(ended);
        assert_eq!(lasting.block_on(call), Ok(20));
        assert_eq!(sent_on.sent(), [[2]]);
    }

    /// On a thread of its own: what locks itself out does not come back.
    #[test]
    fn a_runtime_that_has_ended_locks_nobody_out() {
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            let (gather, wire) = (gather(), Wire::silent());
            let ended = one_thread();
            let handle = ended.handle().clone();
            drop(ended);
            let _inside = handle.enter();
            let (_, answer) = gather.join(&wire, asking(1));
            let outcome = one_thread().block_on(answer);
            let _ = done.send(matches!(outcome, Ok(Outcome::Unsent)));
        });
        let is_handed_back = is_done.recv_timeout(Duration::from_secs(10));
        assert_eq!(is_handed_back, Ok(true));
    }

    #[test]
    fn who_comes_later_sends_what_is_overdue() {
        let gather = Arc::new(Gather::<Tenfold>::with_turn(Duration::ZERO, false));
        let wire = Wire::silent().open();
        let (stuck, lasting) = (one_thread(), one_thread());
        let _other = UnderWay::begin(&gather.under_way);
        let first = join_on(&stuck, &gather, &wire, 1);
        let replies = lasting.block_on(async { send_each(&gather, &wire, [2]).join_all().await });
        assert_eq!(replies, [(2, Ok(20))]);
        let first = lasting.block_on(first);
        assert!(matches!(first, Ok(Outcome::Answered(Ok(10)))));
        assert_eq!(wire.sent(), [[1, 2]]);
    }
}

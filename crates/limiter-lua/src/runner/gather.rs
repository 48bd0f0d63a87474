//! [`Gather`]: sends what is ready at the same time as one pipeline.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::Driver;

/// How many commands go into one pipeline at most: the first is answered with the last, and while a server works on some,
/// others can be made ready.
const MOST: usize = 32;

/// The commands on one connection that wait to be sent together.
///
/// A lone command is sent at once. One that comes while others are under way waits until every task that is ready has run,
/// which takes microseconds; all that came until then is written by one call of the system, and read by one.
#[derive(Debug)]
pub(super) struct Gather<D: Driver> {
    under_way: AtomicUsize,
    waiting: Mutex<Vec<Waiting<D>>>,
}

struct Waiting<D: Driver> {
    command: D::Command,
    reply: oneshot::Sender<Result<D::Reply, D::Error>>,
}

impl<D: Driver> Gather<D> {
    pub(super) fn new() -> Self {
        Self {
            under_way: AtomicUsize::new(0),
            waiting: Mutex::default(),
        }
    }

    /// Sends a command on `connection`, alone or with others, and returns its reply.
    ///
    /// # Cancel safety
    /// A command that waits is not sent if its caller gives up.
    pub(super) async fn send(
        self: &Arc<Self>,
        connection: &mut D::Connection,
        command: D::Command,
    ) -> Result<D::Reply, D::Error> {
        let under_way = UnderWay::begin(&self.under_way);
        if under_way.is_alone {
            return D::send(connection, command).await;
        }
        let reply = self.join(connection, command);
        reply.await.unwrap_or_else(|_| Err(D::lost()))
    }

    fn join(
        self: &Arc<Self>,
        connection: &D::Connection,
        command: D::Command,
    ) -> oneshot::Receiver<Result<D::Reply, D::Error>> {
        let (reply, answer) = oneshot::channel();
        let mut waiting = self.waiting();
        waiting.push(Waiting { command, reply });
        match waiting.len() {
            1 => {
                let turn = Turn(Some(Arc::clone(self)));
                tokio::spawn(turn.send(connection.clone()));
            }
            MOST => {
                let batch = mem::take(&mut *waiting);
                tokio::spawn(send_all::<D>(batch, connection.clone()));
            }
            _ => {}
        }
        answer
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting<D>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a command until it is answered or given up.
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

/// The task that sends what waits, when its turn has come. Should its runtime end before, the commands are given up: nobody
/// else would send them.
struct Turn<D: Driver>(Option<Arc<Gather<D>>>);

impl<D: Driver> Turn<D> {
    async fn send(mut self, connection: D::Connection) {
        yield_now().await;
        if let Some(gather) = self.0.take() {
            let batch = mem::take(&mut *gather.waiting());
            send_all::<D>(batch, connection).await;
        }
    }
}

impl<D: Driver> Drop for Turn<D> {
    fn drop(&mut self) {
        if let Some(gather) = self.0.take() {
            drop(mem::take(&mut *gather.waiting()));
        }
    }
}

async fn send_all<D: Driver>(mut batch: Vec<Waiting<D>>, mut connection: D::Connection) {
    batch.retain(|waiting| !waiting.reply.is_closed());
    let (commands, mut replies): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .map(|waiting| (waiting.command, waiting.reply))
        .unzip();
    if commands.is_empty() {
        return;
    }
    let answers = tokio::select! {
        answers = D::send_all(&mut connection, commands) => answers,
        // Else a server that never answers would keep the connection, long after it was replaced.
        () = all_gave_up(&mut replies) => return,
    };
    if answers.len() != replies.len() {
        // Nobody knows whose is whose: all hear that theirs was lost.
        return;
    }
    for (reply, answer) in replies.into_iter().zip(answers) {
        let _ = reply.send(answer);
    }
}

async fn all_gave_up<T>(replies: &mut [oneshot::Sender<T>]) {
    for reply in replies {
        reply.closed().await;
    }
}

/// Commands are left out: they may name a visitor.
impl<D: Driver> std::fmt::Debug for Waiting<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, Job, Redirect, Reply};
    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;

    /// A client whose server replies to a number with ten times that, once it is let to.
    #[derive(Debug)]
    struct Tenfold;

    #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
    #[error("lost")]
    struct Lost;

    #[derive(Clone, Debug)]
    struct Wire {
        sent: Arc<Mutex<Vec<Vec<u64>>>>,
        may_reply: Arc<Semaphore>,
        swallows_one: bool,
    }

    impl Wire {
        fn silent() -> Self {
            Self {
                sent: Arc::default(),
                may_reply: Arc::new(Semaphore::new(0)),
                swallows_one: false,
            }
        }

        fn open(self) -> Self {
            self.may_reply.add_permits(1000);
            self
        }

        fn sent(&self) -> Vec<Vec<u64>> {
            self.sent.lock().unwrap().clone()
        }
    }

    impl Driver for Tenfold {
        type Connection = Wire;
        type Command = u64;
        type Reply = u64;
        type Error = Lost;

        async fn connect(&self) -> Result<Wire, Lost> {
            Ok(Wire::silent())
        }

        fn command(_: &Job<'_>, _: bool) -> u64 {
            0
        }

        async fn send(wire: &mut Wire, command: u64) -> Result<u64, Lost> {
            let mut replies = Self::send_all(wire, vec![command]).await;
            replies.pop().unwrap_or(Err(Lost))
        }

        async fn send_all(wire: &mut Wire, commands: Vec<u64>) -> Vec<Result<u64, Lost>> {
            wire.sent.lock().unwrap().push(commands.clone());
            let _permit = wire.may_reply.acquire().await;
            let kept = commands.len() - usize::from(wire.swallows_one);
            commands[..kept].iter().map(|n| Ok(n * 10)).collect()
        }

        async fn send_to(wire: &mut Wire, command: u64, _: &Redirect) -> Result<u64, Lost> {
            Self::send(wire, command).await
        }

        fn bytes(_: &u64) -> Option<&[u8]> {
            None
        }

        fn reply(reply: u64) -> Reply {
            Reply::Int(i64::try_from(reply).unwrap_or(0))
        }

        fn failure(_: &Lost) -> Failure {
            Failure::Lost
        }

        fn lost() -> Lost {
            Lost
        }

        fn is_cluster(_: &Wire) -> bool {
            false
        }

        fn is_given(&self) -> bool {
            false
        }
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
            tasks.spawn(async move { (number, gather.send(&mut wire, number).await) });
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
        let (gather, mut wire) = (Arc::new(Gather::<Tenfold>::new()), Wire::silent().open());
        for number in 0..3 {
            assert_eq!(gather.send(&mut wire, number).await, Ok(number * 10));
        }
        assert_eq!(wire.sent(), [[0], [1], [2]]);
    }

    #[tokio::test]
    async fn what_is_ready_together_is_sent_together_and_each_gets_its_own_reply() {
        let (gather, wire) = (Arc::new(Gather::new()), Wire::silent());
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
        let (gather, wire) = (Arc::new(Gather::new()), Wire::silent().open());
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
        let (gather, mut wire) = (Arc::new(Gather::<Tenfold>::new()), Wire::silent());
        let _first = send_each(&gather, &wire, [1]);
        until_nothing_is_ready().await;
        tokio::select! {
            biased;
            _ = gather.send(&mut wire, 2) => unreachable!("nothing is answered"),
            () = std::future::ready(()) => {}
        }
        until_nothing_is_ready().await;
        assert_eq!(wire.sent(), [[1]]);
    }

    #[tokio::test]
    async fn a_connection_is_let_go_when_nobody_waits_for_its_replies() {
        let (gather, wire) = (Arc::new(Gather::new()), Wire::silent());
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
        let (gather, mut wire) = (Arc::new(Gather::new()), Wire::silent().open());
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

    #[test]
    fn what_waits_when_its_runtime_ends_is_given_up() {
        let (gather, mut wire) = (Arc::new(Gather::<Tenfold>::new()), Wire::silent());
        let one_thread = || {
            tokio::runtime::Builder::new_current_thread()
                .build()
                .unwrap()
        };
        let (ended, lasting) = (one_thread(), one_thread());
        let answer = {
            let _inside = ended.enter();
            gather.join(&wire, 1)
        };
        drop(ended);
        assert!(lasting.block_on(answer).is_err());
        let sent = lasting.block_on(async {
            wire.may_reply.add_permits(1);
            gather.send(&mut wire, 2).await
        });
        assert_eq!(sent, Ok(20), "the next ones are sent");
    }
}

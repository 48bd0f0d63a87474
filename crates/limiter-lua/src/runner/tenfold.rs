//! [`Tenfold`]: a client for tests of what is around clients.

use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use super::{Driver, Failure, Job, Redirect, Reply, Target};

/// A client whose server replies to a number with ten times that, once it is let to.
#[derive(Debug)]
pub(super) struct Tenfold(pub(super) Wire);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lost")]
pub(super) struct Lost;

/// What is about no key is answered at once, and not counted.
const GREETING: u64 = u64::MAX;

#[derive(Clone, Debug)]
pub(super) struct Wire {
    sent: Arc<Mutex<Vec<Vec<u64>>>>,
    pub(super) may_reply: Arc<Semaphore>,
    pub(super) swallows_one: bool,
    pub(super) refuses: bool,
}

impl Wire {
    pub(super) fn silent() -> Self {
        Self {
            sent: Arc::default(),
            may_reply: Arc::new(Semaphore::new(0)),
            swallows_one: false,
            refuses: false,
        }
    }

    pub(super) fn open(self) -> Self {
        self.may_reply.add_permits(1000);
        self
    }

    pub(super) fn sent(&self) -> Vec<Vec<u64>> {
        self.sent.lock().unwrap().clone()
    }
}

impl Driver for Tenfold {
    type Connection = Wire;
    type Command = u64;
    type Reply = u64;
    type Error = Lost;

    async fn connect(&self, _: Target<'_>) -> Result<Wire, Lost> {
        if self.0.refuses {
            return Err(Lost);
        }
        Ok(self.0.clone())
    }

    /// The number is the key.
    fn command(job: &Job<'_>, _: bool) -> u64 {
        if job.keys() == 0 {
            return GREETING;
        }
        let key = std::str::from_utf8(job.key()).unwrap_or_default();
        key.parse().unwrap_or(0)
    }

    async fn send(wire: &mut Wire, command: u64) -> Result<u64, Lost> {
        let mut replies = Self::send_all(wire, vec![command]).await;
        replies.pop().unwrap_or(Err(Lost))
    }

    async fn send_all(wire: &mut Wire, commands: Vec<u64>) -> Vec<Result<u64, Lost>> {
        if commands == [GREETING] {
            return vec![Ok(GREETING)];
        }
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

    fn reply_of_bytes(_: Vec<u8>) -> u64 {
        0
    }

    fn error_reply(_: &str) -> Lost {
        Lost
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

    fn abort(_: Wire) {}

    fn redirect(_: &Lost) -> Option<&str> {
        None
    }
}

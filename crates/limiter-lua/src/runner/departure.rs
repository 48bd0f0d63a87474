//! [`Departure`]: jobs that leave together.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use crate::Fault;

use super::message::{Message, ScriptBatch, messages};
use super::owned_job::OwnedJob;
use super::{Driver, Failure};

/// Jobs that leave together. Dropped before that, it hands each back to its caller.
pub(super) struct Departure<D: Driver> {
    entries: Vec<Entry<D>>,
    keeps_apart: Arc<AtomicBool>,
}

/// One of them, and who waits for its reply.
pub(super) struct Entry<D: Driver> {
    pub(super) number: u64,
    pub(super) job: OwnedJob,
    pub(super) caller: Caller<D>,
}

pub(super) type Caller<D> = oneshot::Sender<Outcome<D>>;

/// What became of a job.
pub(super) enum Outcome<D: Driver> {
    /// It was sent, and answered so.
    Answered(Answer<D>),
    /// It was not sent, nor will it be: the runtime has ended that was to do so.
    Unsent,
}

type Answer<D> = Result<<D as Driver>::Reply, <D as Driver>::Error>;

impl<D: Driver> Departure<D> {
    pub(super) const fn new(entries: Vec<Entry<D>>, keeps_apart: Arc<AtomicBool>) -> Self {
        Self {
            entries,
            keeps_apart,
        }
    }

    /// Sends the jobs whose callers still wait in as few messages as can be, and gives each its answer.
    pub(super) async fn send(mut self, mut connection: D::Connection) {
        let entries = mem::take(&mut self.entries).into_iter();
        let (jobs, mut callers): (Vec<_>, Vec<_>) = entries
            .filter(|entry| !entry.caller.is_closed())
            .map(|entry| (entry.job, entry.caller))
            .unzip();
        if jobs.is_empty() {
            return;
        }
        let messages = messages(&jobs, !self.keeps_apart.load(Ordering::Relaxed));
        let commands = messages.iter().map(Message::command::<D>).collect();
        let Some(replies) = send_all(&mut connection, commands, &mut callers).await else {
            return;
        };
        let mut callers: Vec<_> = callers.into_iter().map(Some).collect();
        let mut not_run = Vec::new();
        for (message, reply) in messages.into_iter().zip(replies) {
            match message {
                Message::Alone(place, _) => give(take(&mut callers, [place]), [reply]),
                Message::Batch(batch) => {
                    let callers = take(&mut callers, batch.places());
                    match Again::after::<D>(&reply) {
                        Some(again) => not_run.push((batch, callers, again)),
                        None => give(callers, batch.replies::<D>(reply)),
                    }
                }
            }
        }
        // Only now, so that no answer waits for it.
        for (batch, callers, again) in not_run {
            self.send_again(batch, callers, again, &mut connection)
                .await;
        }
    }

    /// Sends a batch that did not run once more, in a form that the server takes, if anybody still waits for it.
    async fn send_again(
        &self,
        mut batch: ScriptBatch<'_>,
        callers: Vec<Caller<D>>,
        again: Again,
        connection: &mut D::Connection,
    ) {
        let waits: Vec<bool> = callers.iter().map(|caller| !caller.is_closed()).collect();
        batch.keep(&waits);
        let callers = callers.into_iter().zip(waits);
        let mut callers: Vec<_> = callers
            .filter_map(|(caller, waits)| waits.then_some(caller))
            .collect();
        if callers.is_empty() {
            return;
        }
        match again {
            Again::WithText => {
                let with_text = vec![batch.command::<D>(true)];
                let replies = send_all(connection, with_text, &mut callers).await;
                if let Some(reply) = replies.and_then(|mut replies| replies.pop()) {
                    give(callers, batch.replies::<D>(reply));
                }
            }
            Again::OneByOne => {
                self.keeps_apart.store(true, Ordering::Relaxed);
                let commands = batch.one_by_one().map(|call| call.command::<D>());
                let commands = commands.collect();
                if let Some(replies) = send_all(connection, commands, &mut callers).await {
                    give(callers, replies);
                }
            }
        }
    }
}

/// How a batch is sent that did not run.
enum Again {
    /// The server does not know the script.
    WithText,
    /// The server wants the keys of a call in one slot: it is a lone node of a cluster.
    OneByOne,
}

impl Again {
    fn after<D: Driver>(reply: &Result<D::Reply, D::Error>) -> Option<Self> {
        match D::failure(reply.as_ref().err()?) {
            Failure::Reply(Fault::NoScript) => Some(Self::WithText),
            Failure::Reply(Fault::SeveralSlots) => Some(Self::OneByOne),
            _ => None,
        }
    }
}

/// Sends commands in one go, and returns the reply to each; none if all callers gave up, or nobody knows whose reply is whose:
/// they hear that theirs was lost.
async fn send_all<D: Driver>(
    connection: &mut D::Connection,
    commands: Vec<D::Command>,
    callers: &mut [Caller<D>],
) -> Option<Vec<Answer<D>>> {
    let count = commands.len();
    let replies = tokio::select! {
        replies = D::send_all(connection, commands) => replies,
        // Else a server that never answers would keep the connection, long after it was replaced.
        () = all_gave_up(callers) => return None,
    };
    (replies.len() == count).then_some(replies)
}

/// Takes the callers at some places out.
fn take<D: Driver>(
    callers: &mut [Option<Caller<D>>],
    places: impl IntoIterator<Item = usize>,
) -> Vec<Caller<D>> {
    let places = places.into_iter();
    places
        .filter_map(|place| callers.get_mut(place)?.take())
        .collect()
}

/// Gives each caller its answer.
fn give<D: Driver>(callers: Vec<Caller<D>>, answers: impl IntoIterator<Item = Answer<D>>) {
    for (caller, answer) in callers.into_iter().zip(answers) {
        let _ = caller.send(Outcome::Answered(answer));
    }
}

async fn all_gave_up<D: Driver>(callers: &mut [Caller<D>]) {
    for caller in callers {
        caller.closed().await;
    }
}

impl<D: Driver> Drop for Departure<D> {
    fn drop(&mut self) {
        for entry in self.entries.drain(..) {
            let _ = entry.caller.send(Outcome::Unsent);
        }
    }
}

/// Jobs are left out: they may name a visitor.
impl<D: Driver> std::fmt::Debug for Entry<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

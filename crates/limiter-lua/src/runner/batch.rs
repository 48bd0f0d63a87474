//! [`Batch`]: jobs that leave together.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

use crate::Fault;

use super::message::{Message, ScriptBatch, messages};
use super::owned_job::OwnedJob;
use super::{Driver, Failure};

/// Jobs that leave together. Dropped before that, it hands each back to its caller.
pub(super) struct Batch<D: Driver> {
    entries: Vec<Entry<D>>,
    has_slots: Arc<AtomicBool>,
}

/// One of them, and who waits for its reply.
pub(super) struct Entry<D: Driver> {
    pub(super) number: u64,
    pub(super) job: OwnedJob,
    pub(super) reply: oneshot::Sender<Outcome<D>>,
}

/// What became of a job.
pub(super) enum Outcome<D: Driver> {
    /// It was sent, and answered so.
    Answered(Answer<D>),
    /// It was not sent, nor will it be: the runtime has ended that was to do so.
    Unsent,
}

type Answer<D> = Result<<D as Driver>::Reply, <D as Driver>::Error>;

impl<D: Driver> Batch<D> {
    pub(super) const fn new(entries: Vec<Entry<D>>, has_slots: Arc<AtomicBool>) -> Self {
        Self { entries, has_slots }
    }

    /// Sends the jobs whose callers still wait, and gives each its reply.
    pub(super) async fn send(mut self, mut connection: D::Connection) {
        let entries = mem::take(&mut self.entries).into_iter();
        let (jobs, mut replies): (Vec<_>, Vec<_>) = entries
            .filter(|entry| !entry.reply.is_closed())
            .map(|entry| (entry.job, entry.reply))
            .unzip();
        if jobs.is_empty() {
            return;
        }
        let answers = tokio::select! {
            answers = answers::<D>(&mut connection, &jobs, &self.has_slots) => answers,
            // Else a server that never answers would keep the connection, long after it was replaced.
            () = all_gave_up(&mut replies) => return,
        };
        if answers.len() != replies.len() {
            // Nobody knows whose is whose: all hear that theirs was lost.
            return;
        }
        for (reply, answer) in replies.into_iter().zip(answers) {
            let _ = reply.send(Outcome::Answered(answer));
        }
    }
}

/// Sends jobs in as few messages as can be, and returns the answer to each in their order.
async fn answers<D: Driver>(
    connection: &mut D::Connection,
    jobs: &[OwnedJob],
    has_slots: &AtomicBool,
) -> Vec<Answer<D>> {
    let messages = messages(jobs, !has_slots.load(Ordering::Relaxed));
    let replies = send_all::<D>(connection, &messages).await;
    if replies.len() != messages.len() {
        return Vec::new();
    }
    let mut answers = Vec::with_capacity(jobs.len());
    for (message, reply) in messages.into_iter().zip(replies) {
        match message {
            Message::Alone(place, _) => answers.push((place, reply)),
            Message::Batch(batch) => {
                let places: Vec<usize> = batch.places().collect();
                let replies = settled::<D>(batch, reply, connection, has_slots).await;
                answers.extend(places.into_iter().zip(replies));
            }
        }
    }
    answers.sort_unstable_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn send_all<D: Driver>(
    connection: &mut D::Connection,
    messages: &[Message<'_>],
) -> Vec<Answer<D>> {
    let commands = messages.iter().map(Message::command::<D>).collect();
    D::send_all(connection, commands).await
}

/// Takes the reply to a batch apart. A batch that did not run is sent again, in a form that the server takes.
async fn settled<D: Driver>(
    batch: ScriptBatch<'_>,
    reply: Answer<D>,
    connection: &mut D::Connection,
    has_slots: &AtomicBool,
) -> Vec<Answer<D>> {
    match reply.as_ref().map_err(D::failure) {
        Err(Failure::Reply(Fault::NoScript)) => {
            let with_text = batch.command::<D>(true);
            let reply = D::send(connection, with_text).await;
            batch.replies::<D>(reply)
        }
        Err(Failure::Reply(Fault::SeveralSlots)) => {
            has_slots.store(true, Ordering::Relaxed);
            let calls: Vec<_> = batch.one_by_one().collect();
            send_all::<D>(connection, &calls).await
        }
        _ => batch.replies::<D>(reply),
    }
}

impl<D: Driver> Drop for Batch<D> {
    fn drop(&mut self) {
        for entry in self.entries.drain(..) {
            let _ = entry.reply.send(Outcome::Unsent);
        }
    }
}

async fn all_gave_up<T>(replies: &mut [oneshot::Sender<T>]) {
    for reply in replies {
        reply.closed().await;
    }
}

/// Jobs are left out: they may name a visitor.
impl<D: Driver> std::fmt::Debug for Entry<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

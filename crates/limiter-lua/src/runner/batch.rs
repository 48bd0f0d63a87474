//! [`Batch`]: commands that leave together.

use std::mem;

use tokio::sync::oneshot;

use super::Driver;

/// Commands that leave together. Dropped before that, it hands each back to its caller.
pub(super) struct Batch<D: Driver>(Vec<Entry<D>>);

/// One of them, and who waits for its reply.
pub(super) struct Entry<D: Driver> {
    pub(super) number: u64,
    pub(super) command: D::Command,
    pub(super) reply: oneshot::Sender<Outcome<D>>,
}

/// What became of a command.
pub(super) enum Outcome<D: Driver> {
    /// It was sent, and answered so.
    Answered(Result<D::Reply, D::Error>),
    /// It was not sent, nor will it be: the runtime has ended that was to do so.
    Unsent(D::Command),
}

impl<D: Driver> Batch<D> {
    pub(super) const fn new(entries: Vec<Entry<D>>) -> Self {
        Self(entries)
    }

    /// Sends the commands whose callers still wait, and gives each its reply.
    pub(super) async fn send(mut self, mut connection: D::Connection) {
        let entries = mem::take(&mut self.0).into_iter();
        let (commands, mut replies): (Vec<_>, Vec<_>) = entries
            .filter(|entry| !entry.reply.is_closed())
            .map(|entry| (entry.command, entry.reply))
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
            let _ = reply.send(Outcome::Answered(answer));
        }
    }
}

impl<D: Driver> Drop for Batch<D> {
    fn drop(&mut self) {
        for entry in self.0.drain(..) {
            let _ = entry.reply.send(Outcome::Unsent(entry.command));
        }
    }
}

async fn all_gave_up<T>(replies: &mut [oneshot::Sender<T>]) {
    for reply in replies {
        reply.closed().await;
    }
}

/// Commands are left out: they may name a visitor.
impl<D: Driver> std::fmt::Debug for Entry<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

//! [`Driver`]: a client of Redis, as the stores see it.

use std::fmt::Debug;

use limiter_core::Cause;

use crate::Fault;

use super::{Failure, Job, Redirect, Reply, Target};

/// A client of Redis: how it connects to one server, sends, and says what went wrong. All that differs from client to client.
///
/// A client is to do nothing by itself: it does not connect again, follows no redirection and sends nothing twice. Which server a call
/// goes to, when to connect again and what may be sent again is decided here, the same for every client.
pub trait Driver: Debug + Send + Sync + 'static {
    /// What jobs are sent on. Its clones are one connection, which ends when the last of them is dropped.
    type Connection: Clone + Debug + Send + Sync + 'static;
    /// One command, as the client takes it.
    type Command: Send + 'static;
    /// What a server replies.
    type Reply: Send + 'static;
    /// What the client says went wrong.
    type Error: Clone + Debug + Into<Cause> + Send + Sync + 'static;

    /// Connects to one server. The future is dropped if that takes too long, and leaves nothing behind then.
    fn connect(
        &self,
        target: Target<'_>,
    ) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// Makes the command of a job, with the text of its script if so told.
    fn command(job: &Job<'_>, with_text: bool) -> Self::Command;

    /// Sends a command, once, and returns the reply.
    fn send(
        connection: &mut Self::Connection,
        command: Self::Command,
    ) -> impl Future<Output = Result<Self::Reply, Self::Error>> + Send;

    /// Sends commands in one go, each once and nothing between them, and returns the reply to each in their order.
    fn send_all(
        connection: &mut Self::Connection,
        commands: Vec<Self::Command>,
    ) -> impl Future<Output = Vec<Result<Self::Reply, Self::Error>>> + Send;

    /// Sends a command to one node of a cluster, once, by the user's own [client of it](Self::is_cluster), and returns the reply.
    fn send_to(
        connection: &mut Self::Connection,
        command: Self::Command,
        node: &Redirect,
    ) -> impl Future<Output = Result<Self::Reply, Self::Error>> + Send;

    /// Returns the bytes of a reply that has some.
    fn bytes(reply: &Self::Reply) -> Option<&[u8]>;

    /// Returns a reply in the form that is the same for all clients.
    fn reply(reply: Self::Reply) -> Reply;

    /// Returns the reply that consists of these bytes.
    fn reply_of_bytes(bytes: Vec<u8>) -> Self::Reply;

    /// Returns what the client says of an error that a server replied in these words, its code in front.
    fn error_reply(words: &str) -> Self::Error;

    /// Tells what an error of [`send`](Self::send) means.
    fn failure(error: &Self::Error) -> Failure;

    /// Tells what an error of [`connect`](Self::connect) means: nothing was sent.
    fn failure_to_connect(error: &Self::Error) -> Failure {
        match Self::failure(error) {
            Failure::Lost | Failure::Reply(Fault::Unknown) => Failure::NotSent,
            other => other,
        }
    }

    /// Returns what the client says of a connection that was lost with a command under way.
    fn lost() -> Self::Error;

    /// Returns the address that a MOVED or ASK reply names.
    fn redirect(error: &Self::Error) -> Option<&str>;

    /// Returns whether the connection is the user's own client of a cluster, which finds the nodes by itself.
    fn is_cluster(connection: &Self::Connection) -> bool;

    /// Returns whether the connection is open still, as far as the client knows; one that is not is renewed before it costs a
    /// call.
    fn is_open(_connection: &Self::Connection) -> bool {
        true
    }

    /// Ends a connection that was given up, at once: calls that are under way on it hear that it was lost.
    fn abort(connection: Self::Connection);
}

//! [`Driver`]: a client of Redis, as the stores see it.

use std::fmt::Debug;

use limiter_core::Cause;

use crate::Fault;

use super::{Failure, Job, Redirect, Reply};

/// A client of Redis: how it connects, sends, and says what went wrong. All that differs from client to client.
pub trait Driver: Debug + Send + Sync + 'static {
    /// What jobs are sent on. Its clones are one connection.
    type Connection: Clone + Debug + Send + Sync + 'static;
    /// One command, as the client takes it.
    type Command: Send + 'static;
    /// What a server replies.
    type Reply: Send + 'static;
    /// What the client says went wrong.
    type Error: Clone + Debug + Into<Cause> + Send + Sync + 'static;

    /// Connects, in the time that the driver was told.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, Self::Error>> + Send;

    /// Makes the command of a job, with the text of its script if so told.
    fn command(job: &Job<'_>, with_text: bool) -> Self::Command;

    /// Sends a command, once, and returns the reply.
    fn send(
        connection: &mut Self::Connection,
        command: Self::Command,
    ) -> impl Future<Output = Result<Self::Reply, Self::Error>> + Send;

    /// Sends commands to one server in one go, each once, and returns the reply to each in their order.
    fn send_all(
        connection: &mut Self::Connection,
        commands: Vec<Self::Command>,
    ) -> impl Future<Output = Vec<Result<Self::Reply, Self::Error>>> + Send;

    /// Sends a command to the node that another named, once, and returns the reply.
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

    /// Reads the node that a MOVED or ASK reply names, for a client that can be told where to send.
    fn redirect(_error: &Self::Error, _asking: bool) -> Option<Redirect> {
        None
    }

    /// Returns whether the connection is one to many nodes, which the client renews by itself.
    fn is_cluster(connection: &Self::Connection) -> bool;

    /// Returns whether the connection is the user's own, and so not ours to replace.
    fn is_given(&self) -> bool;

    /// Returns whether the connection is open still, as far as the client knows; one that is not is renewed before it costs a
    /// call.
    fn is_open(_connection: &Self::Connection) -> bool {
        true
    }

    /// Ends a connection that was given up; by default, dropping it does.
    fn close(connection: Self::Connection) {
        drop(connection);
    }
}

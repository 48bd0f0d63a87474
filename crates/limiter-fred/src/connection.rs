//! [`Connection`]: what calls are sent on.

use std::sync::Arc;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::{Options, Server};
use fred::types::{ClusterHash, CustomCommand, Value};
use futures_util::future::join_all;
use limiter_lua::{Job, Redirect};
use tokio::task::AbortHandle;

/// A client of fred, connected: one of those that the store makes, or one that the user has.
#[derive(Clone)]
pub(crate) struct Connection {
    client: Client,
    options: Options,
    /// The task of a client that the store made.
    task: Option<Arc<ClientTask>>,
}

/// The task of a client, which has its connection. It ends with the last one that uses it: left alone, it would go on, and its
/// connection with it.
struct ClientTask(AbortHandle);

impl Drop for ClientTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One command, and what it is sent with.
pub(crate) struct Command {
    pub(crate) verb: CustomCommand,
    pub(crate) args: Vec<Value>,
}

impl Connection {
    /// Takes a client of the user's. Whatever its settings, it does not send a call twice: by itself, fred sends those again that were
    /// under way when a connection closed. Nor is it to follow redirections: after ASKING it may take one call's reply for another's.
    /// (To fred, a call's own 0 means what the client has, so such a client must say so itself.)
    pub(crate) fn given(client: Client) -> Self {
        Self::new(client, None)
    }

    /// Connects a client of the store's own.
    ///
    /// # Cancel safety
    /// A client that nobody waits for any longer ends.
    pub(crate) async fn own(client: Client) -> Result<Self, Error> {
        let mut connecting = client.connect();
        let task = ClientTask(connecting.abort_handle());
        tokio::select! {
            connected = client.wait_for_connect() => connected?,
            // It ends by itself only if it cannot connect.
            ended = &mut connecting => {
                ended.unwrap_or(Ok(()))?;
                return Err(Error::new(ErrorKind::Canceled, "the client ended while it connected"));
            }
        }
        Ok(Self::new(client, Some(task)))
    }

    fn new(client: Client, task: Option<ClientTask>) -> Self {
        let options = Options {
            max_attempts: Some(1),
            max_redirections: Some(0),
            fail_fast: true,
            ..Options::default()
        };
        Self {
            client,
            options,
            task: task.map(Arc::new),
        }
    }

    /// Sends `command`, and returns its reply.
    pub(crate) async fn send(&self, Command { verb, args }: Command) -> Result<Value, Error> {
        // The futures of fred are large, and would be moved with ours. Our own client is told all of this already.
        if self.task.is_some() {
            return Box::pin(self.client.custom(verb, args)).await;
        }
        let options = self.options_for(&verb, None);
        let client = self.client.with_options(&options);
        Box::pin(client.custom(verb, args)).await
    }

    /// Sends `commands` to one server in one go, and returns their replies.
    pub(crate) async fn send_all(&self, commands: Vec<Command>) -> Vec<Result<Value, Error>> {
        if self.task.is_none() {
            return join_all(commands.into_iter().map(|command| self.send(command))).await;
        }
        let (pipeline, count) = (self.client.pipeline(), commands.len());
        for Command { verb, args } in commands {
            // It is put in a row, and says so at once.
            let queued: Result<Value, Error> = pipeline.custom(verb, args).await;
            if let Err(error) = queued {
                return vec![Err(error); count];
            }
        }
        pipeline.try_all().await
    }

    /// Sends `command` to the node that another named.
    pub(crate) async fn send_to(
        &self,
        Command { verb, args }: Command,
        node: &Redirect,
    ) -> Result<Value, Error> {
        let options = self.options_for(&verb, Some(node));
        let client = self.client.with_options(&options);
        client.custom(verb, args).await
    }

    /// Returns how a command of its own is sent. fred looks for the key where the options say, whatever the command says.
    fn options_for(&self, verb: &CustomCommand, node: Option<&Redirect>) -> Options {
        Options {
            cluster_hash: Some(verb.cluster_hash.clone()),
            cluster_node: node.map(|node| Server::new(node.node.host(), node.node.port())),
            ..self.options.clone()
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.client.is_clustered()
    }

    /// Returns whether the client still works on its connection. One that has ended says nothing: calls would wait in vain.
    pub(crate) fn is_open(&self) -> bool {
        self.task.as_ref().is_none_or(|task| !task.0.is_finished())
    }

    /// Ends a client of the store's own, whoever waits for it.
    pub(crate) fn abort(&self) {
        if let Some(task) = &self.task {
            task.0.abort();
        }
    }
}

pub(crate) fn command(job: &Job<'_>, with_text: bool) -> Command {
    let hash = ClusterHash::Offset(job.key_at().into());
    let mut args = Vec::with_capacity(3 + job.rest().len());
    if let Some(script) = job.script_arg(with_text) {
        args.extend([Value::from_static_str(script), i64::from(job.keys()).into()]);
    }
    if job.keys() > 0 {
        args.push(bytes(job.key()));
    }
    args.extend(job.rest().map(bytes));
    Command {
        verb: CustomCommand::new_static(job.verb(with_text), hash, false),
        args,
    }
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.to_vec().into())
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_cluster() {
            "Cluster"
        } else {
            "Centralized"
        })
    }
}

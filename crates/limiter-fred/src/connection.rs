//! [`Connection`]: what calls are sent on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::config::{Options, Server};
use fred::types::{ClusterHash, ConnectHandle, CustomCommand, Value};
use futures_util::future::join_all;
use limiter_lua::{Failure, Fault, Job, Redirect, Script};

use crate::batch::{Batch, Group, grouped};
use crate::error::{failure, is_of_several_slots};

/// A client of fred, connected: one of those that the store makes, or one that the user has.
#[derive(Clone)]
pub(crate) struct Connection {
    client: Client,
    options: Options,
    /// The task of a client that the store made; it ends with the connection.
    task: Option<Arc<ConnectHandle>>,
    /// Whether the server takes no batches: it is a lone node of a cluster, and wants the keys of a call in one slot.
    has_slots: Arc<AtomicBool>,
}

/// One command, and what it is sent with.
pub(crate) struct Command {
    pub(crate) verb: CustomCommand,
    pub(crate) args: Vec<Value>,
    /// The script that is called by its name, and how many keys it has.
    pub(crate) script: Option<(Script, u8)>,
}

impl Connection {
    /// Takes a client. Whatever its settings, it does not send a call twice: by itself, fred sends those again that were
    /// under way when a connection closed. Nor does one that the store made follow redirections: after ASKING it may take one
    /// call's reply for another's. It learns of a moved slot all the same, and the store calls again. (To fred, a call's own 0
    /// means what the client has, so a client of the user's must say so itself.)
    pub(crate) fn new(client: Client, task: Option<ConnectHandle>) -> Self {
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
            has_slots: Arc::default(),
        }
    }

    /// Sends `command`, and returns its reply.
    pub(crate) async fn send(&self, Command { verb, args, .. }: Command) -> Result<Value, Error> {
        // The futures of fred are large, and would be moved with ours. Our own client is told all of this already, but for
        // where a cluster's key is.
        if self.task.is_some() && !self.is_cluster() {
            return Box::pin(self.client.custom(verb, args)).await;
        }
        let options = self.options_for(&verb, None);
        let client = self.client.with_options(&options);
        Box::pin(client.custom(verb, args)).await
    }

    /// Sends `commands` to one server in one go, and returns their replies. Calls of one script are sent as one.
    pub(crate) async fn send_all(&self, commands: Vec<Command>) -> Vec<Result<Value, Error>> {
        let groups = grouped(commands).into_iter();
        let replies = join_all(groups.map(|group| self.send_group(group))).await;
        let mut replies = replies.concat();
        replies.sort_by_key(|(place, _)| *place);
        replies.into_iter().map(|(_, reply)| reply).collect()
    }

    /// Sends the commands of a group, and returns their replies with their places.
    async fn send_group(&self, group: Group) -> Vec<(usize, Result<Value, Error>)> {
        let script = group
            .script
            .filter(|_| !self.has_slots.load(Ordering::Relaxed));
        let replies = match Batch::of(script, group.commands) {
            Ok(batch) => self.send_batch(batch).await,
            Err(commands) => self.send_each(commands).await,
        };
        group.places.into_iter().zip(replies).collect()
    }

    async fn send_each(&self, commands: Vec<Command>) -> Vec<Result<Value, Error>> {
        join_all(commands.into_iter().map(|command| self.send(command))).await
    }

    async fn send_batch(&self, batch: Batch) -> Vec<Result<Value, Error>> {
        let mut reply = self.send(batch.command(false)).await;
        if let Err(error) = &reply
            && failure(error) == Failure::Reply(Fault::NoScript)
        {
            reply = self.send(batch.command(true)).await;
        }
        match &reply {
            Err(error) if is_of_several_slots(error) => {
                self.has_slots.store(true, Ordering::Relaxed);
                self.send_each(batch.into_calls()).await
            }
            _ => batch.replies(reply),
        }
    }

    /// Sends `command` to the node that another named.
    pub(crate) async fn send_to(
        &self,
        Command { verb, args, .. }: Command,
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
            cluster_node: node.map(|node| Server::new(node.host.as_str(), node.port)),
            ..self.options.clone()
        }
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.client.is_clustered()
    }

    /// Returns whether the client still works on its connection. One that has ended says nothing: calls would wait in vain.
    pub(crate) fn is_open(&self) -> bool {
        self.task.as_ref().is_none_or(|task| !task.is_finished())
    }

    /// Closes the client, in the background: its tasks live until then.
    pub(crate) fn close(self) {
        tokio::spawn(async move {
            let _ = self.client.quit().await;
        });
    }
}

pub(crate) fn command(job: &Job<'_>, with_text: bool) -> Command {
    let hash = ClusterHash::Offset(job.key_at().into());
    let mut args = Vec::with_capacity(8);
    if let Some(script) = job.script_arg(with_text) {
        args.extend([Value::from_static_str(script), i64::from(job.keys()).into()]);
    }
    args.push(bytes(job.key()));
    args.extend(job.rest().map(bytes));
    let by_name = job.script_to_run().filter(|_| !with_text);
    Command {
        verb: CustomCommand::new_static(job.verb(with_text), hash, false),
        args,
        script: by_name.map(|script| (script, job.keys())),
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

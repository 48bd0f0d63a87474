//! [`Connection`]: what calls are sent on.

use std::sync::Arc;

use fred::clients::{Client, WithOptions};
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::config::{Options, Server};
use fred::types::{ClusterHash, ConnectHandle, CustomCommand, Value};
use limiter_lua::{Job, Route};

/// A client of fred, connected: one of those that the store makes, or one that the user has.
#[derive(Clone)]
pub(crate) struct Connection {
    client: Client,
    options: Options,
    /// The task of a client that the store made; it ends with the connection.
    task: Option<Arc<ConnectHandle>>,
}

impl Connection {
    /// Takes a client. Whatever its settings, it does not send a call twice: by itself, fred sends those again that were
    /// under way when a connection closed. Nor does it follow redirections: after ASKING it may take one call's reply for
    /// another's. It learns of a moved slot all the same, and the store calls again.
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
        }
    }

    /// Sends `job` as `route` says, and returns its reply.
    pub(crate) async fn send(&self, job: &Job<'_>, route: &Route) -> Result<Value, Error> {
        let (command, args) = command(job, route.with_text);
        // The futures of fred are large, and would be moved with ours. Our own client is told all of this already, but for
        // where a cluster's key is.
        if self.task.is_some() && !self.is_cluster() {
            return Box::pin(self.client.custom(command, args)).await;
        }
        let client = self.client_for(&command, route);
        Box::pin(client.custom(command, args)).await
    }

    /// Returns the client, told where to send a command.
    fn client_for(&self, command: &CustomCommand, route: &Route) -> WithOptions<Client> {
        let node = route.redirect.as_ref();
        // fred looks for the key where the options say, whatever the command says.
        self.client.with_options(&Options {
            cluster_hash: Some(command.cluster_hash.clone()),
            cluster_node: node.map(|node| Server::new(node.host.as_str(), node.port)),
            ..self.options.clone()
        })
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

fn command(job: &Job<'_>, with_text: bool) -> (CustomCommand, Vec<Value>) {
    let hash = ClusterHash::Offset(job.key_at().into());
    let command = CustomCommand::new_static(job.verb(with_text), hash, false);
    let mut args = Vec::with_capacity(8);
    if let Some(script) = job.script_arg(with_text) {
        args.extend([Value::from_static_str(script), i64::from(job.keys()).into()]);
    }
    args.push(bytes(job.key()));
    args.extend(job.rest().map(bytes));
    (command, args)
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

//! [`Destination`]: where the connections of a link go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use limiter_core::{Cause, Charge, StoreError};
use tokio::time::timeout;

use super::failures::Failures;
use super::first_success::first_success;
use super::resolver::Resolver;
use super::{AddressMap, Driver, Failure, Job, Node, Target};
use crate::Fault;

/// Where the connections of a link go: to a server, or to the one that sentinels name as their primary.
#[derive(Debug)]
pub(super) struct Destination<D: Driver> {
    driver: Arc<D>,
    to: To,
    address_map: AddressMap,
    resolver: Resolver,
    connect_timeout: Duration,
}

#[derive(Debug)]
enum To {
    Local,
    Node(Node),
    Primary {
        sentinels: Vec<Node>,
        master: String,
    },
}

/// How long an address of a name has to answer before the next one is tried beside it.
const HEAD_START: Duration = Duration::from_millis(50);

impl<D: Driver> Destination<D> {
    pub(super) fn local(driver: Arc<D>, connect_timeout: Duration) -> Self {
        Self {
            driver,
            to: To::Local,
            address_map: AddressMap::default(),
            resolver: Resolver::of_system(),
            connect_timeout,
        }
    }

    pub(super) fn node(driver: Arc<D>, node: Node, connect_timeout: Duration) -> Self {
        Self {
            to: To::Node(node),
            ..Self::local(driver, connect_timeout)
        }
    }

    pub(super) fn primary(
        driver: Arc<D>,
        sentinels: Vec<Node>,
        master: String,
        address_map: AddressMap,
        connect_timeout: Duration,
    ) -> Self {
        Self {
            to: To::Primary { sentinels, master },
            address_map,
            ..Self::local(driver, connect_timeout)
        }
    }

    /// Returns the node, if it is always the same.
    pub(super) const fn as_node(&self) -> Option<&Node> {
        match &self.to {
            To::Node(node) => Some(node),
            To::Local | To::Primary { .. } => None,
        }
    }

    /// Connects, in the time that there is for it, to a server that answers. `failures` is told
    /// what goes wrong meanwhile.
    pub(super) async fn connect(
        &self,
        failures: &Failures<D>,
    ) -> Result<D::Connection, NotConnected<D::Error>> {
        let connecting = async {
            match &self.to {
                To::Local => self.answering(Target::Local).await,
                To::Node(node) => self.server(node).await,
                To::Primary { sentinels, master } => {
                    self.named_primary(sentinels, master, failures).await
                }
            }
        };
        let connected = timeout(self.connect_timeout, connecting).await;
        connected.unwrap_or_else(|_| {
            let late = NotConnected::Said("connecting took longer than its time-out");
            Err(failures.told().unwrap_or(late))
        })
    }

    /// Connects to a server, at whichever of its addresses answers first.
    async fn server(&self, node: &Node) -> Result<D::Connection, NotConnected<D::Error>> {
        self.server_at(node, self.addresses(node).await?).await
    }

    async fn addresses(&self, node: &Node) -> Result<Vec<SocketAddr>, NotConnected<D::Error>> {
        let found = self.resolver.addresses(node).await;
        found.map_err(NotConnected::Name)
    }

    async fn server_at(
        &self,
        node: &Node,
        addresses: Vec<SocketAddr>,
    ) -> Result<D::Connection, NotConnected<D::Error>> {
        let attempts = addresses
            .into_iter()
            .map(|address| self.answering(Target::Server(node, address)));
        first_success(attempts, HEAD_START, NotConnected::is_final)
            .await
            .map_err(or_none)
    }

    /// Connects, and makes sure that the server is there and takes the connection: a stopped or crowded one lets the kernel accept
    /// it. A reply that refuses something else is left to the calls.
    async fn answering(&self, target: Target<'_>) -> Result<D::Connection, NotConnected<D::Error>> {
        let mut connection = self.unproven(target).await?;
        match connection.ask(&Job::bare("PING")).await {
            Err(error) if !is_refused_by_a_sound_server::<D>(&error) => {
                Err(NotConnected::Taken(error))
            }
            _ => connection.take(),
        }
    }

    async fn unproven(&self, target: Target<'_>) -> Result<Unproven<D>, NotConnected<D::Error>> {
        let connected = self.driver.connect(target).await;
        let connected = connected.map_err(|error| match D::failure(&error) {
            Failure::Reply(_) | Failure::Misconfigured(_) => NotConnected::Taken(error),
            _ => NotConnected::Client(error),
        });
        Ok(Unproven(Some(connected?)))
    }

    /// Asks all sentinels side by side, and connects to the first server that one of them names and that is a primary.
    async fn named_primary(
        &self,
        sentinels: &[Node],
        master: &str,
        failures: &Failures<D>,
    ) -> Result<D::Connection, NotConnected<D::Error>> {
        let asked = sentinels.iter().map(|node| self.ask_sentinel(node, master));
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut named, mut trying) = (Vec::new(), FuturesUnordered::new());
        loop {
            tokio::select! {
                Some(answer) = asked.next() => match answer {
                    Ok(node) if named.contains(&node) => {}
                    Ok(node) => {
                        named.push(node.clone());
                        trying.push(self.primary_at(node));
                    }
                    Err(error) => failures.note_of_sentinel(&error),
                },
                Some(connected) = trying.next() => match connected {
                    Ok(connection) => return Ok(connection),
                    Err(error) => failures.note(&error),
                },
                else => return Err(or_none(failures.told())),
            }
        }
    }

    /// Asks one sentinel where the primary is.
    async fn ask_sentinel(
        &self,
        sentinel: &Node,
        master: &str,
    ) -> Result<Node, NotConnected<D::Error>> {
        let attempts = self.addresses(sentinel).await?.into_iter();
        let attempts = attempts.map(|address| self.answer_of(sentinel, address, master));
        first_success(attempts, HEAD_START, NotConnected::is_final)
            .await
            .map_err(or_none)
    }

    async fn answer_of(
        &self,
        sentinel: &Node,
        address: SocketAddr,
        master: &str,
    ) -> Result<Node, NotConnected<D::Error>> {
        let mut connection = self.unproven(Target::Sentinel(sentinel, address)).await?;
        let where_is = Job::bare("SENTINEL")
            .arg(b"GET-MASTER-ADDR-BY-NAME")
            .arg(master.as_bytes());
        let reply = connection.ask(&where_is).await;
        let reply = D::reply(reply.map_err(NotConnected::Taken)?);
        let node = match reply.parts() {
            [host, port] => host.text().zip(port.number()),
            _ => {
                return Err(NotConnected::Said(
                    "the sentinels know no primary of that name: name it as they do",
                ));
            }
        };
        let node = node.and_then(|(host, port)| Some(Node::new(host, port.try_into().ok()?)));
        let node = node.ok_or(NotConnected::Said("a sentinel's answer is not understood"))?;
        Ok(self.address_map.reached_at(node.or_host(sentinel.host())))
    }

    /// Connects to a server that a sentinel named, if it is a primary: sentinels learn late of what they did not do themselves.
    async fn primary_at(&self, node: Node) -> Result<D::Connection, NotConnected<D::Error>> {
        let mut connection = Unproven::<D>(Some(self.server(&node).await?));
        let role = connection.ask(&Job::bare("ROLE")).await;
        let role = D::reply(role.map_err(NotConnected::Taken)?);
        match role.parts().first().and_then(|role| role.text()) {
            Some("master") => connection.take(),
            _ => Err(NotConnected::Said(
                "the server that the sentinels name is no primary at this moment",
            )),
        }
    }
}

/// Says why there is no connection. Nothing was sent.
#[derive(Clone, Debug)]
pub(super) enum NotConnected<E> {
    /// The client said why.
    Client(E),
    /// A server took the connection, and it was of no use.
    Taken(E),
    /// The name of the host has no address.
    Name(Arc<std::io::Error>),
    /// Something else.
    Said(&'static str),
}

impl<E> NotConnected<E> {
    /// Returns whether there is no use in other addresses of the same name: they are most likely the same server's.
    const fn is_final(&self) -> bool {
        matches!(self, Self::Taken(_))
    }
}

impl<E: Clone + Into<Cause>> NotConnected<E> {
    /// Returns whether a person has to mend it: the set-up of the client or of the server.
    pub(super) fn is_misconfigured<D: Driver<Error = E>>(&self) -> bool {
        matches!(
            self.clone().into_error::<D>(),
            StoreError::Misconfigured { .. }
        )
    }

    /// Makes the error of a call that found no connection.
    pub(super) fn into_error<D: Driver<Error = E>>(self) -> StoreError {
        match self {
            Self::Client(error) | Self::Taken(error) => {
                D::failure_to_connect(&error).into_error(error, false)
            }
            Self::Name(error) => StoreError::unavailable(Charge::Impossible, error),
            Self::Said(words) => StoreError::unavailable(Charge::Impossible, words),
        }
    }
}

fn or_none<E>(error: Option<NotConnected<E>>) -> NotConnected<E> {
    error.unwrap_or(NotConnected::Said("there is no address to connect to"))
}

/// Returns whether a server that is sound and has room said no.
fn is_refused_by_a_sound_server<D: Driver>(error: &D::Error) -> bool {
    matches!(D::failure(error), Failure::Reply(fault) if fault != Fault::Overloaded)
}

/// A connection that may turn out to be of no use: it is ended then, also if nobody waits for that any longer.
struct Unproven<D: Driver>(Option<D::Connection>);

impl<D: Driver> Unproven<D> {
    async fn ask(&mut self, job: &Job<'_>) -> Result<D::Reply, D::Error> {
        match &mut self.0 {
            Some(connection) => D::send(connection, D::command(job, false)).await,
            None => Err(D::lost()),
        }
    }

    fn take(mut self) -> Result<D::Connection, NotConnected<D::Error>> {
        self.0.take().ok_or_else(|| NotConnected::Client(D::lost()))
    }
}

impl<D: Driver> Drop for Unproven<D> {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            D::abort(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::super::tenfold::{Lost, Tenfold, Wire};
    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn at(ports: &[u16]) -> Vec<SocketAddr> {
        let address = |port: &u16| SocketAddr::new(IpAddr::from([127, 0, 0, 1]), *port);
        ports.iter().map(address).collect()
    }

    /// Connects to a name with these addresses, of which some are dead.
    async fn connect(addresses: &[u16], dead: &[u16]) -> Result<Wire, NotConnected<Lost>> {
        let mut wire = Wire::silent().open();
        wire.dead = dead.to_vec();
        let node = Node::new("a name with several addresses", 1);
        let destination = Destination::local(Arc::new(Tenfold(wire)), LONG);
        let connected = destination.server_at(&node, at(addresses));
        timeout(LONG, connected)
            .await
            .expect("no wait for the dead")
    }

    #[tokio::test]
    async fn one_live_address_of_a_name_is_enough_wherever_it_stands() {
        assert!(connect(&[1], &[]).await.is_ok());
        for dead in [vec![2, 3], vec![1, 3], vec![1, 2]] {
            assert!(connect(&[1, 2, 3], &dead).await.is_ok(), "{dead:?}");
        }
    }

    #[tokio::test]
    async fn name_without_an_address_is_told() {
        let error = connect(&[], &[]).await.expect_err("nowhere to go");
        let error = error.into_error::<Tenfold>();
        assert!(error.is_outage() && !error.may_have_charged(), "{error:?}");
    }
}

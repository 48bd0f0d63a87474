//! [`Resolver`]: the addresses of names.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::Node;

/// The addresses of names, as the system's own resolver tells them.
///
/// That blocks a thread, for long if nobody answers it, and goes on when nobody waits any longer.
/// So each name has one look-up under way at a time, the result of which goes to all who wait for
/// it; and one that hangs keeps nobody from another name.
#[derive(Clone, Debug)]
pub(super) struct Resolver(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    look_up: LookUp,
    /// By name, what the look-up under way will tell. There are no more than the names that users
    /// and servers give their hosts.
    under_way: Mutex<HashMap<String, watch::Receiver<Option<Found>>>>,
}

/// Returns the addresses of a name, and blocks its thread meanwhile.
type LookUp = fn(&str) -> io::Result<Vec<SocketAddr>>;

type Found = Result<Vec<SocketAddr>, Arc<io::Error>>;

impl Resolver {
    /// Asks the system.
    pub(super) fn of_system() -> Self {
        Self::by(|host| Ok((host, 0).to_socket_addrs()?.collect()))
    }

    fn by(look_up: LookUp) -> Self {
        Self(Arc::new(Shared {
            look_up,
            under_way: Mutex::default(),
        }))
    }

    /// Returns the addresses at which a node may be reached.
    ///
    /// # Errors
    /// What the system says if there are none.
    ///
    /// # Cancel safety
    /// The look-up goes on if the caller gives up, for others who wait for it.
    pub(super) async fn addresses(&self, node: &Node) -> Found {
        if let Ok(ip) = node.host().parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, node.port())]);
        }
        // One that is gone without a word was another runtime's, which has ended.
        for _ in 0..2 {
            let mut under_way = self.0.join(node.host());
            if let Ok(found) = under_way.wait_for(Option::is_some).await {
                let found = found.clone().unwrap_or_else(|| Ok(Vec::new()));
                return found.map(|found| found.into_iter().map(at(node.port())).collect());
            }
        }
        let ended = io::Error::other("the runtime ended while it looked up a name");
        Err(Arc::new(ended))
    }
}

fn at(port: u16) -> impl Fn(SocketAddr) -> SocketAddr {
    move |mut address| {
        address.set_port(port);
        address
    }
}

impl Shared {
    /// Returns what will tell the addresses of a name, and begins to look them up if nobody does.
    fn join(self: &Arc<Self>, host: &str) -> watch::Receiver<Option<Found>> {
        let (found, under_way) = watch::channel(None);
        {
            let mut all = self.under_way();
            if let Some(known) = all.get(host) {
                return known.clone();
            }
            all.insert(host.to_owned(), under_way.clone());
        }
        let mut looking_up = LookingUp {
            resolver: Arc::clone(self),
            host: host.to_owned(),
            tells: found,
            found: None,
        };
        // The lock is free again: a runtime that ends drops at once what is spawned on it.
        spawn_blocking(move || looking_up.run());
        under_way
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, watch::Receiver<Option<Found>>>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A look-up that is under way. However it ends, others may begin one of the same name, and only
/// then it is told.
struct LookingUp {
    resolver: Arc<Shared>,
    host: String,
    tells: watch::Sender<Option<Found>>,
    found: Option<Found>,
}

impl LookingUp {
    fn run(&mut self) {
        let found = (self.resolver.look_up)(&self.host);
        self.found = Some(found.map_err(Arc::new));
    }
}

impl Drop for LookingUp {
    fn drop(&mut self) {
        self.resolver.under_way().remove(&self.host);
        if self.found.is_some() {
            self.tells.send_replace(self.found.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::thread::sleep;
    use std::time::{Duration, Instant};

    use futures_util::future::join_all;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(10);

    fn here() -> Vec<SocketAddr> {
        vec![SocketAddr::from(([127, 0, 0, 1], 0))]
    }

    #[tokio::test]
    async fn look_up_that_hangs_costs_its_own_name_alone() {
        static MAY_END: AtomicBool = AtomicBool::new(false);
        let resolver = Resolver::by(|host| {
            let began = Instant::now();
            while host == "hangs" && !MAY_END.load(Ordering::Relaxed) && began.elapsed() < LONG {
                sleep(Duration::from_millis(1));
            }
            Ok(here())
        });
        let other = resolver.clone();
        let hangs = tokio::spawn(async move { other.addresses(&Node::new("hangs", 1)).await });
        while resolver.0.under_way().is_empty() {
            tokio::task::yield_now().await;
        }
        let known = Node::new("known", 7);
        let known = timeout(LONG / 2, resolver.addresses(&known)).await;
        assert!(!hangs.is_finished());
        MAY_END.store(true, Ordering::Relaxed);
        let known = known.expect("no wait for another name").expect("addresses");
        assert_eq!(known, [SocketAddr::from(([127, 0, 0, 1], 7))]);
        assert!(hangs.await.is_ok_and(|found| found.is_ok()));
    }

    #[tokio::test]
    async fn all_who_wait_for_a_name_share_one_look_up() {
        static LOOKED_UP: AtomicUsize = AtomicUsize::new(0);
        let resolver = Resolver::by(|_| {
            LOOKED_UP.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(20));
            Ok(here())
        });
        let nodes: Vec<_> = (1..=64).map(|port| Node::new("name", port)).collect();
        for times in 1..=2 {
            let found = join_all(nodes.iter().map(|node| resolver.addresses(node))).await;
            for (node, found) in nodes.iter().zip(found) {
                assert_eq!(found.expect("addresses")[0].port(), node.port());
            }
            assert_eq!(LOOKED_UP.load(Ordering::Relaxed), times, "nothing is kept");
            assert!(resolver.0.under_way().is_empty());
        }
    }

    #[test]
    fn a_runtime_that_ends_before_it_looks_up_leaves_that_to_the_next() {
        let resolver = Resolver::by(|_| Ok(here()));
        let new = || tokio::runtime::Builder::new_current_thread().build();
        let ended = new().expect("a runtime");
        let handle = ended.handle().clone();
        drop(ended);
        {
            let _inside = handle.enter();
            drop(resolver.0.join("name"));
        }
        let node = Node::new("name", 1);
        let found = new()
            .expect("a runtime")
            .block_on(resolver.addresses(&node));
        assert!(found.is_ok(), "{found:?}");
    }

    #[tokio::test]
    async fn name_without_an_address_is_told() {
        let resolver = Resolver::of_system();
        let nobody = Node::new("no.such.host.invalid", 1);
        assert!(resolver.addresses(&nobody).await.is_err());
        let known = resolver.addresses(&Node::new("::1", 7)).await;
        assert_eq!(known.expect("an address")[0].to_string(), "[::1]:7");
    }
}

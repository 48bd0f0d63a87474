//! [`Cluster`]: the nodes of a cluster, and which of them serves a key.

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use limiter_core::{Charge, StoreError};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use super::attempts::Attempts;
use super::destination::NotConnected;
use super::failures::Failures;
use super::first_success::first_success;
use super::in_part::InPart;
use super::link::Link;
use super::member::Member;
use super::slot_map::SlotMap;
use super::slots::{SLOTS, SlotRange, Slots, slot_of};
use super::{Driver, Failure, Job, Node, Redirect, Settings};

/// The nodes of a cluster, each with connections of its own, and which of them serves a key.
///
/// What is known of the slots is corrected by each `MOVED`, and renewed in the background when a node says `MOVED`, or fails: by
/// whichever node answers first. A call waits for that only if nothing is known of its slot.
#[derive(Debug)]
pub(super) struct Cluster<D: Driver>(Arc<Shared<D>>);

#[derive(Debug)]
struct Shared<D: Driver> {
    driver: Arc<D>,
    settings: Settings,
    seeds: Vec<Member<D>>,
    state: RwLock<SlotMap<D>>,
    renewals: Mutex<Attempts<NotConnected<D::Error>>>,
}

/// How long a node has to tell about the slots before the next one is asked as well.
const HEAD_START: Duration = Duration::from_millis(50);
/// The least time between two rounds in which seeds are asked although other nodes are known. A
/// seed may be one of those by another name, and would be connected to twice as often as it should.
const SEEDS_AGAIN: Duration = Duration::from_secs(10);

impl<D: Driver> Cluster<D> {
    pub(super) fn new(driver: Arc<D>, seeds: &[Node], settings: Settings) -> Self {
        let member = |seed: &Node| Member::new(&driver, seed, &settings);
        let shared = Shared {
            seeds: seeds.iter().map(member).collect(),
            driver,
            settings,
            state: RwLock::new(SlotMap {
                members: Vec::new(),
                retired: Vec::new(),
                owners: Vec::new(),
                is_complete: false,
                seeds_again_at: None,
            }),
            renewals: Mutex::default(),
        };
        Self(Arc::new(shared))
    }

    /// Returns the link for the next attempt at a job, if it is known where to send it.
    pub(super) fn link_now(&self, job: &Job<'_>, redirect: Option<&Redirect>) -> Option<Link<D>> {
        if let Some(redirect) = redirect {
            return Some(self.0.link_to(&redirect.node));
        }
        let state = self.0.read();
        if job.keys() == 0 {
            let mut members = state.members.iter().chain(&self.0.seeds);
            let first = members.clone().next()?;
            let connected = members.find(|member| member.pool.is_connected());
            return Some(connected.unwrap_or(first).pool.pick().clone());
        }
        let owner = state.owner_of(slot_of(job.key()))?;
        Some(owner.pool.pick().clone())
    }

    /// Returns the link for the next attempt at a job; waits until it is known who serves its slot.
    ///
    /// # Errors
    /// [`StoreError`] if that cannot be told, or nobody serves it; nothing was sent then.
    ///
    /// # Cancel safety
    /// The search goes on if the caller gives up.
    pub(super) async fn link(&self, job: &Job<'_>) -> Result<Link<D>, StoreError> {
        // An attempt that is gone without a word was another runtime's, which has ended.
        for _ in 0..3 {
            if let Some(link) = self.link_now(job, None) {
                return Ok(link);
            }
            self.renewed().await?;
        }
        Err(unserved())
    }

    /// Returns the nodes that serve slots, and whether these are all of them.
    ///
    /// # Errors
    /// [`StoreError`] if nothing is known of the slots.
    pub(super) async fn primaries(&self) -> Result<(Vec<Node>, bool), StoreError> {
        if self.0.read().owners.is_empty() {
            self.renewed().await?;
        }
        let state = self.0.read();
        let mut primaries: Vec<_> = state.owners.iter().flatten().copied().collect();
        primaries.sort_unstable();
        primaries.dedup();
        let members = primaries.into_iter();
        let members = members.filter_map(|nth| state.members.get(usize::from(nth)));
        Ok((
            members.map(|member| member.node.clone()).collect(),
            state.is_complete,
        ))
    }

    /// Learns from a node that another serves the slot of a job now, and looks in the background what else has changed.
    pub(super) fn learn(&self, job: &Job<'_>, node: &Node) {
        {
            let mut state = self.0.write();
            let owner = self.0.member_of(&mut state, node);
            let slot = usize::from(slot_of(job.key()));
            if let Some(known) = state.owners.get_mut(slot) {
                *known = Some(owner);
            }
        }
        self.renew();
    }

    /// Returns where a node is reached that another has named. If it has no name, it is the one
    /// member with its port; `None` if there is no such member, or more than one.
    pub(super) fn find(&self, node: Node) -> Option<Node> {
        let reached_at = |node| self.0.settings.address_map.reached_at(node);
        if !node.is_nameless() {
            return Some(reached_at(node));
        }
        let members = self.0.read().members.clone();
        let at_port = members
            .iter()
            .map(|member| reached_at(Node::new(member.node.host(), node.port())));
        let mut known: Vec<_> = at_port
            .filter(|node| members.iter().any(|member| member.node == *node))
            .collect();
        known.sort_unstable();
        known.dedup();
        let found = known.pop();
        found.filter(|_| known.is_empty())
    }

    /// Asks for the slots anew, in the background and no more often than is good for the servers.
    pub(super) fn renew(&self) {
        // Why it failed a moment ago is told to a call that waits for it.
        let _ = self.begin_renewal();
    }

    fn begin_renewal(&self) -> Result<watch::Receiver<()>, Option<NotConnected<D::Error>>> {
        self.0.renewals().join(|done| {
            let shared = Arc::clone(&self.0);
            // A call may be dropped where there is none: the next one begins then.
            let Ok(runtime) = Handle::try_current() else {
                return;
            };
            runtime.spawn(async move {
                let (renewing, failures) = (Renewing(&shared), Failures::default());
                let found = failures.of(shared.ask_members(&failures), |error| {
                    shared.renewals().note_failure(error);
                    let _ = done.send(());
                });
                renewing.end(found.await);
                let _ = done.send(());
            });
        })
    }

    async fn renewed(&self) -> Result<(), StoreError> {
        let begun = self.begin_renewal();
        let misconfigured = {
            let renewals = self.0.renewals();
            let failure = renewals.failure();
            failure
                .filter(|error| error.is_misconfigured::<D>())
                .cloned()
        };
        if let Some(error) = misconfigured {
            return Err(error.into_error::<D>());
        }
        let mut under_way = begun.map_err(|error| match error {
            Some(error) => error.into_error::<D>(),
            None => unserved(),
        })?;
        let _ = under_way.changed().await;
        Ok(())
    }
}

fn unserved() -> StoreError {
    StoreError::unavailable(
        Charge::Impossible,
        "no node of the cluster is known to serve the slot of the key",
    )
}

/// A search for the slots that is under way. Should it panic, or its runtime end, others may begin.
struct Renewing<'a, D: Driver>(&'a Shared<D>);

impl<D: Driver> Renewing<'_, D> {
    fn end(self, found: Result<Slots, NotConnected<D::Error>>) {
        match found {
            Ok(slots) => {
                self.0.take_over(&slots);
                self.0.renewals().note_success();
            }
            Err(error) => self.0.renewals().note_failure(error),
        }
    }
}

impl<D: Driver> Drop for Renewing<'_, D> {
    fn drop(&mut self) {
        self.0.renewals().end();
    }
}

impl<D: Driver> Shared<D> {
    fn read(&self) -> RwLockReadGuard<'_, SlotMap<D>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, SlotMap<D>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn renewals(&self) -> MutexGuard<'_, Attempts<NotConnected<D::Error>>> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a member of a node. Nothing is connected yet.
    fn member(&self, node: &Node) -> Member<D> {
        Member::new(&self.driver, node, &self.settings)
    }

    /// Returns which of the members a node is, and makes it one if it is none.
    fn member_of(&self, state: &mut SlotMap<D>, node: &Node) -> u16 {
        let position = state.position(node).unwrap_or_else(|| {
            let mut known = self.seeds.iter().chain(&state.retired);
            let known = known.find(|known| known.node == *node).cloned();
            let member = known.unwrap_or_else(|| self.member(node));
            state.members.push(member);
            state.members.len() - 1
        });
        // A cluster has at most a thousand nodes.
        u16::try_from(position).unwrap_or(u16::MAX)
    }

    fn link_to(&self, node: &Node) -> Link<D> {
        let known = {
            let state = self.read();
            let position = state.position(node);
            position.and_then(|nth| state.members.get(nth)).cloned()
        };
        let member = known.unwrap_or_else(|| {
            let mut state = self.write();
            let nth = self.member_of(&mut state, node);
            let member = state.members.get(usize::from(nth)).cloned();
            member.unwrap_or_else(|| self.member(node))
        });
        member.pool.pick().clone()
    }

    /// Returns whom to ask for the slots, in this order: the members that are connected, the
    /// others, and now and then the seeds.
    fn members_to_ask(&self) -> Vec<Member<D>> {
        let (mut members, seeds_again_at) = {
            let state = self.read();
            (state.members.clone(), state.seeds_again_at)
        };
        let mut seeds = self.seeds.clone();
        seeds.retain(|seed| members.iter().all(|known| known.node != seed.node));
        for nodes in [&mut members, &mut seeds] {
            fastrand::shuffle(nodes);
            nodes.sort_by_key(|member| !member.pool.is_connected());
        }
        if seeds_again_at.is_none_or(|again_at| Instant::now() >= again_at) {
            members.append(&mut seeds);
        }
        members
    }

    /// Notes that a member is asked for the slots: a seed is not asked again soon if some other
    /// node is known.
    fn note_asked(&self, member: &Member<D>) {
        let mut state = self.write();
        if !state.members.is_empty() && state.position(&member.node).is_none() {
            state.seeds_again_at = Some(Instant::now() + SEEDS_AGAIN);
        }
    }

    /// Asks for the slots. What a node says that does not know of all of them is taken only if no
    /// other says more in a while: it may know nothing of the rest of the cluster.
    async fn ask_members(&self, failures: &Failures<D>) -> Result<Slots, NotConnected<D::Error>> {
        let in_part = InPart::default();
        let asked = self.members_to_ask().into_iter().map(async |member| {
            let said = self.ask(member).await;
            let slots = said.inspect_err(|error| failures.note(error))?;
            if slots.is_whole() {
                return Ok(slots);
            }
            in_part.keep(slots);
            Err(NotConnected::Said("the node does not know of all slots"))
        });
        let whole = timeout(
            self.settings.connect_timeout,
            first_success(asked, HEAD_START, |_| false),
        );
        let whole = tokio::select! {
            whole = whole => whole.ok().and_then(Result::ok),
            () = in_part.is_enough() => None,
        };
        if let Some(slots) = whole.or_else(|| in_part.take()) {
            return Ok(slots);
        }
        Err(failures.told().unwrap_or(NotConnected::Said(
            "no node of the cluster told in time which serves which slots",
        )))
    }

    async fn ask(&self, member: Member<D>) -> Result<Slots, NotConnected<D::Error>> {
        self.note_asked(&member);
        let link = member.pool.first();
        let mut live = link.connected().await?;
        let asked = Asked {
            link,
            generation: live.generation(),
            is_answered: Cell::new(false),
        };
        let slots = D::command(&Job::bare("CLUSTER").arg(b"SLOTS"), false);
        let reply = D::send(&mut live.connection, slots).await;
        asked.is_answered.set(true);
        let reply = reply.map_err(|error| {
            if !matches!(D::failure(&error), Failure::Reply(_)) {
                link.give_up(live.generation(), NotConnected::Client(error.clone()));
            }
            NotConnected::Client(error)
        })?;
        let host = Some(member.node.host());
        match Slots::read(&D::reply(reply), host, &self.settings.address_map) {
            Some(slots) if !slots.ranges.is_empty() => Ok(slots),
            Some(_) => Err(NotConnected::Said(
                "the node knows of no slots, or of no node that says where it is",
            )),
            None => {
                let why = NotConnected::Said("the list of slots is not understood");
                link.give_up(live.generation(), why.clone());
                Err(why)
            }
        }
    }

    /// Takes over what a node said. Of slots that it does not mention, what was known stays: it may know less than others.
    fn take_over(&self, slots: &Slots) {
        let mut guard = self.write();
        let state = &mut *guard;
        state.owners.resize(usize::from(SLOTS), None);
        for SlotRange {
            first,
            last,
            primary,
        } in &slots.ranges
        {
            let owner = self.member_of(state, primary);
            let range = usize::from(*first)..=usize::from(*last);
            if let Some(owned) = state.owners.get_mut(range) {
                owned.fill(Some(owner));
            }
        }
        state.is_complete = slots.is_complete;
        let forgotten = state.retire_idle();
        drop(guard);
        drop(forgotten);
    }
}

/// A question to a node that is under way. Nobody may wait for the answer any longer, because another node was faster: that it came
/// to nothing is noted all the same.
struct Asked<'a, D: Driver> {
    link: &'a Link<D>,
    generation: u64,
    is_answered: Cell<bool>,
}

impl<D: Driver> Drop for Asked<'_, D> {
    fn drop(&mut self) {
        if self.is_answered.get() {
            self.link.note_answer();
        } else {
            self.link.note_silence(self.generation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::AddressMap;
    use super::super::tenfold::{Tenfold, Wire};
    use super::*;

    /// A cluster that has these nodes, each with some slots, and was named by another.
    fn cluster(nodes: &[(&str, u16)], address_map: AddressMap) -> Cluster<Tenfold> {
        let settings = Settings {
            address_map,
            ..Settings::default()
        };
        let seed = Node::new("seed", 7000);
        let cluster = Cluster::new(Arc::new(Tenfold(Wire::silent())), &[seed], settings);
        let ranges = (0..).zip(nodes).map(|(slot, (host, port))| SlotRange {
            first: slot,
            last: slot,
            primary: Node::new(*host, *port),
        });
        cluster.0.take_over(&Slots {
            ranges: ranges.collect(),
            is_complete: true,
        });
        cluster
    }

    fn asked(cluster: &Cluster<Tenfold>) -> Vec<Node> {
        let members = cluster.0.members_to_ask();
        members.into_iter().map(|member| member.node).collect()
    }

    #[test]
    fn node_without_a_name_is_the_one_member_with_its_port() {
        let nameless = |port| Node::new(Node::NAMELESS, port);
        let apart = [("a", 7000), ("a", 7001), ("b", 7002)];
        let cluster_apart = cluster(&apart, AddressMap::default());
        assert_eq!(
            cluster_apart.find(nameless(7000)),
            Some(Node::new("a", 7000))
        );
        assert_eq!(cluster_apart.find(nameless(7003)), None);
        let alike = cluster(&[("a", 7000), ("b", 7000)], AddressMap::default());
        assert_eq!(alike.find(nameless(7000)), None);
        assert_eq!(alike.find(Node::new("c", 1)), Some(Node::new("c", 1)));
        let map = AddressMap::new(|node| Node::new(node.host(), node.port() + 1));
        let mapped = cluster(&apart, map);
        assert_eq!(mapped.find(nameless(7000)), Some(Node::new("a", 7001)));
    }

    #[test]
    fn seeds_are_asked_last_and_not_again_soon() {
        let cluster = cluster(&[("a", 7000), ("b", 7001)], AddressMap::default());
        let first = asked(&cluster);
        assert_eq!(first.len(), 3);
        assert_eq!(first[2], Node::new("seed", 7000));
        cluster.0.note_asked(&cluster.0.members_to_ask()[0]);
        assert_eq!(asked(&cluster).len(), 3, "a member was asked, no seed");
        cluster.0.note_asked(&cluster.0.seeds[0]);
        assert_eq!(asked(&cluster).len(), 2);
        cluster.0.write().seeds_again_at = Some(Instant::now());
        assert_eq!(asked(&cluster).len(), 3);
    }

    #[test]
    fn seed_that_serves_slots_is_a_member_and_has_its_connections() {
        let cluster = cluster(&[("seed", 7000)], AddressMap::default());
        assert_eq!(asked(&cluster), [Node::new("seed", 7000)]);
        let pool = Arc::clone(&cluster.0.read().members[0].pool);
        assert!(Arc::ptr_eq(&pool, &cluster.0.seeds[0].pool));
    }
}

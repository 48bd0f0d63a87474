//! How full the servers are: [`SessionRunner`] as dashboards see it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use limiter_core::StoreError;
use limiter_sessions::{StoreReport, StoreStats};

use super::{ServerInfo, SessionKey, SessionRunner};
use crate::runner::settled;
use crate::{BadReply, Driver, Job, Redirect, Reply, Route};

/// How many keys a server looks at in one step.
const STEP: u32 = 1000;

#[async_trait]
impl<D: Driver> StoreStats for SessionRunner<D> {
    async fn stats(&self, keys_max: u32) -> Result<StoreReport, StoreError> {
        let inquiry = Inquiry {
            of: self,
            began: Instant::now(),
        };
        let nodes = inquiry.nodes().await?;
        let mut report = StoreReport::default();
        report.is_complete = nodes.are_all;
        for (nth, node) in nodes.routes.iter().enumerate() {
            match inquiry.stats_of(node, keys_max).await {
                Ok(more) => report = report.and(more),
                // Of the nodes before, something is known.
                Err(_) if nth > 0 && inquiry.left().is_zero() => {
                    report.is_complete = false;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }
}

/// The questions of one call, which share its deadline.
struct Inquiry<'a, D: Driver> {
    of: &'a SessionRunner<D>,
    began: Instant,
}

impl<D: Driver> Inquiry<'_, D> {
    fn left(&self) -> Duration {
        let deadline = self.of.runner.deadline();
        deadline.saturating_sub(self.began.elapsed())
    }

    async fn stats_of(&self, node: &Route, keys_max: u32) -> Result<StoreReport, StoreError> {
        let info = self.ask(&Job::command("INFO", b"default"), node).await?;
        let info = ServerInfo::read(info.text().unwrap_or_default());
        let mut report = StoreReport::default();
        (report.hits, report.misses) = (info.hits, info.misses);
        report.memory_bytes = info.memory_bytes;
        let (names, is_complete) = self.scan(node, keys_max).await?;
        report.is_complete = is_complete;
        for name in &names {
            match self.of.names().kind(name) {
                Some(SessionKey::Session) => report.sessions += 1,
                Some(SessionKey::Fingerprint) => report.fingerprints += 1,
                Some(SessionKey::Address) => report.addresses += 1,
                Some(SessionKey::Nonce) => report.nonces += 1,
                _ => {}
            }
        }
        Ok(report)
    }

    /// Returns the names of ours among some `keys_max` keys of a node, and whether there are no more; those that it came to
    /// if time is up.
    async fn scan(
        &self,
        node: &Route,
        keys_max: u32,
    ) -> Result<(BTreeSet<Vec<u8>>, bool), StoreError> {
        let pattern = self.of.names().pattern();
        let step = keys_max.clamp(1, STEP).to_string();
        let (mut found, mut cursor) = (BTreeSet::new(), b"0".to_vec());
        for _ in 0..keys_max.div_ceil(STEP).max(1) {
            let scan = Job::command("SCAN", &cursor).arg(b"MATCH");
            let scan = scan.arg(pattern.as_bytes()).arg(b"COUNT");
            let page = match self.ask(&scan.arg(step.as_bytes()), node).await {
                Ok(page) => page,
                Err(_) if self.left().is_zero() => break,
                Err(error) => return Err(error),
            };
            let [next, names] = page.parts() else {
                return Err(malformed());
            };
            let names = names.parts().iter().filter_map(Reply::bytes);
            found.extend(names.map(<[u8]>::to_vec));
            cursor = next.bytes().ok_or_else(malformed)?.to_vec();
            if cursor == b"0" {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }

    /// Returns the ways to the nodes that serve slots; where there are no slots, to the one server.
    async fn nodes(&self) -> Result<Nodes, StoreError> {
        if !self.of.is_cluster().await? {
            return Ok(Nodes {
                routes: vec![Route::default()],
                are_all: true,
            });
        }
        let slots = Job::command("CLUSTER", b"SLOTS");
        let slots = self.ask(&slots, &Route::default()).await?;
        let nodes = Nodes::read(&slots);
        if nodes.routes.is_empty() {
            return Err(StoreError::misconfigured(
                "let the cluster serve slots, and its nodes tell their addresses (cluster-preferred-endpoint-type)",
                "CLUSTER SLOTS names no node that can be asked",
            ));
        }
        Ok(nodes)
    }

    async fn ask(&self, job: &Job<'_>, node: &Route) -> Result<Reply, StoreError> {
        let job = job.clone().read_only().alone();
        let reply = self.of.runner.ask_by(&job, node, self.left());
        Ok(D::reply(reply.await?))
    }
}

fn malformed() -> StoreError {
    settled(BadReply::Malformed { len: 0 }.into(), false)
}

/// The ways to the nodes of a cluster.
#[derive(Debug)]
struct Nodes {
    routes: Vec<Route>,
    /// Whether every node can be asked.
    are_all: bool,
}

impl Nodes {
    /// Reads what `CLUSTER SLOTS` replied.
    fn read(slots: &Reply) -> Self {
        let ranges = slots.parts();
        let mut primaries: Vec<_> = ranges.iter().filter_map(primary).collect();
        let are_all = primaries.len() == ranges.len();
        primaries.sort_unstable();
        primaries.dedup();
        let route = |(host, port)| Route {
            with_text: false,
            redirect: Some(Redirect {
                host,
                port,
                asking: false,
            }),
        };
        Self {
            routes: primaries.into_iter().map(route).collect(),
            are_all,
        }
    }
}

/// Reads the primary of a range of slots, as `CLUSTER SLOTS` tells it; `None` if it keeps its host to itself. No host means that
/// of the node that was asked, which only the client knows.
fn primary(range: &Reply) -> Option<(String, u16)> {
    let [_first, _last, primary, ..] = range.parts() else {
        return None;
    };
    let [host, port, ..] = primary.parts() else {
        return None;
    };
    let host = host.text().filter(|host| !matches!(*host, "" | "?"))?;
    Some((host.to_owned(), port.number()?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(hosts: &[Option<&str>]) -> Reply {
        let range = |host: Option<&str>| {
            let host = host.map_or(Reply::Nil, |host| Reply::Bytes(host.into()));
            let node = Reply::List(vec![host, Reply::Int(7000), Reply::Bytes(b"id".to_vec())]);
            Reply::List(vec![Reply::Int(0), Reply::Int(5), node])
        };
        Reply::List(hosts.iter().copied().map(range).collect())
    }

    #[test]
    fn nodes_without_a_host_are_not_passed_over_in_silence() {
        for unknown in [None, Some(""), Some("?")] {
            let nodes = Nodes::read(&slots(&[Some("10.0.0.1"), unknown]));
            assert_eq!(
                (nodes.routes.len(), nodes.are_all),
                (1, false),
                "{unknown:?}"
            );
        }
        let nodes = Nodes::read(&slots(&[
            Some("10.0.0.1"),
            Some("10.0.0.2"),
            Some("10.0.0.1"),
        ]));
        assert_eq!((nodes.routes.len(), nodes.are_all), (2, true));
        let nodes = Nodes::read(&Reply::List(vec![Reply::Int(1)]));
        assert_eq!((nodes.routes.len(), nodes.are_all), (0, false));
    }
}

//! How full the servers are: [`SessionRunner`] as dashboards see it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join_all;
use limiter_core::StoreError;
use limiter_sessions::{StoreReport, StoreStats};

use super::{ServerInfo, SessionKey, SessionRunner};
use crate::runner::settled;
use crate::{BadReply, Driver, Job, Reply, Route};

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
        // Side by side: a node that is silent takes nothing of the time of the others.
        let asked = nodes.routes.iter();
        let asked = asked.map(|node| inquiry.stats_of(node, keys_max));
        together(join_all(asked).await, nodes.are_all)
    }
}

/// Adds up what nodes told. What one of them did not tell leaves the report incomplete.
///
/// # Errors
/// What the first said, if none told anything.
fn together(
    told: Vec<Result<StoreReport, StoreError>>,
    are_all: bool,
) -> Result<StoreReport, StoreError> {
    let (mut sum, mut failed) = (None::<StoreReport>, None);
    for told in told {
        match told {
            Ok(more) => sum = Some(sum.map_or(more, |sum| sum.and(more))),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match (sum, failed) {
        (None, Some(error)) => Err(error),
        (sum, failed) => {
            let mut report = sum.unwrap_or_default();
            report.is_complete &= are_all && failed.is_none();
            Ok(report)
        }
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
                routes: vec![Route::FIRST],
                are_all: true,
            });
        }
        let (primaries, are_all) = self.of.runner.primaries(self.left()).await?;
        let routes: Vec<_> = primaries.into_iter().map(Route::to_node).collect();
        if routes.is_empty() {
            return Err(StoreError::misconfigured(
                "let the cluster serve slots, and its nodes tell their addresses (cluster-preferred-endpoint-type)",
                "CLUSTER SLOTS names no node that can be asked",
            ));
        }
        Ok(Nodes { routes, are_all })
    }

    async fn ask(&self, job: &Job<'_>, node: &Route) -> Result<Reply, StoreError> {
        let job = job.clone().read_only().alone();
        let read = |reply| Ok(D::reply(reply));
        self.of.runner.ask_by(&job, node, self.left(), read).await
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

//! How full the servers are: [`SessionRunner`] as dashboards see it.

use std::collections::BTreeSet;

use async_trait::async_trait;
use limiter_core::StoreError;
use limiter_sessions::{StoreReport, StoreStats};

use super::{ServerInfo, SessionKey, SessionRunner};
use crate::{BadReply, Driver, Job, Redirect, Reply, Route};

/// How many keys a server looks at in one step.
const STEP: u32 = 1000;

#[async_trait]
impl<D: Driver> StoreStats for SessionRunner<D> {
    async fn stats(&self, keys_max: u32) -> Result<StoreReport, StoreError> {
        let mut report = StoreReport::default();
        report.is_complete = true;
        for node in self.nodes().await? {
            report = report.and(self.stats_of(&node, keys_max).await?);
        }
        Ok(report)
    }
}

impl<D: Driver> SessionRunner<D> {
    async fn stats_of(&self, node: &Route, keys_max: u32) -> Result<StoreReport, StoreError> {
        let info = self
            .ask_node(&Job::command("INFO", b"default"), node)
            .await?;
        let info = ServerInfo::read(info.text().unwrap_or_default());
        let mut report = StoreReport::default();
        (report.hits, report.misses) = (info.hits, info.misses);
        report.memory_bytes = info.memory_bytes;
        let (names, is_complete) = self.scan(node, keys_max).await?;
        report.is_complete = is_complete;
        for name in &names {
            match self.names().kind(name) {
                Some(SessionKey::Session) => report.sessions += 1,
                Some(SessionKey::Fingerprint) => report.fingerprints += 1,
                Some(SessionKey::Address) => report.addresses += 1,
                Some(SessionKey::Nonce) => report.nonces += 1,
                _ => {}
            }
        }
        Ok(report)
    }

    /// Returns the names of ours among some `keys_max` keys of a node, and whether there are no more.
    async fn scan(
        &self,
        node: &Route,
        keys_max: u32,
    ) -> Result<(BTreeSet<Vec<u8>>, bool), StoreError> {
        let (pattern, step) = (self.names().pattern(), keys_max.clamp(1, STEP).to_string());
        let (mut found, mut cursor) = (BTreeSet::new(), b"0".to_vec());
        for _ in 0..keys_max.div_ceil(STEP).max(1) {
            let scan = Job::command("SCAN", &cursor).arg(b"MATCH");
            let scan = scan.arg(pattern.as_bytes()).arg(b"COUNT");
            let page = self.ask_node(&scan.arg(step.as_bytes()), node).await?;
            let [next, names] = page.parts() else {
                return Err(BadReply::Malformed { len: 0 }.into());
            };
            let names = names.parts().iter().filter_map(Reply::bytes);
            found.extend(names.map(<[u8]>::to_vec));
            cursor = next.bytes().unwrap_or(b"0").to_vec();
            if cursor == b"0" {
                return Ok((found, true));
            }
        }
        Ok((found, false))
    }

    /// Returns the ways to all nodes that serve slots; where there are no slots, to the one server.
    async fn nodes(&self) -> Result<Vec<Route>, StoreError> {
        if !self.is_cluster().await? {
            return Ok(vec![Route::default()]);
        }
        let slots = Job::command("CLUSTER", b"SLOTS");
        let slots = self.ask_node(&slots, &Route::default()).await?;
        let mut primaries: Vec<_> = slots.parts().iter().filter_map(primary).collect();
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
        Ok(primaries.into_iter().map(route).collect())
    }

    async fn ask_node(&self, job: &Job<'_>, node: &Route) -> Result<Reply, StoreError> {
        let job = job.clone().read_only();
        let deadline = self.runner.deadline();
        let reply = self.runner.ask_by(&job, node, deadline);
        Ok(D::reply(reply.await?))
    }
}

/// Reads the primary of a range of slots, as `CLUSTER SLOTS` tells it.
fn primary(range: &Reply) -> Option<(String, u16)> {
    let [_first, _last, primary, ..] = range.parts() else {
        return None;
    };
    let [host, port, ..] = primary.parts() else {
        return None;
    };
    Some((host.text()?.to_owned(), port.number()?.try_into().ok()?))
}

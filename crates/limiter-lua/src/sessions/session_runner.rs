//! [`SessionRunner`]: the ports of sessions on any client.

use std::sync::OnceLock;
use std::time::Instant;

use async_trait::async_trait;
use limiter_core::{Key, StoreError, Timestamp};
use limiter_sessions::{
    Anomaly, AnomalyFeed, CLUSTER_MAX, Fingerprint, FingerprintClusters, IpSignal, IpSignals,
    Label, Nonce, NonceStore, NonceUse, Observed, Reported, Retention, Session, SessionId,
    SessionStore, Severity, TagKey, Visit, VisitorIp,
};

use super::script_call::ScriptCall;
use super::visit_call::VisitCall;
use super::{SessionNames, feed_call, index_call, read_session, signals_call, visit_call};
use crate::{BadReply, Driver, Job, Reply, Runner, Script};

/// Keeps sessions, nonces, IP signals, anomalies and clusters on a server, through any client.
///
/// # Cancel safety
/// A dropped call may still take effect, once: what was sent is not called back.
#[derive(Debug)]
pub struct SessionRunner<D: Driver> {
    pub(super) runner: Runner<D>,
    tags: TagKey,
    is_cluster: OnceLock<bool>,
}

impl<D: Driver> SessionRunner<D> {
    /// Makes a store of sessions on a runner; all nodes that share the store share `tags`.
    #[must_use]
    pub const fn new(runner: Runner<D>, tags: TagKey) -> Self {
        Self {
            runner,
            tags,
            is_cluster: OnceLock::new(),
        }
    }

    /// Returns the names of keys.
    #[must_use]
    pub fn names(&self) -> SessionNames<'_> {
        SessionNames::new(self.runner.layout())
    }

    /// Returns whether what one call touches has to lie in one slot.
    pub(super) async fn is_cluster(&self) -> Result<bool, StoreError> {
        if let Some(known) = self.is_cluster.get() {
            return Ok(*known);
        }
        let is_cluster = self.runner.is_cluster().await?;
        Ok(*self.is_cluster.get_or_init(|| is_cluster))
    }

    /// Returns whether the keys of a visit go in two calls, those of its session and those of its address, because they may be on
    /// different servers: in a cluster, and behind a proxy that spreads keys.
    async fn keeps_keys_apart(&self) -> Result<bool, StoreError> {
        Ok(self.runner.keeps_calls_apart() || self.is_cluster().await?)
    }

    /// Runs a script before the deadline of a call that began then, and reads its reply.
    async fn run<T>(
        &self,
        call: ScriptCall,
        began: Instant,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, StoreError> {
        let call = call.at(self.runner.manual_now());
        let left = self.runner.deadline().saturating_sub(began.elapsed());
        let read = |reply: D::Reply| {
            let reply = D::bytes(&reply).unwrap_or_default();
            read(reply).ok_or(BadReply::Malformed { len: reply.len() })
        };
        self.runner.ask_for(&call.job(), left, read).await
    }

    async fn confirm(&self, call: ScriptCall) -> Result<(), StoreError> {
        self.run(call, Instant::now(), |reply| (reply == b"1").then_some(()))
            .await
    }
}

#[async_trait]
impl<D: Driver> SessionStore for SessionRunner<D> {
    async fn observe(&self, visit: &Visit, retention: Retention) -> Result<Observed, StoreError> {
        let began = Instant::now();
        let is_apart = self.keeps_keys_apart().await?;
        let call = VisitCall {
            names: self.names(),
            keys: &self.tags,
            tags: self.tags.visit(visit),
            visit,
            retention,
        };
        let place = call.tags.locator;
        let fresh = self.tags.session_id(&place, fastrand::u64(..));
        let observe = call.observe(&fresh, !is_apart);
        let read = |reply: &[u8]| visit_call::read(reply, &place);
        let mut seen = self.run(observe, began, read).await?;
        if is_apart {
            // The session has counted the visit, whatever becomes of the signals: they may live on another server.
            let signals = call.signals(seen.is_new);
            let counted = self.run(signals, began, |reply| (reply == b"1").then_some(()));
            seen.in_signals = counted.await.is_ok();
        }
        Ok(seen)
    }

    async fn touch(
        &self,
        id: &SessionId,
        retention: Retention,
    ) -> Result<Option<Session>, StoreError> {
        let place = TagKey::locator(id);
        let touch = visit_call::touch(self.names(), id, retention);
        let read = |reply: &[u8]| match reply {
            [] => Some(None),
            reply => Some(Some(visit_call::read(reply, &place)?.session)),
        };
        self.run(touch, Instant::now(), read).await
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let [name, _] = self.names().session(&TagKey::locator(id));
        let job = Job::command("HGETALL", &name).read_only();
        let deadline = self.runner.deadline();
        let read = |reply| read_session(id, &D::reply(reply));
        let session = self.runner.ask_for(&job, deadline, read).await?;
        Ok(match self.runner.manual_now() {
            Some(now) => session.filter(|session| session.is_live(now)),
            // With the server's clock, what has expired is gone.
            None => session,
        })
    }

    async fn end(&self, id: &SessionId) -> Result<bool, StoreError> {
        let end = visit_call::end(self.names(), id);
        let read = |reply: &[u8]| match reply {
            [] => Some(false),
            reply => (reply == b"1").then_some(true),
        };
        self.run(end, Instant::now(), read).await
    }

    async fn by_fingerprint(
        &self,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<SessionId>, StoreError> {
        const MEMBER: usize = 20;
        let tag = self.tags.fingerprint(fingerprint);
        let place = TagKey::group(&tag);
        let [_, index] = self.names().session(&place);
        let read = |reply: &[u8]| {
            let (members, rest) = reply.as_chunks::<MEMBER>();
            let ours = members.iter().filter_map(|member| {
                let (id, more) = member.split_first_chunk()?;
                (more == visit_call::more_of(&tag)).then(|| SessionId::from_bytes(*id))
            });
            rest.is_empty().then(|| ours.collect())
        };
        self.run(index_call::list(index), Instant::now(), read)
            .await
    }
}

#[async_trait]
impl<D: Driver> NonceStore for SessionRunner<D> {
    async fn consume(
        &self,
        scope: &Key,
        nonce: &Nonce,
        window: Retention,
    ) -> Result<NonceUse, StoreError> {
        let name = self.names().nonce(&self.tags, scope, nonce);
        let window_ms = window.get().as_micros().div_ceil(1000).to_string();
        let job = Job::command("SET", &name).arg(b"1").arg(b"NX").arg(b"PX");
        let read = |reply| match D::reply(reply) {
            Reply::Okay => Ok(NonceUse::First),
            Reply::Nil => Ok(NonceUse::Replay),
            _ => Err(BadReply::Malformed { len: 0 }),
        };
        let job = job.arg(window_ms.as_bytes());
        let deadline = self.runner.deadline();
        self.runner.ask_for(&job, deadline, read).await
    }
}

#[async_trait]
impl<D: Driver> IpSignals for SessionRunner<D> {
    async fn signal(&self, ip: VisitorIp) -> Result<Option<IpSignal>, StoreError> {
        let names = self.names().address(&self.tags, ip);
        let call = ScriptCall::new(Script::Signals, names, []).read_only();
        let read = |reply: &[u8]| match reply {
            [] => Some(None),
            reply => signals_call::read(reply).map(Some),
        };
        self.run(call, Instant::now(), read).await
    }
}

#[async_trait]
impl<D: Driver> AnomalyFeed for SessionRunner<D> {
    async fn push(&self, anomaly: &Anomaly) -> Result<(), StoreError> {
        self.confirm(feed_call::push_anomaly(self.names(), anomaly))
            .await
    }

    async fn recent(
        &self,
        severity: Severity,
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<Reported>, StoreError> {
        let recent = feed_call::recent(self.names(), severity, since, limit);
        let read = |reply: &[u8]| feed_call::read(reply, severity);
        self.run(recent, Instant::now(), read).await
    }
}

#[async_trait]
impl<D: Driver> FingerprintClusters for SessionRunner<D> {
    async fn join(
        &self,
        cluster: &Label,
        fingerprint: &Fingerprint,
        retention: Retention,
    ) -> Result<(), StoreError> {
        let name = self.names().cluster(cluster);
        let member = fingerprint.as_bytes();
        self.confirm(index_call::join(name, member, retention, CLUSTER_MAX))
            .await
    }

    async fn members(&self, cluster: &Label) -> Result<Vec<Fingerprint>, StoreError> {
        let list = index_call::list(self.names().cluster(cluster));
        let read = |reply: &[u8]| {
            let (members, rest) = reply.as_chunks::<32>();
            let members = members.iter().copied().map(Fingerprint::from_bytes);
            rest.is_empty().then(|| members.collect())
        };
        self.run(list, Instant::now(), read).await
    }
}

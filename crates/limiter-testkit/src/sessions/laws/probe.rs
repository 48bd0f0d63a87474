//! [`Probe`]: short words for what laws do to a store of sessions.

use std::sync::Arc;
use std::time::Duration;

use limiter_sessions::{
    BotProbability, Fingerprint, IpSignal, Observed, Retention, Session, SessionId, SessionPorts,
    Visit, VisitorIp,
};

use super::super::SessionStoreUnderTest;
use crate::ManualClock;

/// One store and its clock; every call has to succeed.
pub(super) struct Probe {
    pub(super) store: Arc<dyn SessionPorts>,
    pub(super) clock: ManualClock,
}

pub(super) const MICROSECOND: Duration = Duration::from_micros(1);
/// Longer than any store keeps what is outlived, for a clock that steps back.
pub(super) const GRACE: Duration = Duration::from_secs(60);
pub(super) const KEEP: Retention = Retention::HOUR;

impl Probe {
    pub(super) fn of(sut: &impl SessionStoreUnderTest) -> Self {
        Self {
            store: sut.store(),
            clock: sut.clock(),
        }
    }

    pub(super) async fn observe(&self, visit: &Visit) -> Observed {
        let seen = self.store.observe(visit, KEEP).await;
        seen.expect("observe answers")
    }

    pub(super) async fn touch(&self, id: &SessionId) -> Option<Session> {
        self.store.touch(id, KEEP).await.expect("touch answers")
    }

    pub(super) async fn get(&self, id: &SessionId) -> Option<Session> {
        self.store.get(id).await.expect("get answers")
    }

    pub(super) async fn end(&self, id: &SessionId) -> bool {
        self.store.end(id).await.expect("end is confirmed")
    }

    pub(super) async fn ids_of(&self, visit: &Visit) -> Vec<SessionId> {
        let ids = self.store.by_fingerprint(&visit.fingerprint).await;
        ids.expect("by_fingerprint answers")
    }

    pub(super) async fn signal(&self, visit: &Visit) -> Option<IpSignal> {
        self.store.signal(visit.ip).await.expect("signal answers")
    }

    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

pub(super) fn fingerprint(nth: u32) -> Fingerprint {
    let mut bytes = [0xf5; 32];
    bytes[..4].copy_from_slice(&nth.to_be_bytes());
    Fingerprint::from_bytes(bytes)
}

/// Returns the nth address, of IPv4 and IPv6 in turn.
pub(super) fn ip(nth: u32) -> VisitorIp {
    let ip: std::net::IpAddr = if nth.is_multiple_of(2) {
        (0x0a00_0000 + nth).to_be_bytes().into()
    } else {
        (0x2001_0db8_0000_0000_0000_0000_0000_0000_u128 + u128::from(nth))
            .to_be_bytes()
            .into()
    };
    VisitorIp::new(ip).expect("laws use good addresses")
}

pub(super) fn visit(fingerprint_nth: u32, ip_nth: u32) -> Visit {
    Visit::new(fingerprint(fingerprint_nth), ip(ip_nth))
}

pub(super) fn likely(ppm: u32) -> BotProbability {
    BotProbability::from_ppm(ppm).expect("laws use good probabilities")
}

pub(super) fn keep(time: Duration) -> Retention {
    Retention::new(time).expect("laws use good retentions")
}

//! [`replay`]: one history, on a store of sessions and on the model side by side.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use limiter_core::{Clock, Key, StoreError, Timestamp, days};
use limiter_sessions::{
    Anomaly, BotProbability, Fingerprint, IpSignal, Label, Nonce, Retention, Session, SessionId,
    SessionPorts, Visit, VisitorIp,
};

use super::super::{SessionModel, SessionStoreUnderTest};
use super::{Call, History, Step};
use crate::ManualClock;
use crate::state_machine::Mismatch;

/// The furthest that a clock steps back behind the latest time it showed.
const STEP_BACK_MAX: Duration = Duration::from_secs(1);

/// Lets `history` happen to a fresh store, and compares every answer with the model's.
///
/// # Errors
/// [`Mismatch`] at the first answer that differs.
pub async fn replay(sut: &impl SessionStoreUnderTest, history: &History) -> Result<(), Mismatch> {
    let mut run = Run {
        sut,
        store: sut.store(),
        clock: sut.clock(),
        latest: sut.clock().now(),
        last_end: sut.clock().now(),
        model: SessionModel::default(),
        ids: Vec::new(),
        store_ids: BTreeMap::new(),
    };
    for (nth, step) in history.0.iter().enumerate() {
        run.step(step)
            .await
            .map_err(|text| Mismatch { step: nth, text })?;
    }
    Ok(())
}

struct Run<'a, S> {
    sut: &'a S,
    store: Arc<dyn SessionPorts>,
    clock: ManualClock,
    latest: Timestamp,
    last_end: Timestamp,
    model: SessionModel,
    /// The model's ids, in the order in which the sessions began.
    ids: Vec<SessionId>,
    /// The store's id for each of the model's.
    store_ids: BTreeMap<SessionId, SessionId>,
}

impl<S: SessionStoreUnderTest> Run<'_, S> {
    async fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Call(call) => self.call(call).await?,
            Step::Wait(wait) => self.wait(*wait),
            Step::WaitForEnd(off_by) => {
                let wait = self.last_end.since(self.clock.now());
                let off = Duration::from_micros(off_by.unsigned_abs().into());
                self.wait(if *off_by < 0 {
                    wait.saturating_sub(off)
                } else {
                    wait + off
                });
            }
            Step::StepBack(by) => {
                let earliest = self.latest.saturating_sub(STEP_BACK_MAX);
                let back = self.clock.now().saturating_sub(*by);
                self.clock.set(back.max(earliest));
            }
            Step::ForgetIdle => self.sut.forget_idle().await,
        }
        Ok(())
    }

    fn wait(&mut self, wait: Duration) {
        self.clock.advance(wait);
        self.latest = self.latest.max(self.clock.now());
    }

    async fn call(&mut self, call: &Call) -> Result<(), String> {
        let now = self.clock.now();
        match *call {
            Call::Observe {
                fingerprint,
                ip,
                bot_ppm,
                country,
                keep,
            } => {
                let mut visit = Visit::new(nth_fingerprint(fingerprint), nth_ip(ip)?);
                visit.bot_probability = bot_ppm.and_then(|ppm| BotProbability::from_ppm(ppm).ok());
                visit.country =
                    country.and_then(|nth| format!("C{}", char::from(b'A' + nth)).parse().ok());
                self.observe(&visit, nth_keep(keep), now).await
            }
            Call::Touch { session, keep } => {
                let Some(id) = self.nth_id(session) else {
                    return Ok(());
                };
                let said = self.store.touch(&self.store_id(&id), nth_keep(keep)).await;
                let expected = self.model.touch(&id, nth_keep(keep), now);
                self.last_end = expected
                    .as_ref()
                    .map_or(self.last_end, |session| session.expires_at);
                same(said, expected.map(|session| self.as_stored(session)))
            }
            Call::Get { session } => {
                let Some(id) = self.nth_id(session) else {
                    return Ok(());
                };
                let said = self.store.get(&self.store_id(&id)).await;
                let expected = self.model.get(&id, now);
                same(said, expected.map(|session| self.as_stored(session)))
            }
            Call::End { session } => {
                let Some(id) = self.nth_id(session) else {
                    return Ok(());
                };
                let said = self.store.end(&self.store_id(&id)).await;
                same(said, self.model.end(&id, now))
            }
            Call::ByFingerprint { fingerprint } => {
                let fingerprint = nth_fingerprint(fingerprint);
                let said = self.store.by_fingerprint(&fingerprint).await;
                let expected = self.model.by_fingerprint(&fingerprint, now).into_iter();
                let mut expected: Vec<_> = expected
                    .map(|(end, id)| (end, self.store_id(&id)))
                    .collect();
                expected.sort_unstable_by(|one, other| other.cmp(one));
                same(said, expected.into_iter().map(|(_, id)| id).collect())
            }
            Call::Signal { ip } => {
                let ip = nth_ip(ip)?;
                same(self.store.signal(ip).await, self.model.signal(ip, now))
            }
            _ => self.other_call(call, now).await,
        }
    }

    async fn other_call(&mut self, call: &Call, now: Timestamp) -> Result<(), String> {
        match *call {
            Call::Consume { scope, nonce } => {
                let scope = Key::from([scope; 16]);
                let nonce = Nonce::new(&format!("n{nonce}")).map_err(|error| error.to_string())?;
                // No history lasts so long: a nonce may be remembered beyond its window.
                let window = Retention::new(days(366)).map_err(|error| error.to_string())?;
                let said = self.store.consume(&scope, &nonce, window).await;
                same(said, self.model.consume(&scope, &nonce, window, now))
            }
            Call::Push { severity, kind } => {
                let anomaly = Anomaly::new(severity, nth_label(kind)?);
                self.model.push(&anomaly, now);
                same(self.store.push(&anomaly).await, ())
            }
            Call::Recent {
                severity,
                since_us_ago,
                limit,
            } => {
                let since = now.saturating_sub(Duration::from_micros(since_us_ago));
                let said = self.store.recent(severity, since, limit).await;
                same(said, self.model.recent(severity, since, limit, now))
            }
            Call::Join {
                cluster,
                fingerprint,
                keep,
            } => {
                let (cluster, member) = (nth_label(cluster)?, nth_fingerprint(fingerprint));
                let said = self.store.join(&cluster, &member, nth_keep(keep)).await;
                self.model.join(&cluster, &member, nth_keep(keep), now);
                self.last_end = now.saturating_add(nth_keep(keep).get());
                same(said, ())
            }
            Call::Members { cluster } => {
                let cluster = nth_label(cluster)?;
                same(
                    self.store.members(&cluster).await,
                    self.model.members(&cluster, now),
                )
            }
            _ => Ok(()),
        }
    }

    async fn observe(
        &mut self,
        visit: &Visit,
        keep: Retention,
        now: Timestamp,
    ) -> Result<(), String> {
        let said = self.store.observe(visit, keep).await;
        let said = said.map_err(|error| format!("observe failed: {error:?}"))?;
        let (session, is_new) = self.model.observe(visit, keep, now);
        if is_new {
            let is_reused = self.store_ids.values().any(|id| *id == said.session.id);
            if is_reused {
                return Err(format!("{:?} was used before", said.session.id));
            }
            self.ids.push(session.id);
            self.store_ids.insert(session.id, said.session.id);
        }
        let quiet = session.last_seen.saturating_add(IpSignal::RETENTION.get());
        self.last_end = if is_new { session.expires_at } else { quiet };
        let expected = (self.as_stored(session), is_new);
        same(Ok((said.session, said.is_new)), expected)
    }

    fn nth_id(&self, nth: usize) -> Option<SessionId> {
        let nth = nth.checked_rem(self.ids.len())?;
        self.ids.get(nth).copied()
    }

    fn store_id(&self, id: &SessionId) -> SessionId {
        self.store_ids.get(id).copied().unwrap_or(*id)
    }

    fn as_stored(&self, mut session: Session) -> Session {
        session.id = self.store_id(&session.id);
        session
    }
}

fn nth_fingerprint(nth: u32) -> Fingerprint {
    Fingerprint::from_bytes([u8::try_from(nth).unwrap_or(0); 32])
}

fn nth_ip(nth: u32) -> Result<VisitorIp, String> {
    let ip = Ipv4Addr::from(0x0a00_0001 + nth);
    VisitorIp::new(ip.into()).map_err(|error| error.to_string())
}

fn nth_keep(nth: u8) -> Retention {
    let shortest = Retention::new(Duration::from_secs(2)).unwrap_or(Retention::FIVE_MINUTES);
    [shortest, Retention::HOUR, Retention::DAY]
        .get(usize::from(nth))
        .copied()
        .unwrap_or(Retention::HOUR)
}

fn nth_label(nth: u8) -> Result<Label, String> {
    Label::new(&format!("label{nth}")).map_err(|error| error.to_string())
}

fn same<T: Debug + PartialEq>(said: Result<T, StoreError>, expected: T) -> Result<(), String> {
    match said {
        Ok(said) if said == expected => Ok(()),
        other => Err(format!(
            "\n  the store says {other:?}\n  the model says {expected:?}"
        )),
    }
}

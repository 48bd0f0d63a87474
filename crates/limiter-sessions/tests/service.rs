//! What the service makes of the answers of its ports.
#![cfg(test)]

use std::sync::Arc;

use limiter_core::mock::{MockAbuseRepository, MockRateLimiter};
use limiter_core::{
    AbuseFailurePolicy, AbuseLimiter, AbusePolicy, AbuseVerdict, Block, Charge,
    DefaultAbuseLimiter, Key, PlanName, Source, StoreError, Tier, Timestamp, minutes,
};
use limiter_sessions::mock::{MockAnomalyFeed, MockIpSignals, MockNonceStore, MockSessionStore};
use limiter_sessions::{
    Anomaly, BlockReporter, IpLimit, Label, Nonce, NonceUse, NonceVerdict, Observed, Retention,
    Session, SessionId, SessionService, Severity, TagKey, Visit,
};
use limiter_testkit::CapturedLog;

fn visit() -> Visit {
    Visit::new(
        "ab".repeat(32).parse().unwrap(),
        "203.0.113.9".parse().unwrap(),
    )
}

fn down() -> StoreError {
    StoreError::unavailable(Charge::Possible, "connection reset")
}

/// Ports of which none may be called.
#[derive(Default)]
struct Ports {
    sessions: MockSessionStore,
    nonces: MockNonceStore,
    signals: MockIpSignals,
    feed: MockAnomalyFeed,
}

impl Ports {
    fn service(self) -> SessionService {
        SessionService::new(
            Arc::new(self.sessions),
            Arc::new(self.nonces),
            Arc::new(self.signals),
            Arc::new(self.feed),
        )
    }
}

/// Who takes an unverified nonce for a replay would else turn everybody away and never learn why.
#[tokio::test]
async fn a_store_that_fails_is_logged_once_for_each_cause() {
    let log = CapturedLog::start();
    let mut ports = Ports::default();
    let wrong =
        || StoreError::misconfigured("give the password that the server knows", "WRONGPASS");
    ports
        .nonces
        .expect_consume()
        .returning(move |_, _, _| Err(wrong()));
    ports
        .sessions
        .expect_observe()
        .returning(|_, _| Err(down()));
    let service = ports.service();
    let (scope, nonce) = (
        Key::new("checkout").unwrap(),
        Nonce::new("7f3a-01").unwrap(),
    );
    for _ in 0..10 {
        assert!(!service.verify_nonce(&scope, &nonce).await.is_accepted());
        assert!(service.clone().observe(&visit()).await.is_err());
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("WRONGPASS") && lines[0].contains("not accepted"),
        "{lines:?}"
    );
    assert!(lines[1].contains("connection reset"), "{lines:?}");
    for secret in ["203.0.113.9", "7f3a-01", "checkout", &"ab".repeat(32)] {
        assert!(!lines.join(" ").contains(secret), "{secret} in {lines:?}");
    }
}

#[tokio::test]
async fn observing_asks_once_with_the_retention_that_was_set() {
    let mut ports = Ports::default();
    ports
        .sessions
        .expect_observe()
        .once()
        .returning(|visit, retention| {
            assert_eq!(retention, Retention::HOUR);
            let id = SessionId::from_bytes([1; 16]);
            let session = Session::begin(id, visit, Timestamp::EPOCH, retention);
            Ok(Observed::new(session, true, true))
        });
    let service = ports.service().with_retention(Retention::HOUR);
    let seen = service.observe(&visit()).await.unwrap();
    assert!(seen.is_new && seen.session.is_of(&visit()));
}

#[tokio::test]
async fn sessions_are_kept_for_a_day_and_nonces_for_five_minutes_by_default() {
    let mut ports = Ports::default();
    ports
        .sessions
        .expect_observe()
        .once()
        .returning(|_, retention| {
            assert_eq!(retention, Retention::DAY);
            Err(down())
        });
    ports
        .nonces
        .expect_consume()
        .once()
        .returning(|_, _, window| {
            assert_eq!(window, Retention::FIVE_MINUTES);
            Ok(NonceUse::First)
        });
    let service = ports.service();
    assert!(
        service
            .observe(&visit())
            .await
            .unwrap_err()
            .may_have_charged()
    );
    let (scope, nonce) = (Key::new("form").unwrap(), Nonce::new("n-1").unwrap());
    assert!(service.verify_nonce(&scope, &nonce).await.is_accepted());
}

#[tokio::test]
async fn only_a_first_use_is_accepted() {
    let mut ports = Ports::default();
    let mut answers = vec![Err(down()), Ok(NonceUse::Replay), Ok(NonceUse::First)];
    ports
        .nonces
        .expect_consume()
        .times(3)
        .returning(move |_, _, _| answers.pop().unwrap());
    let service = ports.service().with_nonce_window(Retention::HOUR);
    let (scope, nonce) = (Key::new("form").unwrap(), Nonce::new("n-1").unwrap());
    let mut verdicts = Vec::new();
    for _ in 0..3 {
        verdicts.push(service.verify_nonce(&scope, &nonce).await);
    }
    assert!(matches!(
        verdicts[..],
        [
            NonceVerdict::Accepted,
            NonceVerdict::Replayed,
            NonceVerdict::Unverified(_)
        ]
    ));
    let accepted = verdicts.iter().filter(|verdict| verdict.is_accepted());
    assert_eq!(accepted.count(), 1);
}

#[tokio::test]
async fn a_failing_feed_is_told_of() {
    let mut ports = Ports::default();
    ports.feed.expect_push().once().returning(|_| Err(down()));
    ports.signals.expect_signal().once().returning(|_| Ok(None));
    let service = ports.service();
    let anomaly = Anomaly::new(Severity::Low, Label::new("odd").unwrap());
    assert!(service.report(&anomaly).await.is_err());
    assert_eq!(service.signal(visit().ip).await.unwrap(), None);
}

#[tokio::test]
async fn limits_of_addresses_do_not_show_them() {
    let mut limiter = MockRateLimiter::new();
    limiter.expect_check().once().returning(|key, plans, _| {
        assert_eq!(key.as_bytes().len(), 16);
        assert!(!key.as_bytes().starts_with(b"203"));
        let (name, near) = (plans[0].clone(), Vec::new());
        Err(limiter_core::UnknownPlan { name, near }.into())
    });
    let tags = TagKey::new([7; 16]).unwrap();
    let limit = IpLimit::new(Arc::new(limiter), PlanName::new("per_ip").unwrap(), tags);
    assert!(limit.check(visit().ip).await.is_err());
}

/// Makes an abuse limiter whose every attempt starts a block, or meets one.
fn blocking(started: bool) -> Arc<dyn AbuseLimiter> {
    let mut repository = MockAbuseRepository::new();
    repository.expect_record().returning(move |_, _| {
        Ok(AbuseVerdict {
            source: Source::Store,
            block: Some(Block {
                scope: PlanName::new("long").unwrap(),
                since: Timestamp::EPOCH,
                retry_after: minutes(10),
            }),
            started,
            counts: [5].into_iter().collect(),
        })
    });
    Arc::new(DefaultAbuseLimiter::with_failure_policy(
        Arc::new(repository),
        AbuseFailurePolicy::FailClosed,
    ))
}

fn login() -> AbusePolicy {
    let tier = Tier::new("long", 5, minutes(10));
    AbusePolicy::builder("login").tier(tier).build().unwrap()
}

#[tokio::test]
async fn a_block_that_starts_is_reported_without_its_key() {
    let mut feed = MockAnomalyFeed::new();
    feed.expect_push().once().returning(|anomaly| {
        let expected = (Severity::Critical, BlockReporter::KIND, "login/long", None);
        let said = (
            anomaly.severity(),
            anomaly.kind().as_str(),
            anomaly.note(),
            anomaly.session(),
        );
        assert_eq!(said, expected);
        Ok(())
    });
    let reporter =
        BlockReporter::new(blocking(true), Arc::new(feed)).with_severity(Severity::Critical);
    let decision = reporter.record(&Key::new("ann").unwrap(), &login()).await;
    assert!(!decision.is_allowed());
    assert_eq!(reporter.missed(), 0);
}

#[tokio::test]
async fn a_block_that_goes_on_is_not_reported_again() {
    let reporter = BlockReporter::new(blocking(false), Arc::new(MockAnomalyFeed::new()));
    let decision = reporter.record(&Key::new("ann").unwrap(), &login()).await;
    assert!(!decision.is_allowed());
}

#[tokio::test]
async fn a_feed_that_fails_changes_no_decision_and_is_counted() {
    let mut feed = MockAnomalyFeed::new();
    feed.expect_push().once().returning(|_| Err(down()));
    let reporter = BlockReporter::new(blocking(true), Arc::new(feed));
    let decision = reporter.record(&Key::new("ann").unwrap(), &login()).await;
    assert!(!decision.is_allowed());
    assert_eq!(reporter.missed(), 1);
}

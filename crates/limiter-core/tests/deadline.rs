//! Calls end in time, whatever the store does.

#![allow(clippy::unwrap_used, reason = "a value that a test makes is good")]

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use limiter_core::{
    AbusePolicy, AbuseRepository, AbuseVerdict, Block, Cost, DeadlinePassed, DeadlineRepository,
    Key, Plan, RateLimiterRepository, Refund, Source, StoreError, Tier, Timestamp, Verdict,
    minutes,
};
use limiter_testkit::{ManualClock, ManualRandom, ManualTimer, ModelStore, StoreUnderTest};

/// A store whose client waits for ever.
struct Hangs;

#[async_trait]
impl RateLimiterRepository for Hangs {
    async fn try_acquire(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        pending().await
    }

    async fn peek(&self, _: &Key, _: &[Plan], _: Cost) -> Result<Verdict, StoreError> {
        pending().await
    }

    async fn refund(&self, _: &Key, _: &[Plan], _: &Refund) -> Result<Verdict, StoreError> {
        pending().await
    }

    async fn reset(&self, _: &Key, _: &[Plan]) -> Result<(), StoreError> {
        pending().await
    }
}

#[async_trait]
impl AbuseRepository for Hangs {
    async fn record(&self, _: &Key, _: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        pending().await
    }

    async fn status(&self, _: &Key, _: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        pending().await
    }

    async fn forgive(&self, _: &Key, _: &AbusePolicy) -> Result<(), StoreError> {
        pending().await
    }

    async fn unblock(&self, _: &Key, _: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        pending().await
    }
}

const DEADLINE: Duration = Duration::from_millis(20);
const MOMENT: Duration = Duration::from_micros(1);

/// Runs `call` on a store that hangs: it must still wait a microsecond before its deadline, and fail at it.
async fn given_up<F, T>(
    call: impl FnOnce(Arc<DeadlineRepository<Hangs>>) -> F,
) -> (bool, DeadlinePassed)
where
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
    T: Send + 'static,
{
    let timer = ManualTimer::new();
    let store = DeadlineRepository::new(Arc::new(Hangs), Arc::new(timer.clone()));
    let call = tokio::spawn(call(Arc::new(store.with_deadline(DEADLINE))));
    timer.until_somebody_sleeps().await;
    timer.advance(DEADLINE - MOMENT);
    tokio::task::yield_now().await;
    assert!(!call.is_finished());
    timer.advance(MOMENT);
    let Err(error) = call.await.unwrap() else {
        unreachable!("a store that hangs gave an answer");
    };
    assert!(error.is_outage());
    let cause = std::error::Error::source(&error).unwrap();
    (
        error.may_have_charged(),
        *cause.downcast_ref::<DeadlinePassed>().unwrap(),
    )
}

fn key() -> Key {
    Key::new("user").unwrap()
}

fn gold() -> [Plan; 1] {
    [Plan::new("gold", "2/h").unwrap()]
}

fn login() -> AbusePolicy {
    let policy = AbusePolicy::builder("login").tier(Tier::new("temp", 5, minutes(15)));
    policy.build().unwrap()
}

#[tokio::test]
async fn a_call_that_hangs_fails_at_its_deadline_and_says_whether_it_may_have_charged() {
    let passed = DeadlinePassed { deadline: DEADLINE };
    let acquired =
        given_up(|store| async move { store.try_acquire(&key(), &gold(), Cost::ONE).await });
    assert_eq!(acquired.await, (true, passed));
    let peeked = given_up(|store| async move { store.peek(&key(), &gold(), Cost::ONE).await });
    assert_eq!(peeked.await, (false, passed));
    let refunded = given_up(|store| async move {
        let charged = Refund {
            source: Source::Store,
            charged_at: [Some(Timestamp::EPOCH)].into_iter().collect(),
            charged: Cost::ONE,
            given_back: 0,
            units: Cost::ONE,
        };
        store.refund(&key(), &gold(), &charged).await
    });
    assert_eq!(refunded.await, (true, passed));
    let reset = given_up(|store| async move { store.reset(&key(), &gold()).await });
    assert_eq!(reset.await, (true, passed));
}

#[tokio::test]
async fn attempts_have_the_same_deadline() {
    let passed = DeadlinePassed { deadline: DEADLINE };
    let recorded = given_up(|store| async move { store.record(&key(), &login()).await });
    assert_eq!(recorded.await, (true, passed));
    let looked = given_up(|store| async move { store.status(&key(), &login()).await });
    assert_eq!(looked.await, (false, passed));
    let forgiven = given_up(|store| async move { store.forgive(&key(), &login()).await });
    assert_eq!(forgiven.await, (true, passed));
    let unblocked = given_up(|store| async move { store.unblock(&key(), &login()).await });
    assert_eq!(unblocked.await, (true, passed));
}

/// No time passes at all: what is answered at once needs none.
#[tokio::test]
async fn a_store_that_answers_is_passed_on_with_a_deadline_of_zero_as_well() {
    let model = ModelStore::new();
    let timer = Arc::new(ManualTimer::new());
    let store = DeadlineRepository::new(Arc::new(model), timer).with_deadline(Duration::ZERO);
    let mut admitted = Vec::new();
    for _ in 0..3 {
        let verdict = store.try_acquire(&key(), &gold(), Cost::ONE).await.unwrap();
        admitted.push(verdict.admitted);
    }
    assert_eq!(admitted, [true, true, false]);
}

/// A store with a deadline is a store: it obeys every law.
mod with_a_deadline {
    use super::*;

    struct Subject(ModelStore);

    impl StoreUnderTest for Subject {
        fn store(&self) -> Arc<dyn RateLimiterRepository> {
            let timer = Arc::new(ManualTimer::new());
            Arc::new(DeadlineRepository::new(self.0.store(), timer))
        }

        fn clock(&self) -> ManualClock {
            self.0.clock()
        }

        fn random(&self) -> ManualRandom {
            self.0.random()
        }

        async fn tracked_keys(&self) -> usize {
            self.0.tracked_keys().await
        }

        async fn forget_idle(&self) {
            self.0.forget_idle().await;
        }
    }

    limiter_testkit::store_laws!(Subject(ModelStore::new()));
}

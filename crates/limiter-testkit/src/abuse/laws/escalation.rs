//! Longer blocks for who comes back.

use std::time::Duration;

use limiter_core::{Escalation, minutes, seconds};

use super::super::AbuseStoreUnderTest;
use super::probe::{MICROSECOND, Probe, built, one_tier, scope_and_wait, two_tiers};

/// Records attempts until one is blocked; returns how long.
async fn provoke(probe: &Probe) -> Duration {
    for _ in 0..100 {
        if let Some((_, wait)) = scope_and_wait(&probe.record().await) {
            return wait;
        }
    }
    panic!("a hundred attempts met no block");
}

fn escalating(sut: &impl AbuseStoreUnderTest) -> Probe {
    let policy = one_tier(2, seconds(1), seconds(10));
    let policy = policy.escalating(Escalation::doubling(seconds(100), seconds(70)));
    Probe::of(sut, built(policy))
}

/// The block doubles at each relapse, up to the cap.
pub async fn relapses_double_the_block_up_to_the_cap(sut: &impl AbuseStoreUnderTest) {
    let probe = escalating(sut);
    for expected in [10, 20, 40, 70, 70] {
        let wait = provoke(&probe).await;
        assert_eq!(wait, seconds(expected));
        probe.advance(wait + seconds(50));
    }
}

/// One memory span after a block it is forgotten, to the microsecond; each span forgets one more.
pub async fn each_memory_span_forgets_one_relapse(sut: &impl AbuseStoreUnderTest) {
    let probe = escalating(sut);
    let wait = provoke(&probe).await;
    probe.advance(wait + seconds(100) - MICROSECOND);
    let wait = provoke(&probe).await;
    assert_eq!(wait, seconds(20));
    probe.advance(wait + seconds(100));
    let wait = provoke(&probe).await;
    assert_eq!(wait, seconds(20));
    probe.advance(wait + seconds(200));
    assert_eq!(provoke(&probe).await, seconds(10));
}

/// A tier that replaces another's block in the same stretch is no relapse.
pub async fn replaced_block_is_no_relapse(sut: &impl AbuseStoreUnderTest) {
    let policy = two_tiers().escalating(Escalation::doubling(minutes(1), minutes(600)));
    let probe = Probe::of(sut, built(policy));
    let sixth = probe.record_times(6).await;
    assert_eq!(scope_and_wait(&sixth), Some(("long", minutes(120))));
    probe.advance(minutes(120));
    let sixth = probe.record_times(6).await;
    assert_eq!(scope_and_wait(&sixth), Some(("long", minutes(240))));
}

/// A success does not make earlier blocks forgotten; an unblocked key is as new.
pub async fn relapses_survive_a_success_but_not_an_unblock(sut: &impl AbuseStoreUnderTest) {
    let probe = escalating(sut);
    let wait = provoke(&probe).await;
    probe.advance(wait + seconds(1));
    probe.forgive().await;
    assert_eq!(provoke(&probe).await, seconds(20));
    assert!(probe.unblock().await.is_some());
    assert_eq!(provoke(&probe).await, seconds(10));
}

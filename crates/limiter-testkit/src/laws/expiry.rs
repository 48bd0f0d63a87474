//! Expiry only frees memory.

use std::time::Duration;

use super::probe::{MICROSECOND, Probe, cost, each_algorithm, key, only, plan};
use crate::StoreUnderTest;

/// Longer than any store keeps what is outlived, for a clock that steps back.
const GRACE: Duration = Duration::from_secs(60);

/// A state that has outlived its time answers like none at all, whether or not it was freed.
pub async fn outlived_state_equals_no_state(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(7) {
        let probe = Probe::of(sut);
        let (user, fresh, plans) = (key("user"), key("fresh"), [plan]);
        for forgets in [false, true] {
            let spent = probe.acquire(&user, &plans, 5).await;
            probe.advance(only(&spent).reset_after - MICROSECOND);
            assert!(only(&probe.peek(&user, &plans, 1).await).reset_after == MICROSECOND);
            probe.advance(MICROSECOND);
            if forgets {
                sut.forget_idle().await;
            }
            let (said, expected) = (
                probe.peek(&user, &plans, 7).await,
                probe.peek(&fresh, &plans, 7).await,
            );
            assert_eq!(said, expected, "{}", plans[0]);
            assert!(said.admitted && only(&said).reset_after.is_zero());
            probe.advance(GRACE);
        }
        assert_eq!(probe.drain(&user, &plans, 20).await, 7);
    }
}

/// Freeing memory takes nothing that still counts: to the last microsecond, what was spent stays spent.
pub async fn forgetting_takes_nothing_that_still_counts(sut: &impl StoreUnderTest) {
    for plan in each_algorithm(7) {
        let probe = Probe::of(sut);
        let (user, plans) = (key("user"), [plan]);
        let spent = probe.acquire(&user, &plans, 7).await;
        let lasts = only(&spent).reset_after;
        let mut gone = Duration::ZERO;
        for moment in [MICROSECOND, lasts / 3, lasts - MICROSECOND] {
            probe.advance(moment - gone);
            gone = moment;
            let before = probe.peek(&user, &plans, 7).await;
            sut.forget_idle().await;
            assert_eq!(probe.peek(&user, &plans, 7).await, before, "{}", plans[0]);
            assert!(!before.admitted && before.retry_after == lasts - gone);
        }
    }
}

/// One plan of a key that is outlived does not take the others with it, and the key stays as long as any of them.
pub async fn key_stays_as_long_as_any_of_its_plans(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("short", "10/s"), plan("long", "sliding 10/24h")];
    probe.spend(&user, &plans, 4).await;
    probe.advance(Duration::from_secs(3600));
    sut.forget_idle().await;
    assert_eq!(probe.free(&user, &plans[0]).await, 10);
    assert_eq!(probe.free(&user, &plans[1]).await, 6);
    assert_eq!(sut.tracked_keys().await, 1);
    probe.spend(&user, &plans[..1], 1).await;
    probe.advance(Duration::from_secs(3600));
    sut.forget_idle().await;
    assert_eq!(probe.free(&user, &plans[1]).await, 6);
}

/// Once all is outlived, the store holds nothing of any key.
pub async fn nothing_of_an_idle_key_stays_behind(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let plans = each_algorithm(7);
    for nth in 0..50 {
        let user = key(&format!("user-{nth}"));
        probe.spend(&user, &plans, 1 + nth % 7).await;
        probe.advance(Duration::from_millis(u64::from(nth)));
    }
    assert_eq!(sut.tracked_keys().await, 50);
    probe.advance(Duration::from_secs(60) + GRACE);
    sut.forget_idle().await;
    assert_eq!(sut.tracked_keys().await, 0);
}

/// Peeks, refusals, refunds of nothing and resets leave nothing behind, and neither does a refund of all or a denial.
pub async fn calls_that_spend_nothing_leave_nothing_behind(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let plans = each_algorithm(5);
    let chain = [plan("open", "10/min"), plan("tight", "1/min")];
    let _ = probe.peek(&key("peeked"), &plans, 1).await;
    let mut elsewhere = probe.spend(&key("elsewhere"), &plans, 1).await;
    let _ = probe
        .refund(&key("refunded"), &plans, &mut elsewhere, 1)
        .await;
    probe.reset(&key("elsewhere"), &plans).await;
    probe.reset(&key("reset"), &plans).await;
    let refused = probe.store.try_acquire(&key("refused"), &[], cost(1)).await;
    assert!(refused.is_err());
    let mut spent = probe.spend(&key("given back"), &plans, 2).await;
    let _ = probe
        .refund(&key("given back"), &plans, &mut spent, 2)
        .await;
    probe.spend(&key("forgotten"), &plans, 2).await;
    probe.reset(&key("forgotten"), &plans).await;
    sut.forget_idle().await;
    assert_eq!(sut.tracked_keys().await, 0);
    probe.spend(&key("denied"), &chain, 1).await;
    assert!(!probe.acquire(&key("denied"), &chain, 1).await.admitted);
    assert_eq!(sut.tracked_keys().await, 1);
}

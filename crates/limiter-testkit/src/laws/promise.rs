//! `retry_after` is a promise, to the microsecond, in both directions.

use std::time::Duration;

use limiter_core::{Key, Plan};

use super::probe::{MICROSECOND, Probe, key, only, plan};
use crate::StoreUnderTest;

/// Exactly `retry_after` later a token bucket admits the request, and one microsecond sooner it does not.
pub async fn retry_after_of_a_token_bucket_is_exact(sut: &impl StoreUnderTest) {
    // 3/s and 7/s give no whole number of microseconds a token; the last two are slow and odd.
    for limit in [
        "3/s",
        "7/s burst 20",
        "1000003/24h burst 9",
        "1/366d",
        "5.5/s",
    ] {
        promise_holds(sut, &plan("bucket", limit)).await;
    }
}

/// Exactly `retry_after` later a sliding window admits the request, and one microsecond sooner it does not.
pub async fn retry_after_of_a_sliding_window_is_exact(sut: &impl StoreUnderTest) {
    for limit in [
        "sliding 10/s",
        "sliding 6/7h every 1s",
        "sliding 3/1ms every 1us",
    ] {
        promise_holds(sut, &plan("sliding", limit)).await;
    }
}

/// Exactly `retry_after` later a fixed window admits the request, and one microsecond sooner it does not.
pub async fn retry_after_of_a_fixed_window_is_exact(sut: &impl StoreUnderTest) {
    for limit in ["fixed 10/s", "fixed 3/1ms", "fixed 4/366d"] {
        promise_holds(sut, &plan("fixed", limit)).await;
    }
}

/// Exactly `retry_after` later a suppressing window is certain to admit the request, and one microsecond sooner not.
pub async fn retry_after_of_a_suppressing_window_is_exact(sut: &impl StoreUnderTest) {
    for limit in [
        "suppressing 10/s hard 20",
        "suppressing 6/7h hard 6",
        "suppressing 3/10s hard 5",
    ] {
        promise_holds(sut, &plan("suppressing", limit)).await;
    }
}

/// The wait of a chain is the longest of its plans', and then all of them admit.
pub async fn retry_after_of_a_chain_is_when_all_admit(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let chain = [
        plan("quick", "10/s"),
        plan("slow", "sliding 12/min"),
        plan("middle", "fixed 11/10s"),
        plan("shadow", "fixed 10/24h").in_shadow(),
    ];
    probe.spend(&user, &chain, 10).await;
    let denied = probe.acquire(&user, &chain, 5).await;
    let waits: Vec<u128> = denied
        .plans
        .iter()
        .map(|plan| plan.retry_after.as_millis())
        .collect();
    assert!(!denied.admitted);
    assert_eq!(waits, [500, 60_000, 10_000, 86_400_000]);
    assert_eq!(denied.retry_after, Duration::from_secs(60));
    let free: Vec<u32> = denied
        .plans
        .iter()
        .map(|plan| plan.free_after_wait)
        .collect();
    assert_eq!(free, [10, 12, 11, 0]);
    passes_exactly_after(&probe, &user, &chain, 5, denied.retry_after).await;
}

/// A cost that needs several sub-buckets to leave waits for the last of those, not for the first.
pub async fn retry_after_is_when_this_very_cost_fits(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let plans = [plan("sliding", "sliding 10/10s every 1s")];
    for _ in 0..5 {
        probe.spend(&user, &plans, 2).await;
        probe.advance(Duration::from_secs(1));
    }
    for (units, wait_s) in [(1, 5), (2, 5), (3, 6), (5, 7), (8, 8), (10, 9)] {
        let wait = probe.peek(&user, &plans, units).await.retry_after;
        assert_eq!(wait, Duration::from_secs(wait_s), "for {units} units");
    }
    // At the very moment at which the first units leave, the wait for the others is exact, too.
    probe.advance(Duration::from_secs(5));
    let wait = probe.peek(&user, &plans, 7).await.retry_after;
    assert_eq!(wait, Duration::from_secs(3));
    passes_exactly_after(&probe, &user, &plans, 7, wait).await;
}

/// The wait is measured from the present, so that it holds also while the clock is behind.
pub async fn retry_after_holds_while_the_clock_is_behind(sut: &impl StoreUnderTest) {
    for plan in super::probe::each_algorithm(3) {
        let probe = Probe::of(sut);
        let (user, plans) = (key("user"), [plan]);
        probe.spend(&user, &plans, 3).await;
        probe.clock.step_back(Duration::from_millis(700));
        let wait = probe.peek(&user, &plans, 2).await.retry_after;
        passes_exactly_after(&probe, &user, &plans, 2, wait).await;
    }
}

/// Fills a plan in uneven steps, then checks the wait for every cost that it can admit.
async fn promise_holds(sut: &impl StoreUnderTest, plan: &Plan) {
    let probe = Probe::of(sut);
    let plans = std::slice::from_ref(plan);
    let most = plan.limit().max_cost().min(8);
    for units in 1..=most {
        let user = key(&format!("{plan}-{units}"));
        let step = Duration::from_micros(1 + plan.limit().window().as_secs() / 50 + 137);
        while probe.acquire(&user, plans, 1).await.admitted {
            probe.advance(step);
        }
        let denied = probe.acquire(&user, plans, units).await;
        assert!(!denied.admitted, "{plan}");
        assert_eq!(denied.retry_after, only(&denied).retry_after, "{plan}");
        assert!(
            !denied.retry_after.is_zero(),
            "{plan} denies without a wait"
        );
        assert!(only(&denied).free_after_wait >= units, "{plan}");
        passes_exactly_after(&probe, &user, plans, units, denied.retry_after).await;
    }
}

/// Only peeks until the last moment: a suppressing window would observe a call.
async fn passes_exactly_after(
    probe: &Probe,
    user: &Key,
    plans: &[Plan],
    units: u32,
    wait: Duration,
) {
    probe.advance(wait - MICROSECOND);
    let early = probe.peek(user, plans, units).await;
    assert!(
        !early.admitted,
        "{units} units pass before their time: {plans:?}"
    );
    assert_eq!(early.retry_after, MICROSECOND, "{plans:?}");
    probe.advance(MICROSECOND);
    assert!(
        probe.peek(user, plans, units).await.admitted,
        "{units} units have to wait on: {plans:?}"
    );
    assert!(
        probe.acquire(user, plans, units).await.admitted,
        "{plans:?}"
    );
}

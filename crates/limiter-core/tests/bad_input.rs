//! What each door refuses: every row of the tables of bad input in the documentation, and the edge beside it.
#![allow(clippy::unwrap_used, reason = "what a test is made of may panic")]

use std::time::Duration;

use limiter_core::{AbusePolicy, Cost};
use limiter_core::{
    BreakerSettings, DuplicatePlan, Escalation, FixedWindow, InMemoryPlanRegistry,
    InvalidAbusePolicy, InvalidLimit, InvalidPlan, InvalidRequest, Limit, Plan, PlanName,
    PlanRegistry, Rate, Share, SlidingWindow, SuppressingWindow, Tier, TokenBucket, check_request,
    days, minutes, seconds,
};

const YEAR: Duration = days(366);
const MILLISECOND: Duration = Duration::from_millis(1);
const MICROSECOND: Duration = Duration::from_micros(1);
const NANOSECOND: Duration = Duration::from_nanos(1);

/// Says that what makes `$value` is refused with an error of the form `$error`.
macro_rules! refused {
    ($($value:expr => $error:pat),+ $(,)?) => {
        $({
            let refused = $value.unwrap_err();
            assert!(matches!(refused, $error), "{} gives {refused:?}", stringify!($value));
        })+
    };
}

fn limit<L>(asked: L) -> Result<Limit, InvalidLimit>
where
    Limit: TryFrom<L, Error = InvalidLimit>,
{
    Limit::try_from(asked)
}

fn rate(text: &str) -> Result<Rate, InvalidLimit> {
    text.parse()
}

#[test]
fn rates_are_refused_as_their_table_says() {
    refused! {
        Rate::new(0, seconds(1)) => InvalidLimit::Units { what: "rate", units: 0 },
        Rate::new(1_000_000_001, seconds(1)) => InvalidLimit::Units { units: 1_000_000_001, .. },
        Rate::new(1, MILLISECOND - MICROSECOND) => InvalidLimit::Period { micros: 999, .. },
        Rate::new(1, YEAR + MICROSECOND) => InvalidLimit::Period { what: "period", .. },
        Rate::new(1, seconds(1) + NANOSECOND) => InvalidLimit::PartOfAMicrosecond { nanos: 1, .. },
        rate("1000.000001/s") => InvalidLimit::Units { units: 1_000_000_001, .. },
        rate("1.0001/d") => InvalidLimit::Period { .. },
    }
    for text in [
        "10",
        "/s",
        "-1/s",
        "+1/s",
        "+1.5/s",
        "1e3/s",
        "5000000000/s",
        ".5/s",
        "5./s",
    ] {
        refused!(rate(text) => InvalidLimit::Text { .. });
    }
    for text in ["1.0000001/s", "10/", "10/y", "1/18446744073709551616us"] {
        refused!(rate(text) => InvalidLimit::Text { .. });
    }
    for (units, period) in [(1, MILLISECOND), (1_000_000_000, YEAR)] {
        assert!(Rate::new(units, period).is_ok());
    }
    assert!(rate("999.000001/s").is_ok() && rate("1.01/d").is_ok() && rate("1.000001/s").is_ok());
}

#[test]
fn buckets_are_refused_as_their_table_says() {
    let of =
        |capacity, refill, period| limit(TokenBucket::new(refill, period).with_capacity(capacity));
    refused! {
        of(0, 1, seconds(1)) => InvalidLimit::Units { what: "capacity", units: 0 },
        of(1_000_000_001, 1, seconds(1)) => InvalidLimit::Units { what: "capacity", .. },
        of(1, 0, seconds(1)) => InvalidLimit::Units { what: "refill", units: 0 },
        of(1, 1_000_000_001, seconds(1)) => InvalidLimit::Units { what: "refill", .. },
        of(1, 1, MILLISECOND - MICROSECOND) => InvalidLimit::Period { .. },
        of(1, 1, YEAR + MICROSECOND) => InvalidLimit::Period { .. },
        of(1, 1, seconds(1) + NANOSECOND) => InvalidLimit::PartOfAMicrosecond { what: "period", .. },
        of(143, 1, days(366)) => InvalidLimit::FillsTooSlowly,
    }
    let fills_in = |capacity: u32, fill_us: u64| {
        of(
            capacity,
            1,
            Duration::from_micros(fill_us / u64::from(capacity)),
        )
    };
    assert!(fills_in(157, (1 << 52) - 1).is_ok());
    refused!(fills_in(256, 1 << 52) => InvalidLimit::FillsTooSlowly);
    assert!(of(142, 1, days(366)).is_ok() && of(1_000_000_000, 1_000_000_000, MILLISECOND).is_ok());
}

#[test]
fn windows_are_refused_as_their_tables_say() {
    let (second, odd) = (seconds(1), seconds(1) + NANOSECOND);
    let sliding = |units, window| limit(SlidingWindow::new(units, window));
    let fixed = |units, window| limit(FixedWindow::new(units, window));
    let soft = |units, window| limit(SuppressingWindow::new(units, window).with_hard_limit(units));
    for of in [
        &sliding as &dyn Fn(u32, Duration) -> Result<Limit, InvalidLimit>,
        &fixed,
        &soft,
    ] {
        refused! {
            of(0, second) => InvalidLimit::Units { units: 0, .. },
            of(1_000_000_001, second) => InvalidLimit::Units { .. },
            of(1, MILLISECOND - MICROSECOND) => InvalidLimit::Period { what: "window", .. },
            of(1, YEAR + MICROSECOND) => InvalidLimit::Period { what: "window", .. },
            of(1, odd) => InvalidLimit::PartOfAMicrosecond { what: "window", nanos: 1 },
        }
        assert!(of(1, MILLISECOND).is_ok() && of(1_000_000_000, YEAR).is_ok());
    }
    let at = |text: &str, window| SlidingWindow::at(rate(text)?, window);
    refused! {
        at("5.5/s", second) => InvalidLimit::NotWhole { units: 11, period_us: 2_000_000, window_us: 1_000_000 },
        at("1/s", odd) => InvalidLimit::PartOfAMicrosecond { .. },
        limit(SuppressingWindow::new(10, second).with_hard_limit(9)) => InvalidLimit::HardBelowSoft { soft: 10, hard: 9 },
        limit(SuppressingWindow::new(10, second).with_hard_limit(0)) => InvalidLimit::Units { what: "hard limit", .. },
        limit(SuppressingWindow::new(1_000_000_000, second)) => InvalidLimit::Units { what: "hard limit", .. },
    }
}

#[test]
fn granularities_are_refused_as_their_tables_say() {
    let second = seconds(1);
    let sliding = |units, every| limit(SlidingWindow::new(units, second).with_granularity(every));
    let soft = |units, every| limit(SuppressingWindow::new(units, second).with_granularity(every));
    for of in [
        &sliding as &dyn Fn(u32, Duration) -> Result<Limit, InvalidLimit>,
        &soft,
    ] {
        refused! {
            of(257, Duration::ZERO) => InvalidLimit::Granularity { micros: 0, window_us: 1_000_000 },
            of(257, second + MICROSECOND) => InvalidLimit::Granularity { micros: 1_000_001, .. },
            of(257, MILLISECOND + NANOSECOND) => InvalidLimit::PartOfAMicrosecond { what: "granularity", nanos: 1 },
            of(257, 3_906 * MICROSECOND) => InvalidLimit::TooFine { micros: 3_906, least_us: 3_907 },
        }
        assert!(of(257, 3_907 * MICROSECOND).is_ok() && of(1, second).is_ok());
    }
    assert!(
        sliding(256, MICROSECOND).is_ok(),
        "so many units make no more sub-buckets"
    );
    refused!(soft(256, MICROSECOND) => InvalidLimit::TooFine { .. });
}

#[test]
fn texts_are_refused_as_the_table_of_limits_says() {
    for (text, what_is_wrong) in [
        ("", "there is no amount such as 10/s"),
        ("10", "there is no amount such as 10/s"),
        ("sliding", "there is no amount such as 10/s"),
        ("10 per second", "there is no '/'"),
        ("x/s", "the amount is no number up to 1000000000"),
        ("10/y", "the period ends in none of us, ms, s, min, h, d"),
        (
            "leaky 10/s",
            "the algorithm is none of bucket, sliding, suppressing, fixed",
        ),
        (
            "10/s size 5",
            "an option is none of burst, over, every, hard",
        ),
        (
            "fixed 10/s burst 5",
            "an option does not belong to this algorithm",
        ),
        (
            "10/s over 5s",
            "an option does not belong to this algorithm",
        ),
        ("10/s burst 5 burst 6", "an option is given twice"),
        ("10/s burst", "an option has no value"),
        ("10/s burst x", "an option's value is no number"),
        ("10/s burst +5", "an option's value is no number"),
        (
            "suppressing 10/s hard +20",
            "an option's value is no number",
        ),
        ("+10/s", "the amount is no number up to 1000000000"),
        ("fixed +10/s", "the amount is no number up to 1000000000"),
        (
            "sliding 10/s every 5",
            "the period ends in none of us, ms, s, min, h, d",
        ),
    ] {
        let text = text.to_owned();
        let problem = what_is_wrong;
        assert_eq!(
            text.parse::<Limit>(),
            Err(InvalidLimit::Text { text, problem })
        );
    }
    refused! {
        limit("0/s") => InvalidLimit::Units { units: 0, .. },
        limit("10/s burst 0") => InvalidLimit::Units { what: "capacity", units: 0 },
        limit("10/400d") => InvalidLimit::Period { .. },
        limit("1/366d burst 1000") => InvalidLimit::FillsTooSlowly,
        limit("sliding 5.5/s over 1s") => InvalidLimit::NotWhole { .. },
        limit("sliding 1000000/ms over 2s") => InvalidLimit::Units { what: "limit", units: 2_000_000_000 },
        limit("sliding 1000000000/ms over 5s") => InvalidLimit::Units { units: 5_000_000_000_000, .. },
    }
}

#[test]
fn a_long_text_is_told_by_its_beginning() {
    let refused = "x".repeat(1_000).parse::<Rate>().unwrap_err();
    assert!(matches!(refused, InvalidLimit::Text { text, .. } if text == "x".repeat(64)));
}

#[test]
fn plans_are_refused_as_their_table_says() {
    refused! {
        Plan::new("9lives", "10/s") => InvalidPlan::Name(_),
        Plan::new("", "10/s") => InvalidPlan::Name(_),
        Plan::new("gold", "0/s") => InvalidPlan::Limit(InvalidLimit::Units { .. }),
        Plan::new("gold", "10 per second") => InvalidPlan::Limit(InvalidLimit::Text { .. }),
        Plan::new("gold", TokenBucket::per_second(0)) => InvalidPlan::Limit(InvalidLimit::Units { .. }),
        Plan::new("9lives", "0/s") => InvalidPlan::Name(_),
    }
}

#[test]
fn registries_are_refused_as_their_table_says() {
    let plan = |name, limit| Plan::new(name, limit).unwrap();
    let none = InMemoryPlanRegistry::new([]).unwrap();
    assert!(none.find(&PlanName::new("gold").unwrap()).is_err());
    for twice in [
        [plan("gold", "1/s"), plan("GOLD", "fixed 2/h")],
        [plan("gold", "1/s"), plan("gold", "1/s")],
    ] {
        let name = PlanName::new("gold").unwrap();
        assert_eq!(
            InMemoryPlanRegistry::new(twice.clone()).unwrap_err(),
            DuplicatePlan { name }
        );
        assert!(none.replace_all(twice).is_err());
    }
}

#[test]
fn breaker_settings_are_refused_as_their_table_says() {
    let (new, hour) = (BreakerSettings::new(), minutes(60));
    let rows = [
        (
            "window must be 1 s to 1 h",
            new.with_window(Duration::from_millis(999)),
        ),
        (
            "window must be 1 s to 1 h",
            new.with_window(hour + NANOSECOND),
        ),
        ("min_calls must be at least 1", new.with_min_calls(0)),
        (
            "failure_percent must be 1 to 100",
            new.with_failure_percent(0),
        ),
        (
            "failure_percent must be 1 to 100",
            new.with_failure_percent(101),
        ),
        (
            "slow_call must be above zero",
            new.with_slow_call(Duration::ZERO),
        ),
        ("slow_percent must be 1 to 100", new.with_slow_percent(0)),
        ("slow_percent must be 1 to 100", new.with_slow_percent(101)),
        (
            "open_for must be at least 1 ms",
            new.with_open_for(MILLISECOND - NANOSECOND, hour),
        ),
        (
            "open_for must not exceed open_at_most",
            new.with_open_for(seconds(2), seconds(1)),
        ),
        (
            "open_at_most must be at most 1 h",
            new.with_open_for(hour, hour + NANOSECOND),
        ),
        (
            "successes_to_close must be at least 1",
            new.with_successes_to_close(0),
        ),
        (
            "window must be 1 s to 1 h",
            new.with_min_calls(0).with_window(Duration::ZERO),
        ),
    ];
    for (rule, settings) in rows {
        let told = settings.check().unwrap_err().to_string();
        assert_eq!(
            told,
            format!("circuit breaker settings are not allowed: {rule}")
        );
    }
    let least = new
        .with_window(seconds(1))
        .with_min_calls(1)
        .with_failure_percent(1)
        .with_slow_call(NANOSECOND);
    let least = least
        .with_slow_percent(1)
        .with_open_for(MILLISECOND, MILLISECOND)
        .with_successes_to_close(1);
    let most = new
        .with_window(hour)
        .with_failure_percent(100)
        .with_slow_percent(100)
        .with_open_for(hour, hour);
    assert!(new.check().is_ok() && least.check().is_ok() && most.check().is_ok());
}

#[test]
fn shares_are_refused_as_their_table_says() {
    let whole = Share::of_nodes(1).unwrap();
    for (refused, told) in [
        (Share::of_nodes(0), "nodes is 0: 1 to 10000 is allowed"),
        (
            Share::of_nodes(10_001),
            "nodes is 10001: 1 to 10000 is allowed",
        ),
        (whole.with_percent(0), "percent is 0: 1 to 100 is allowed"),
        (
            whole.with_percent(101),
            "percent is 101: 1 to 100 is allowed",
        ),
    ] {
        assert_eq!(refused.unwrap_err().to_string(), told);
    }
    let edges = [(1, 1), (1, 100), (10_000, 1), (10_000, 100)];
    let of = |(nodes, percent)| Share::of_nodes(nodes).and_then(|all| all.with_percent(percent));
    assert!(edges.into_iter().all(|edge| of(edge).is_ok()));
}

#[test]
fn calls_are_refused_as_the_table_of_requests_says() {
    let chain = |names: &[&str]| -> Vec<Plan> {
        names
            .iter()
            .map(|name| Plan::new(*name, "10/s").unwrap())
            .collect()
    };
    let numbered = |count: usize| -> Vec<Plan> {
        (0..count)
            .map(|nth| Plan::new(format!("p{nth}"), "10/s").unwrap())
            .collect()
    };
    let cost = |units| Some(Cost::new(units).unwrap());
    refused! {
        check_request(&[], cost(1)) => InvalidRequest::NoPlans,
        check_request(&[], None) => InvalidRequest::NoPlans,
        check_request(&numbered(17), None) => InvalidRequest::TooManyPlans { plans: 17 },
        check_request(&chain(&["a", "b", "A"]), None) => InvalidRequest::DuplicatePlan { .. },
        check_request(&chain(&["a"]), cost(11)) => InvalidRequest::CostTooLarge { max: 10, .. },
        check_request(&chain(&["a", "b"]), cost(11)) => InvalidRequest::CostTooLarge { max: 10, .. },
    }
    assert_eq!(check_request(&numbered(16), cost(10)), Ok(()));
    assert_eq!(check_request(&chain(&["a"]), cost(10)), Ok(()));
    assert_eq!(check_request(&chain(&["a"]), None), Ok(()));
}

#[test]
fn escalations_are_refused_as_their_table_says() {
    let with = |escalation| {
        let tier = Tier::new("temp", 5, minutes(10));
        AbusePolicy::builder("login")
            .tier(tier)
            .escalating(escalation)
            .build()
    };
    let (hour, odd) = (minutes(60), seconds(3600) + NANOSECOND);
    refused! {
        with(Escalation::doubling(hour, hour).by(0)) => InvalidAbusePolicy::Factor { factor: 0 },
        with(Escalation::doubling(hour, hour).by(1)) => InvalidAbusePolicy::Factor { factor: 1 },
        with(Escalation::doubling(hour, hour).by(101)) => InvalidAbusePolicy::Factor { factor: 101 },
        with(Escalation::doubling(Duration::ZERO, hour)) => InvalidAbusePolicy::Period { .. },
        with(Escalation::doubling(hour, YEAR + MICROSECOND)) => InvalidAbusePolicy::Period { .. },
        with(Escalation::doubling(odd, hour)) => InvalidAbusePolicy::Period { cause: InvalidLimit::PartOfAMicrosecond { .. }, .. },
        with(Escalation::doubling(hour, odd)) => InvalidAbusePolicy::Period { cause: InvalidLimit::PartOfAMicrosecond { .. }, .. },
        with(Escalation::doubling(hour, minutes(9))) => InvalidAbusePolicy::CapTooShort { .. },
    }
    assert!(with(Escalation::doubling(hour, minutes(10)).by(2)).is_ok());
    assert!(with(Escalation::doubling(YEAR, YEAR).by(100)).is_ok());
}

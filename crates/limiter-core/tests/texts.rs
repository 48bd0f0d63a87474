//! Limits and rates read back as they were written, and nonsense is refused.

mod support;

use limiter_core::{Key, Limit, Plan, PlanName, Rate};
use limiter_testkit::state_machine::limits;
use proptest::prelude::*;
use support::{seeds, settings};

/// These print exactly as they were given.
#[test]
fn usual_texts_print_back_as_given() {
    for text in [
        "10/s",
        "1/s",
        "1000/24h",
        "5.5/s",
        "1.25/min",
        "1.5/h",
        "1.25/d",
        "1/2h",
        "1/366d",
        "250/500ms",
        "1000003/24h",
        "10/s burst 20",
        "5.5/s burst 6",
        "sliding 1000/24h",
        "sliding 100/min every 1s",
        "suppressing 100/10s hard 150",
        "suppressing 100/10s hard 150 every 1s",
        "fixed 100/min",
        "1000000000/ms",
    ] {
        let limit: Limit = text.parse().unwrap();
        assert_eq!(limit.to_string(), text);
    }
}

proptest! {
    #![proptest_config(settings(seeds!("texts")))]

    #[test]
    fn prop_limit_text_round_trips(limit in limits()) {
        let text = limit.to_string();
        prop_assert_eq!(text.parse::<Limit>().ok(), Some(limit), "{}", text);
        prop_assert_eq!(Limit::try_from(text.clone()).ok(), Some(limit));
        prop_assert_eq!(String::from(limit), text);
    }

    #[test]
    fn prop_rate_text_round_trips(units in 1..=1_000_000_000_u32, period_us in 1_000..=31_622_400_000_000_u64) {
        let rate = Rate::new(units, std::time::Duration::from_micros(period_us)).unwrap();
        prop_assert_eq!(rate.to_string().parse::<Rate>().ok(), Some(rate), "{}", rate);
    }

    #[test]
    fn prop_whole_rates_print_back_as_given(units in 1..=1_000_000_000_u32, unit in "ms|s|min|h") {
        let text = format!("{units}/{unit}");
        prop_assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }

    #[test]
    fn prop_decimal_rates_print_back_as_given(whole in 1..=9_999_u32, part in "[0-9]{0,5}[1-9]") {
        let text = format!("{whole}.{part}/s");
        match text.parse::<Rate>() {
            Ok(rate) => prop_assert_eq!(rate.to_string(), text),
            Err(_) => prop_assert!(part.len() > 5, "{} is refused", text),
        }
    }

    #[test]
    fn prop_garbage_is_refused_or_read_and_never_panics(text in "\\PC{0,40}") {
        if let Ok(limit) = text.parse::<Limit>() {
            prop_assert_eq!(limit.to_string().parse::<Limit>().ok(), Some(limit));
        }
        let _ = text.parse::<Rate>();
        let _ = PlanName::new(&text);
        let _ = Key::new(&text);
        let _ = Plan::new(text.as_str(), text.as_str());
    }

    #[test]
    fn prop_near_misses_are_refused_or_read_and_never_panic(
        text in "(bucket |sliding |suppressing |fixed |x )?[0-9]{0,25}(\\.[0-9]{0,9})?/?[0-9]{0,25}(us|ms|s|min|m|h|d|y)?( (burst|over|every|hard|x) [0-9]{0,21}(us|s|h)?){0,3}",
    ) {
        if let Ok(limit) = text.parse::<Limit>() {
            prop_assert_eq!(limit.to_string().parse::<Limit>().ok(), Some(limit), "{}", text);
        }
    }
}

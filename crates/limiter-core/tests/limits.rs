//! What a limit says of itself: its window, its sub-buckets, its hard limit, and whether it is of another kind.
#![allow(clippy::unwrap_used, reason = "what a test is made of may panic")]

use limiter_core::{Limit, SuppressingWindow, seconds};

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

#[test]
fn a_window_is_as_long_as_the_limit_takes_to_be_as_new() {
    for (text, micros) in [
        ("10/s", 1_000_000),
        ("10/s burst 25", 2_500_000),
        ("3/s burst 1", 333_334),
        ("sliding 5/min", 60_000_000),
        ("suppressing 5/h hard 9", 3_600_000_000),
        ("fixed 5/10ms", 10_000),
    ] {
        assert_eq!(limit(text).window().as_micros(), micros, "{text}");
    }
}

#[test]
fn a_window_has_a_hundred_sub_buckets_unless_told() {
    for (text, micros) in [
        ("sliding 5/s", 10_000),
        ("sliding 5/1050us", 10),
        ("sliding 5/s every 7us", 7),
    ] {
        let Limit::SlidingWindow(rule) = limit(text) else {
            unreachable!("{text} is a sliding window")
        };
        assert_eq!(rule.granularity_us(), micros, "{text}");
    }
}

#[test]
fn a_hard_limit_in_percent_is_rounded_down() {
    for (percent, hard) in [(100, 7), (150, 10), (199, 13), (1_000, 70)] {
        let asked = SuppressingWindow::new(7, seconds(1)).with_hard_percent(percent);
        let Limit::SuppressingWindow(rule) = Limit::try_from(asked).unwrap() else {
            unreachable!("a suppressing window is one")
        };
        assert_eq!(rule.hard(), hard, "{percent} percent");
    }
}

#[test]
fn limits_are_of_the_same_algorithm_whatever_their_numbers() {
    let texts = ["10/s", "sliding 5/s", "suppressing 5/s", "fixed 5/s"];
    let others = ["1/h", "sliding 1/h", "suppressing 1/h", "fixed 1/h"];
    for (nth, one) in texts.iter().enumerate() {
        for (other_nth, other) in others.iter().enumerate() {
            let same = limit(one).is_same_algorithm(&limit(other));
            assert_eq!(same, nth == other_nth, "{one} and {other}");
        }
    }
}

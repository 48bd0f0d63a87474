//! What a store kept is put together again, unless it is nothing that the math makes.

use limiter_core::math::{BucketState, CountedWindow, FixedState, SubBucket, WindowLog};
use limiter_core::{Rate, Timestamp, seconds};

/// The first number that Lua does not hold exactly.
const TOO_LATE: u64 = 1 << 53;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap_or(Timestamp::MAX)
}

/// A rate in its smallest numbers may have a period below a millisecond, but none that a plan could not have been asked for.
#[test]
fn rate_of_impossible_parts_is_refused() {
    let (most, year_us) = (limiter_core::MAX_UNITS, 366 * 86_400_000_000);
    for (units, period_us) in [(1, 1), (most, 1), (1, year_us), (3, 7)] {
        let kept = Rate::from_parts(units, period_us);
        assert!(kept.is_some_and(|rate| (rate.units(), rate.period_us()) == (units, period_us)));
    }
    for (units, period_us) in [(0, 1), (most + 1, 1), (1, 0), (1, year_us + 1), (0, 0)] {
        assert_eq!(Rate::from_parts(units, period_us), None);
    }
}

#[test]
fn bucket_of_impossible_parts_is_refused() {
    let rate = Rate::new(3, seconds(1)).unwrap();
    let parts = |full_at_us, part| BucketState::from_parts(at(5), full_at_us, part, rate);
    let whole = 3 * 1_024;
    assert!(parts(7, whole - 1).is_some_and(|state| {
        let kept = (state.seen(), state.full_at_us(), state.full_at_part());
        kept == (at(5), 7, whole - 1) && state.rate() == rate
    }));
    assert!(parts(TOO_LATE - 1, 0).is_some() && parts(5, 0).is_some());
    assert_eq!(parts(TOO_LATE, 0), None);
    assert_eq!(parts(4, 0), None, "no bucket was full before it was seen");
    assert_eq!(
        parts(7, whole),
        None,
        "a whole microsecond is no part of one"
    );
    assert_eq!(parts(TOO_LATE, whole), None);
}

#[test]
fn log_of_impossible_parts_is_refused() {
    let log = |seen, began, kept_us, came: &[u64]| {
        let sub_bucket = |came_at_us: &u64| SubBucket {
            came_at_us: *came_at_us,
            units: 2,
        };
        let sub_buckets = came.iter().map(sub_bucket).collect();
        WindowLog::from_parts(at(seen), at(began), kept_us, sub_buckets)
    };
    assert!(log(9, 7, 30, &[6, 6, 9]).is_some_and(|log| {
        let kept = (log.seen(), log.newest_began(), log.kept_us());
        kept == (at(9), at(7), 30) && log.sub_buckets().len() == 3
    }));
    assert_eq!(log(9, 7, 30, &[9, 8]), None, "the oldest is in front");
    assert_eq!(
        log(9, 10, 30, &[8]),
        None,
        "nothing begins after it was last seen"
    );
    assert_eq!(log(9, 7, 30, &[8, 10]), None, "nothing came after it");
    assert_eq!(log(9, 7, 0, &[8]), None, "units are kept for some time");
    assert_eq!(log(9, 7, TOO_LATE, &[8]), None);
}

#[test]
fn fixed_window_of_impossible_parts_is_refused() {
    let window = |began, ends_at_us, used| CountedWindow {
        began: at(began),
        ends_at_us,
        used,
    };
    let parts = |ends_at_us, used| FixedState::from_windows([window(5, ends_at_us, used)]);
    assert!(parts(9, 4).is_some_and(|state| state.windows() == [window(5, 9, 4)]));
    assert!(parts(6, 1).is_some() && parts(TOO_LATE - 1, FixedState::MOST_USED).is_some());
    assert_eq!(parts(5, 1), None, "a window has a length");
    assert_eq!(parts(4, 1), None);
    assert_eq!(parts(TOO_LATE, 1), None);
    assert_eq!(parts(9, 0), None, "a window starts with a request");
    assert_eq!(parts(4, 0), None);
    assert_eq!(parts(9, FixedState::MOST_USED + 1), None);
    let several = |windows: &[CountedWindow]| FixedState::from_windows(windows.iter().copied());
    let four = [1, 2, 3, 4].map(|began| window(began, 9 - began, 1));
    assert!(several(&four).is_some_and(|state| state.windows() == four));
    assert_eq!(several(&[]), None, "no window is no state");
    assert_eq!(several(&[four, four].concat()), None, "of few windows");
    assert_eq!(several(&[four[1], four[0]]), None, "the oldest is in front");
    assert_eq!(several(&[four[0], four[0]]), None);
    assert_eq!(several(&[four[0], window(5, 5, 1)]), None);
}

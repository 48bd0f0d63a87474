//! The bytes of this version of the layout. Another release on the same store may be as old as this version is: whoever has to
//! change an expectation here changes the layout, and raises `KeyLayout::VERSION`.
#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "what a test is made of may panic")]

use limiter_core::math::{BucketState, CountedWindow, FixedState, State, SubBucket, WindowLog};
use limiter_core::{Key, PlanName, Rate, Timestamp};
use limiter_lua::{KeyLayout, StoredAttempts, read_state};

const NOON: u64 = 1_800_000_000_000_000;

fn at(after_us: u64) -> Timestamp {
    Timestamp::from_micros(NOON + after_us).unwrap()
}

fn read(hex: &str) -> State {
    read_state("gold", &bytes(hex)).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split(' ').collect();
    let byte = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[test]
fn names_of_version_1() {
    let (layout, key) = (KeyLayout::default(), Key::new("ann:1").unwrap());
    let policy = PlanName::new("Login").unwrap();
    assert_eq!(KeyLayout::VERSION, 1);
    assert_eq!(layout.name(&key), b"rl:1:{ann%3A1}");
    assert_eq!(layout.name_under(&key, &policy), b"rl:1:{ann%3A1}:login");
}

#[test]
fn token_buckets_of_version_1() {
    let compact = BucketState::from_parts(
        at(0),
        NOON + 3_600_000_000,
        0,
        Rate::from_parts(1, 1_000_000).unwrap(),
    );
    let read_compact = read("11 06651728988000 00d693a400 000f4240");
    assert_eq!(read_compact, State::TokenBucket(compact.unwrap()));
    let part = BucketState::from_parts(at(0), NOON + 3, 1_023, Rate::from_parts(1, 7).unwrap());
    let read_part = read("17 06651728988000 00000000000fff 00000007");
    assert_eq!(read_part, State::TokenBucket(part.unwrap()));
    let rate = Rate::from_parts(3, 7_000_000).unwrap();
    let wide = BucketState::from_parts(at(0), NOON + 1_000_000, 2 * 1_024, rate);
    let read_wide = read("15 06651728988000 000000000f4240 0000000800 00000003 0000006acfc0");
    assert_eq!(read_wide, State::TokenBucket(wide.unwrap()));
}

#[test]
fn windows_of_version_1() {
    let sub_buckets = [(0, 2), (5, 3)].map(|(after_us, units)| SubBucket {
        came_at_us: NOON + after_us,
        units,
    });
    let log = WindowLog::from_parts(at(5), at(5), 10_000_000, sub_buckets.to_vec()).unwrap();
    let written = "06651728988005 06651728988005 00000000000005 000000989680 \
                   06651728988000 00000002 06651728988005 00000003";
    let sliding = read(&format!("12 {written}"));
    assert_eq!(sliding, State::SlidingWindow(log.clone()));
    let suppressing = read(&format!("13 {written}"));
    assert_eq!(suppressing, State::SuppressingWindow(log));
    let counted = |after_us, lasts_us, used| CountedWindow {
        began: at(after_us),
        ends_at_us: NOON + after_us + lasts_us,
        used,
    };
    let fixed = FixedState::from_windows([counted(0, 60_000_000, 9)]);
    let read_fixed = read("14 06651728988000 0665172c2c0700 00000009");
    assert_eq!(read_fixed, State::FixedWindow(fixed.unwrap()));
    // An hour, and the minute that its shorter plan began in it.
    let both = [counted(0, 3_600_000_000, 9), counted(5, 60_000_000, 2)];
    let read_both =
        read("14 06651728988000 066517ff2c2400 80000009 06651728988005 0665172c2c0705 00000002");
    let fixed = FixedState::from_windows(both);
    assert_eq!(read_both, State::FixedWindow(fixed.unwrap()));
}

#[test]
fn attempts_of_version_1() {
    // Attempts 71 and 72, in two chunks; the first of them begins with one that is not kept any more.
    let state = bytes(
        "16 06651728988001 0665172c2c0700 00 00 00000000000000 00000000000000 000000000047 0002 00",
    );
    let (first, second) = (
        bytes("06651728987fff 06651728988000"),
        bytes("06651728988001"),
    );
    let fields: [(&[u8], &[u8]); 3] = [(b"state", &state), (&[0, 0], &first), (&[0, 1], &second)];
    let stored = StoredAttempts::read("login", fields).unwrap();
    assert_eq!(stored.attempts, [at(0), at(1)]);
    assert_eq!(stored.expires_at_us, NOON + 60_000_000);
    assert_eq!(stored.block, None);
}

//! Distinct keys and plans never share state; case makes no other plan.

use std::collections::HashSet;

use limiter_core::{Key, Plan};

use super::probe::{Probe, key, plan};
use crate::StoreUnderTest;

/// No two distinct keys share anything, whatever bytes they are made of.
pub async fn distinct_keys_never_share_state(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let plans = [plan("bucket", "3/min"), plan("window", "sliding 3/min")];
    let keys = odd_keys();
    for key in &keys {
        let first = probe.acquire(key, &plans, 1).await;
        assert_eq!(
            first.plans[0].remaining,
            2,
            "{:?} was in use",
            key.as_bytes()
        );
    }
    for key in &keys {
        assert_eq!(probe.drain(key, &plans, 5).await, 2, "{:?}", key.as_bytes());
    }
    assert_eq!(sut.tracked_keys().await, keys.len());
}

/// Distinct plans of one key share nothing, also where a key and a plan name run together to the same text.
pub async fn distinct_plans_never_share_state(sut: &impl StoreUnderTest) {
    let probe = Probe::of(sut);
    let longest = "p".repeat(64);
    let names = [
        "a",
        "a.b",
        "a-b",
        "a_b",
        "ab",
        "a.",
        "a..b",
        "b",
        &longest,
        &longest[1..],
    ];
    for user in ["u", "u:a", "u:", "a", "b"].map(key) {
        for name in names {
            let plans = [plan(name, "3/min")];
            let first = probe.acquire(&user, &plans, 2).await;
            assert_eq!(first.plans[0].remaining, 1, "{name}");
        }
    }
}

/// The case of a plan's name makes no other plan.
pub async fn plan_names_ignore_case(sut: &impl StoreUnderTest) {
    let (probe, user) = (Probe::of(sut), key("user"));
    let spellings: Vec<Plan> = ["gold", "GOLD", "Gold"]
        .map(|name| plan(name, "10/min"))
        .into();
    for (spelling, free) in spellings.iter().zip([8, 6, 4]) {
        let verdict = probe
            .acquire(&user, std::slice::from_ref(spelling), 2)
            .await;
        assert_eq!(verdict.plans[0].remaining, free);
    }
    probe.reset(&user, &spellings[1..2]).await;
    assert_eq!(probe.free(&user, &spellings[0]).await, 10);
}

/// Returns keys that a careless encoding would mix up.
fn odd_keys() -> Vec<Key> {
    let mut bytes: Vec<Vec<u8>> = [
        "a", "A", "a:", ":a", "a:b", "a{b}", "{a}b", "{", "}", "{}", "{}a", "a\0", "\0a", "\0",
        "a\0b", "a b", "a ", " a", "%61", "a%3Ab", "%", "%25", "\u{e4}", "a\u{308}", "\n", "a\nb",
        "\\x00", "*", "?", "[a]", "a/b", "_", "-", ".", "a.b", "61", "=61", "\"a\"", "'a'",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    bytes.extend([
        vec![0xff],
        vec![0xff, 0xfe],
        vec![0xe4],
        vec![0x80, b'a'],
        vec![0; 2],
    ]);
    bytes.extend([30, 31, 64, 254, 255].map(|len| vec![b'x'; len]));
    bytes.extend([30, 31, 255].map(|len| vec![0xff; len]));
    let mut differs_late = vec![b'x'; 255];
    differs_late[254] = b'y';
    bytes.push(differs_late);
    let distinct: HashSet<_> = bytes.iter().collect();
    assert_eq!(distinct.len(), bytes.len());
    let keys = bytes
        .iter()
        .map(|bytes| Key::new(bytes).expect("1 to 255 bytes"));
    keys.collect()
}

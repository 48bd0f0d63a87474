//! Values that are none of the limiter's.

use limiter_core::{Key, StoreError};
use limiter_lua::KeyLayout;
use limiter_testkit::server::{RedisServer, Reply};

use crate::{Client, DEADLINE, PATIENT, bucket, plan, recovers_for, spend};

/// Checks that nothing is read into what is not understood at the key of `user`, and nothing
/// written over it; what heals it is a reset, or to take it away. The key is on `server`, whatever
/// the address names.
pub async fn foreign_values_are_neither_read_nor_overwritten(
    client: Client,
    (address, layout): (&str, &KeyLayout),
    server: &RedisServer,
    user: &Key,
) {
    let store = client.store(address, layout, PATIENT);
    recovers_for(&store, user, &bucket(10), PATIENT).await;
    let name = layout.name(user);
    let limits = [
        "1/d burst 10",
        "7/3d burst 10",
        "sliding 10/h",
        "suppressing 10/h",
        "fixed 10/h",
    ];
    for limit in limits {
        let gold = plan("gold", limit);
        for (state, words) in [
            (&b"\x91whatever"[..], "version 9"),
            (b"\x21\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "version 2"),
            (b"\x11short", "corrupt"),
            (b"", "corrupt"),
            (b"\x12", "corrupt"),
            (&fixed_windows([1, 1]), "corrupt"),
            (&fixed_windows([1 << 31 | 1]), "corrupt"),
            (&fixed_windows([1 << 31 | 1; 5]), "corrupt"),
        ] {
            server
                .command(&[&b"HSET"[..], &name, b"gold", state])
                .expect("set");
            let error = spend(&store, user, &gold)
                .await
                .expect_err("not understood");
            let StoreError::Misconfigured { cause, .. } = &error else {
                panic!("{error:?}")
            };
            assert!(cause.to_string().contains(words), "{cause} lacks {words}");
            // Nothing was written, and a reset heals it.
            let kept = server
                .command(&[&b"HGET"[..], &name, b"gold"])
                .expect("get");
            assert_eq!(kept, Reply::Bulk(state.to_vec()));
            store
                .reset(user, std::slice::from_ref(&gold))
                .await
                .expect("forgotten");
            let said = spend(&store, user, &gold).await;
            assert!(said.expect("well again").admitted);
        }
    }
    server
        .command(&[&b"SET"[..], &name, b"a string"])
        .expect("set");
    let error = spend(&store, user, &bucket(10))
        .await
        .expect_err("wrong type");
    assert!(
        matches!(error, StoreError::Misconfigured { .. }),
        "{error:?}"
    );
    assert!(!error.may_have_charged());
    // Held to the usual deadline, whatever it is told before it.
    let hasty = client.store(address, layout, DEADLINE);
    assert!(spend(&hasty, user, &bucket(10)).await.is_err());
    server.command(&[&b"DEL"[..], &name]).expect("taken away");
    let said = spend(&store, user, &bucket(10)).await;
    assert_eq!(said.expect("well again").plans[0].remaining, 9);
}

/// Fixed windows in whose units the bit is at fault that says whether another one follows.
fn fixed_windows<const N: usize>(units: [u32; N]) -> Vec<u8> {
    let window = |units: u32| {
        let moments = b"\x06\x65\x17\x28\x98\x80\x00\x06\x65\x17\xff\x2c\x24\x00";
        [&moments[..], &units.to_be_bytes()].concat()
    };
    let windows = units.into_iter().flat_map(window);
    std::iter::once(0x14).chain(windows).collect()
}

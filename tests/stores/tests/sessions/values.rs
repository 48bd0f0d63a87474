//! What keys hold and how long they live, and keys that are none of the store's.

use std::collections::BTreeMap;

use limiter_core::{Key, Timestamp};
use limiter_lua::SessionNames;
use limiter_sessions::{BotProbability, NonceUse, Retention, TagKey};
use limiter_store_tests::{PATIENT, Stage, faults_on_clients, key, layout};
use limiter_testkit::server::{RedisServer, Reply};

use crate::{KEEP, nonce, visit, visit_of};

faults_on_clients! {
    keys_live_as_long_as_the_servers_clock_says
    sessions_of_version_1
    session_of_another_version_is_told
    corrupt_session_is_told
    visit_beside_a_key_of_another_type_is_told_truly
}

/// On the server's own clock: times are the server's, and every key lives as long as it should.
async fn keys_live_as_long_as_the_servers_clock_says(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    let store = stage.client.sessions(&server.url(), &layout, PATIENT);
    let before = server_now_us(&server);
    let session = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session;
    let after = server_now_us(&server);
    assert!((before..=after).contains(&session.first_seen.as_micros()));
    assert_eq!(
        store.get(&session.id).await.expect("an answer"),
        Some(session.clone())
    );
    let signal = store.signal(visit().ip).await.expect("an answer");
    assert_eq!(
        signal.map(|signal| signal.first_seen),
        Some(session.first_seen)
    );
    let used = store
        .consume(&key("form"), &nonce(1), Retention::FIVE_MINUTES)
        .await;
    assert_eq!(used.expect("an answer"), NonceUse::First);
    let (tags, names) = (
        TagKey::new([7; 32]).expect("a secret"),
        SessionNames::new(&layout),
    );
    let [hash, index] = names.session(&TagKey::locator(&session.id));
    let _ = store
        .observe(&visit_of("cd"), KEEP)
        .await
        .expect("an answer");
    let [address, uniques] = names.address(&tags, visit().ip);
    let form: Key = key("form");
    for (name, keep) in [
        (hash, KEEP),
        (index, KEEP),
        (address, KEEP),
        (uniques, KEEP),
        (
            names.nonce(&tags, &form, &nonce(1)),
            Retention::FIVE_MINUTES,
        ),
    ] {
        let left = server.command(&[&b"PTTL"[..], &name]).expect("PTTL").int();
        let left = u64::try_from(left.expect("a number")).expect("a time to live");
        let keep_ms = u64::try_from(keep.get().as_millis()).expect("a small number");
        assert!(
            left <= keep_ms && left + 60_000 > keep_ms,
            "{left} of {keep_ms} ms"
        );
    }
}

fn server_now_us(server: &RedisServer) -> u64 {
    let time = server.command(&["TIME"]).expect("TIME");
    let parts: Vec<u64> = time
        .items()
        .iter()
        .filter_map(|part| part.text()?.parse().ok())
        .collect();
    parts[0] * 1_000_000 + parts[1]
}

/// What a visit leaves behind, byte by byte. Another release on the same server may be as old as this version is: whoever has to
/// change an expectation here changes the layout, and raises `KeyLayout::VERSION`.
async fn sessions_of_version_1(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    let store = stage.client.sessions(&server.url(), &layout, PATIENT);
    let visit = visit()
        .with_bot_probability(BotProbability::from_ppm(123_456).expect("a part"))
        .with_country("DE".parse().expect("a country"));
    let session = store
        .observe(&visit, KEEP)
        .await
        .expect("an answer")
        .session;
    let (names, tags) = (SessionNames::new(&layout), TagKey::new([7; 32]));
    let [hash, index] = names.session(&TagKey::locator(&session.id));
    let [address, _] = names.address(&tags.expect("a secret"), visit.ip);
    let root = layout.root().as_bytes();
    for (name, kind) in [(&hash, b":s:{"), (&index, b":f:{"), (&address, b":i:{")] {
        assert!(name.starts_with(&[root, kind].concat()), "{name:?}");
    }
    let micros = |moment: Timestamp| moment.as_micros().to_string().into_bytes();
    let (first_seen, expires) = (micros(session.first_seen), micros(session.expires_at));
    let id = session.id.as_bytes();
    let fields = fields(&server, &hash);
    // The version, the part of the id that is its own, and a part of the fingerprint's tag.
    let stored = &fields[&b"id"[..]];
    assert!(stored.len() == 10 && stored[0] == 1 && stored[1..6] == id[11..]);
    let expected: [(&[u8], &[u8]); 9] = [
        (b"id", stored),
        (b"fingerprint", &[0xab; 32]),
        (b"ip", &[203, 0, 113, 9]),
        (b"first_seen", &first_seen),
        (b"last_seen", &first_seen),
        (b"expires", &expires),
        (b"request_count", b"1"),
        (b"bot_probability", b"123456"),
        (b"geo_country", b"DE"),
    ];
    assert_eq!(fields, owned(expected));
    let member = server.command(&[&b"ZRANGE"[..], &index, b"0", b"-1", b"WITHSCORES"]);
    let member = member.expect("ZRANGE");
    let [Reply::Bulk(member), Reply::Bulk(score)] = member.items() else {
        panic!("one member: {member}")
    };
    assert_eq!(*member, [&id[..], &stored[6..]].concat());
    assert_eq!(*score, expires);
    let fields = self::fields(&server, &address);
    let first = &fields[&b"first"[..]];
    assert_eq!(first.len(), 16);
    let expected: [(&[u8], &[u8]); 6] = [
        (b"first_seen", &first_seen),
        (b"last_seen", &first_seen),
        (b"total_sessions", b"1"),
        (b"bot_sum", b"123456"),
        (b"bot_count", b"1"),
        (b"first", first),
    ];
    assert_eq!(fields, owned(expected));
}

type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

fn owned<const N: usize>(fields: [(&[u8], &[u8]); N]) -> Fields {
    let owned = fields.map(|(field, value)| (field.to_vec(), value.to_vec()));
    owned.into()
}

fn fields(server: &RedisServer, name: &[u8]) -> Fields {
    let all = server.command(&[&b"HGETALL"[..], name]).expect("HGETALL");
    let bytes = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => bytes.clone(),
        other => panic!("{other}"),
    };
    let pairs = all.items().chunks_exact(2);
    pairs
        .map(|pair| (bytes(&pair[0]), bytes(&pair[1])))
        .collect()
}

/// A session that another version wrote is an error that names the version, and nothing is changed.
async fn session_of_another_version_is_told(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    let store = stage.client.sessions(&server.url(), &layout, PATIENT);
    let id = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session
        .id;
    let [name, _] = SessionNames::new(&layout).session(&TagKey::locator(&id));
    let foreign = [&b"HSET"[..], &name, b"id", b"\x09from-the-future"];
    server.command(&foreign).expect("HSET");
    let errors = [
        store.get(&id).await.expect_err("another version"),
        store
            .observe(&visit(), KEEP)
            .await
            .expect_err("another version"),
        store.touch(&id, KEEP).await.expect_err("another version"),
    ];
    for error in errors {
        assert!(!error.is_outage() && !error.may_have_charged(), "{error:?}");
        let cause = std::error::Error::source(&error).expect("a cause");
        assert!(cause.to_string().contains("unknown version 9"), "{cause}");
    }
}

/// A session that something else has damaged is an error that says what to do.
async fn corrupt_session_is_told(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    let store = stage.client.sessions(&server.url(), &layout, PATIENT);
    let id = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session
        .id;
    let [name, _] = SessionNames::new(&layout).session(&TagKey::locator(&id));
    let damage = [&b"HDEL"[..], &name, b"expires"];
    server.command(&damage).expect("HDEL");
    for error in [
        store.get(&id).await.expect_err("corrupt"),
        store.observe(&visit(), KEEP).await.expect_err("corrupt"),
        store.end(&id).await.expect_err("corrupt"),
    ] {
        assert!(!error.is_outage() && !error.may_have_charged(), "{error:?}");
        let advice = error.to_string();
        assert!(advice.contains("nothing but the limiter write"), "{advice}");
    }
}

/// A key of another type in the place of the list, the address or its fingerprints: what the error says of the count is true.
async fn visit_beside_a_key_of_another_type_is_told_truly(stage: &Stage) {
    let (server, layout) = (stage.server(), layout());
    let store = stage.client.sessions(&server.url(), &layout, PATIENT);
    let id = store
        .observe(&visit(), KEEP)
        .await
        .expect("an answer")
        .session
        .id;
    let names = SessionNames::new(&layout);
    let [_, index] = names.session(&TagKey::locator(&id));
    let tags = TagKey::new([7; 32]).expect("a secret");
    let [address, uniques] = names.address(&tags, visit().ip);
    for (name, counts) in [(index, false), (address, false), (uniques, true)] {
        let held = server.command(&[&b"DUMP"[..], &name]).expect("DUMP");
        server
            .command(&[&b"SET"[..], &name, b"theirs", b"PX", b"60000"])
            .expect("SET");
        let before = store.get(&id).await.expect("an answer");
        // Another fingerprint, so that the address counts it; and the known one.
        let visits = if counts {
            [visit_of("cd"), visit_of("cd")]
        } else {
            [visit(), visit()]
        };
        for visit in visits {
            let error = store.observe(&visit, KEEP).await.expect_err("another type");
            assert!(!error.is_outage(), "{error:?}");
            assert_eq!(error.may_have_charged(), counts, "{error:?}");
            assert!(error.to_string().contains("prefix"), "{error}");
        }
        if !counts {
            assert_eq!(store.get(&id).await.expect("an answer"), before);
        }
        server.command(&[&b"DEL"[..], &name]).expect("DEL");
        if let Reply::Bulk(held) = &held {
            server
                .command(&[&b"RESTORE"[..], &name, b"60000", held])
                .expect("RESTORE");
        }
    }
}

//! Whose address it is, behind proxies that are trusted and past those that are not.

use std::any::{Any, TypeId};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get as on_get;
use http::{HeaderName, HeaderValue};
use limiter_axum::{ClientIp, HttpRequest, KeyResolver, RateLimit, RateLimitLayer, TrustedProxies};
use limiter_core::RequestSource;
use proptest::prelude::*;

use crate::harness::{Bench, serve};

const XFF: &str = "x-forwarded-for";
const FWD: &str = "forwarded";
const CDN: &str = "cf-connecting-ip";

/// A proxy of ours.
const PROXY: &str = "10.0.0.1";
/// A stranger that connects directly.
const STRANGER: &str = "203.0.113.66";

fn networks() -> TrustedProxies {
    TrustedProxies::networks(["10.0.0.0/8", "fd00::/8", "192.0.2.1"]).unwrap()
}

fn hops(count: u8) -> TrustedProxies {
    TrustedProxies::hops(count).unwrap()
}

fn by(told_by: &str) -> ClientIp {
    match told_by {
        "peer" => ClientIp::peer(),
        "xff" => ClientIp::x_forwarded_for(networks()),
        "fwd" => ClientIp::forwarded(networks()),
        "cdn" => ClientIp::header(CDN, networks()).unwrap(),
        "xff 1 hop" => ClientIp::x_forwarded_for(hops(1)),
        "xff 2 hops" => ClientIp::x_forwarded_for(hops(2)),
        "xff 3 hops" => ClientIp::x_forwarded_for(hops(3)),
        "fwd 2 hops" => ClientIp::forwarded(hops(2)),
        "xff 2 hops within" => ClientIp::x_forwarded_for(hops(2).within(["10.0.0.0/8"]).unwrap()),
        other => panic!("{other}"),
    }
}

fn request(peer: &str, headers: &[(&str, &[u8])]) -> http::request::Parts {
    let (mut parts, ()) = http::Request::new(()).into_parts();
    let peer: IpAddr = peer.parse().unwrap();
    parts.extensions.insert(SocketAddr::new(peer, 4711));
    for (name, value) in headers {
        let name: HeaderName = name.parse().unwrap();
        parts
            .headers
            .append(name, HeaderValue::from_bytes(value).unwrap());
    }
    parts
}

type Case = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static [u8])],
    &'static str,
);

/// How the client is found, the peer, the header lines, and the key.
#[rustfmt::skip]
const CASES: &[Case] = &[
    // Nobody is trusted: no header changes the key.
    ("peer", "203.0.113.9", &[], "203.0.113.9"),
    ("peer", "203.0.113.9", &[(XFF, b"198.51.100.7")], "203.0.113.9"),
    ("peer", "10.0.0.1", &[(XFF, b"198.51.100.7"), (FWD, b"for=198.51.100.7"), ("x-real-ip", b"198.51.100.7")], "10.0.0.1"),
    ("peer", "::ffff:203.0.113.9", &[], "203.0.113.9"),
    ("peer", "2001:db8:1:2:3:4:5:6", &[], "2001:db8:1:2::/64"),
    ("peer", "2001:db8:1:2:ffff::1", &[], "2001:db8:1:2::/64"),
    ("peer", "2001:db8:1:3::1", &[], "2001:db8:1:3::/64"),
    ("peer", "::1", &[], "::/64"),
    // An untrusted peer says what it likes.
    ("xff", STRANGER, &[], STRANGER),
    ("xff", STRANGER, &[(XFF, b"198.51.100.7")], STRANGER),
    ("xff", STRANGER, &[(XFF, b"10.0.0.1")], STRANGER),
    ("xff", STRANGER, &[(XFF, b"198.51.100.7, 10.0.0.1")], STRANGER),
    ("xff", STRANGER, &[(XFF, b"garbage")], STRANGER),
    ("xff", STRANGER, &[(XFF, b"")], STRANGER),
    ("xff", "::ffff:203.0.113.66", &[(XFF, b"198.51.100.7")], STRANGER),
    ("fwd", STRANGER, &[(FWD, b"for=198.51.100.7")], STRANGER),
    ("fwd", STRANGER, &[(FWD, b"for=\"")], STRANGER),
    ("cdn", STRANGER, &[(CDN, b"198.51.100.7")], STRANGER),
    ("cdn", STRANGER, &[(CDN, b"198.51.100.7"), (CDN, b"198.51.100.8")], STRANGER),
    ("xff 2 hops within", STRANGER, &[(XFF, b"198.51.100.7, 198.51.100.8")], STRANGER),
    // One trusted proxy.
    ("xff", PROXY, &[], PROXY),
    ("xff", PROXY, &[(XFF, b"203.0.113.9")], "203.0.113.9"),
    ("xff", "::ffff:10.0.0.1", &[(XFF, b"203.0.113.9")], "203.0.113.9"),
    ("xff", "fd00::1", &[(XFF, b"203.0.113.9")], "203.0.113.9"),
    ("xff", "192.0.2.1", &[(XFF, b"203.0.113.9")], "203.0.113.9"),
    ("xff", "192.0.2.2", &[(XFF, b"203.0.113.9")], "192.0.2.2"),
    ("xff", PROXY, &[(XFF, b" \t203.0.113.9 ")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9:51234")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"2001:db8:1:2:3::9")], "2001:db8:1:2::/64"),
    ("xff", PROXY, &[(XFF, b"[2001:db8:1:2:3::9]")], "2001:db8:1:2::/64"),
    ("xff", PROXY, &[(XFF, b"[2001:db8:1:2:3::9]:51234")], "2001:db8:1:2::/64"),
    ("xff", PROXY, &[(XFF, b"fe80::1%eth0")], "fe80::/64"),
    ("xff", PROXY, &[(XFF, b"::ffff:203.0.113.9")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"[::ffff:203.0.113.9]:80")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"::ffff:1.1.1.1")], "1.1.1.1"),
    ("xff", PROXY, &[(XFF, b"::ffff:8.8.8.8")], "8.8.8.8"),
    // What the client wrote is left of what the proxy wrote.
    ("xff", PROXY, &[(XFF, b"198.51.100.7, 203.0.113.9")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"10.9.9.9, 203.0.113.9")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"garbage, 203.0.113.9")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b", , 203.0.113.9")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"\xff\xfe, 203.0.113.9")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"\", 203.0.113.9")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"198.51.100.7"), (XFF, b"203.0.113.9")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"198.51.100.7, 198.51.100.8"), (XFF, b"garbage"), (XFF, b"203.0.113.9")], "203.0.113.9"),
    // Several trusted proxies, on one line or many.
    ("xff", PROXY, &[(XFF, b"203.0.113.9, 10.0.0.3, 10.0.0.2")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9"), (XFF, b"10.0.0.3"), (XFF, b"10.0.0.2")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"198.51.100.7, 203.0.113.9"), (XFF, b"fd00::3, 10.0.0.2")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"10.0.0.4, 10.0.0.3, 10.0.0.2")], "10.0.0.4"),
    // The walk stops at what cannot be read: the machine that wrote it is as far as it goes.
    ("xff", PROXY, &[(XFF, b"203.0.113.9, unknown")], PROXY),
    ("xff", PROXY, &[(XFF, b"203.0.113.9, unknown, 10.0.0.2")], "10.0.0.2"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9, _hidden")], PROXY),
    ("xff", PROXY, &[(XFF, b"203.0.113.9, 203.0.113.300")], PROXY),
    ("xff", PROXY, &[(XFF, b"203.0.113.9:99999")], PROXY),
    ("xff", PROXY, &[(XFF, b"")], PROXY),
    // Empty elements of a list are nothing (RFC 9110, section 5.6.1.2): on one line or on many.
    ("xff", PROXY, &[(XFF, b"203.0.113.9, ")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9,")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9 ,\t, ,")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9,, 10.0.0.2")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9"), (XFF, b"")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9"), (XFF, b" , "), (XFF, b"10.0.0.2"), (XFF, b"")], "203.0.113.9"),
    ("xff", PROXY, &[(XFF, b"203.0.113.9, unknown,"), (XFF, b"")], PROXY),
    ("xff", PROXY, &[(XFF, b"203.0.113.9, unknown,, 10.0.0.2,")], "10.0.0.2"),
    ("xff", PROXY, &[(XFF, b",")], PROXY),
    ("xff", PROXY, &[(XFF, b""), (XFF, b"")], PROXY),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.40,")], "203.0.113.40"),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.40"), (FWD, b"")], "203.0.113.40"),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.40, ,for=10.0.0.2,"), (FWD, b"\t")], "203.0.113.40"),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.40;host=\"a,b\",,")], "203.0.113.40"),
    // An element with a semicolon and nothing else is there, and names no client.
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.40, ;")], PROXY),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.40, for=unknown,")], PROXY),
    // Only the header that was named is read.
    ("xff", PROXY, &[(FWD, b"for=198.51.100.7"), ("x-real-ip", b"198.51.100.7"), (CDN, b"198.51.100.7")], PROXY),
    ("fwd", PROXY, &[(XFF, b"198.51.100.7")], PROXY),
    ("cdn", PROXY, &[(XFF, b"198.51.100.7"), (FWD, b"for=198.51.100.7")], PROXY),
    // RFC 7239.
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.9")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"For=\"203.0.113.9:4711\";proto=https;by=10.0.0.1")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"proto=http;for=\"[2001:db8:1:2::9]:4711\"")], "2001:db8:1:2::/64"),
    ("fwd", PROXY, &[(FWD, b"for=198.51.100.7, for=203.0.113.9, for=10.0.0.2")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"for=198.51.100.7"), (FWD, b"for=203.0.113.9;host=\"a,b\"")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"for=\", for=203.0.113.9")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"for=\""), (FWD, b"for=203.0.113.9")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.9, for=unknown, for=10.0.0.2")], "10.0.0.2"),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.9, for=_x, for=10.0.0.2")], "10.0.0.2"),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.9;for=198.51.100.7")], PROXY),
    // What a client wrote, and a proxy quotes.
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.9;host=\"x\\\",for=6.6.6.6;y=\\\"\"")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.9;host=\"a\\\"b\"")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.9;host=\"caf\xe9\"")], "203.0.113.9"),
    ("fwd", PROXY, &[(FWD, b"by=203.0.113.9")], PROXY),
    ("fwd", PROXY, &[(FWD, b"for=203.0.113.9, proto=https")], PROXY),
    // A header with one address.
    ("cdn", PROXY, &[(CDN, b"203.0.113.9")], "203.0.113.9"),
    ("cdn", PROXY, &[(CDN, b"2001:db8:1:2::9")], "2001:db8:1:2::/64"),
    ("cdn", PROXY, &[], PROXY),
    ("cdn", PROXY, &[(CDN, b"garbage")], PROXY),
    ("cdn", PROXY, &[(CDN, b"203.0.113.9, 198.51.100.7")], PROXY),
    // By count, any peer is believed.
    ("xff 1 hop", STRANGER, &[(XFF, b"198.51.100.7, 203.0.113.9")], "203.0.113.9"),
    ("xff 2 hops", STRANGER, &[(XFF, b"198.51.100.7, 203.0.113.9, 35.191.0.1")], "203.0.113.9"),
    ("xff 2 hops", STRANGER, &[(XFF, b"203.0.113.9, 35.191.0.1")], "203.0.113.9"),
    ("xff 2 hops", STRANGER, &[(XFF, b"198.51.100.7, 203.0.113.9"), (XFF, b"35.191.0.1")], "203.0.113.9"),
    ("xff 2 hops", STRANGER, &[(XFF, b"198.51.100.7"), (XFF, b"203.0.113.9"), (XFF, b"35.191.0.1")], "203.0.113.9"),
    ("fwd 2 hops", STRANGER, &[(FWD, b"for=198.51.100.7, for=203.0.113.9, for=35.191.0.1")], "203.0.113.9"),
    ("xff 2 hops within", PROXY, &[(XFF, b"198.51.100.7, 203.0.113.9, 35.191.0.1")], "203.0.113.9"),
    ("xff 3 hops", STRANGER, &[(XFF, b"198.51.100.7, 203.0.113.9, 35.191.0.2, 35.191.0.1")], "203.0.113.9"),
    ("xff 3 hops", STRANGER, &[(XFF, b"unknown, 203.0.113.9, 35.191.0.2, 35.191.0.1")], "203.0.113.9"),
    ("xff 3 hops", STRANGER, &[(XFF, b"203.0.113.9,, 35.191.0.2"), (XFF, b"35.191.0.1,")], "203.0.113.9"),
    ("xff 3 hops", STRANGER, &[(XFF, b"[2001:db8:1:2::9]:4711, 35.191.0.2, 35.191.0.1:80")], "2001:db8:1:2::/64"),
    ("xff 3 hops", STRANGER, &[(XFF, b"::ffff:203.0.113.9, 35.191.0.2, 35.191.0.1")], "203.0.113.9"),
    ("xff 3 hops", STRANGER, &[(XFF, b"203.0.113.9, 35.191.0.2, unknown")], STRANGER),
    ("xff 3 hops", STRANGER, &[], STRANGER),
    ("xff 3 hops", STRANGER, &[(XFF, b"")], STRANGER),
    // No entry: the peer is a health check, or a client that came past the proxies.
    ("xff 1 hop", STRANGER, &[], STRANGER),
    ("xff 2 hops", STRANGER, &[], STRANGER),
    ("xff 2 hops", STRANGER, &[(XFF, b""), (XFF, b" , ")], STRANGER),
    ("fwd 2 hops", STRANGER, &[(FWD, b",")], STRANGER),
    ("xff 2 hops within", PROXY, &[], PROXY),
    // Too few: only the first from the right is certainly the word of a proxy.
    ("xff 2 hops", STRANGER, &[(XFF, b"203.0.113.9")], "203.0.113.9"),
    ("xff 3 hops", STRANGER, &[(XFF, b"203.0.113.9")], "203.0.113.9"),
    ("xff 3 hops", STRANGER, &[(XFF, b"198.51.100.7, 203.0.113.9")], "203.0.113.9"),
    ("xff 3 hops", STRANGER, &[(XFF, b"198.51.100.7,,"), (XFF, b"203.0.113.9, ")], "203.0.113.9"),
    ("fwd 2 hops", STRANGER, &[(FWD, b"for=203.0.113.9")], "203.0.113.9"),
    ("xff 2 hops within", PROXY, &[(XFF, b"203.0.113.9")], "203.0.113.9"),
    // Reading stops at an entry that cannot be read, and the machine that wrote it counts.
    ("xff 1 hop", STRANGER, &[(XFF, b"198.51.100.1, unknown")], STRANGER),
    ("xff 2 hops", STRANGER, &[(XFF, b"198.51.100.1, 203.0.113.45, unknown")], STRANGER),
    ("xff 2 hops", STRANGER, &[(XFF, b"198.51.100.7, garbage, 35.191.0.1")], "35.191.0.1"),
    ("xff 2 hops", STRANGER, &[(XFF, b"198.51.100.7, _hidden"), (XFF, b"35.191.0.1")], "35.191.0.1"),
    ("xff 2 hops", STRANGER, &[(XFF, b"unknown")], STRANGER),
    ("xff 3 hops", STRANGER, &[(XFF, b"198.51.100.7, unknown, 35.191.0.2, 35.191.0.1")], "35.191.0.2"),
    ("xff 3 hops", STRANGER, &[(XFF, b"203.0.113.9, unknown, 35.191.0.1")], "35.191.0.1"),
    ("xff 3 hops", STRANGER, &[(XFF, b"unknown, 35.191.0.1")], "35.191.0.1"),
    ("fwd 2 hops", STRANGER, &[(FWD, b"for=203.0.113.9, for=unknown")], STRANGER),
    ("fwd 2 hops", STRANGER, &[(FWD, b"for=203.0.113.9, by=35.191.0.1, for=35.191.0.1")], "35.191.0.1"),
    ("xff 2 hops within", PROXY, &[(XFF, b"198.51.100.1, 203.0.113.45, unknown")], PROXY),
    // What is left of the position is not looked at.
    ("xff 1 hop", STRANGER, &[(XFF, b"unknown, 203.0.113.9")], "203.0.113.9"),
    ("xff 2 hops", STRANGER, &[(XFF, b"\xff\", garbage, 203.0.113.9, 35.191.0.1")], "203.0.113.9"),
    ("fwd 2 hops", STRANGER, &[(FWD, b"for=\", for=203.0.113.9, for=35.191.0.1")], "203.0.113.9"),
    // Empty elements are not counted.
    ("xff 2 hops", STRANGER, &[(XFF, b"198.51.100.7, 203.0.113.9,, 35.191.0.1,")], "203.0.113.9"),
    ("xff 2 hops", STRANGER, &[(XFF, b"198.51.100.7, 203.0.113.9"), (XFF, b""), (XFF, b"35.191.0.1"), (XFF, b"")], "203.0.113.9"),
    ("fwd 2 hops", STRANGER, &[(FWD, b"for=203.0.113.9, , for=35.191.0.1"), (FWD, b"")], "203.0.113.9"),
    // Ports, brackets, zones and v4-mapped addresses, at the position and before it.
    ("xff 1 hop", STRANGER, &[(XFF, b"203.0.113.9:51234")], "203.0.113.9"),
    ("xff 2 hops", STRANGER, &[(XFF, b"[2001:db8:1:2::9]:51234, 35.191.0.1:443")], "2001:db8:1:2::/64"),
    ("xff 2 hops", STRANGER, &[(XFF, b"::ffff:203.0.113.9, [2001:db8::1]")], "203.0.113.9"),
    ("xff 2 hops", STRANGER, &[(XFF, b"fe80::1%eth0, [::ffff:35.191.0.1]:80")], "fe80::/64"),
    ("xff 2 hops", STRANGER, &[(XFF, b"203.0.113.9, 35.191.0.1:99999")], STRANGER),
    ("fwd 2 hops", STRANGER, &[(FWD, b"for=\"[::ffff:203.0.113.9]:4711\", for=\"[2001:db8::1]\"")], "203.0.113.9"),
    // With networks: only a peer in them is believed. The entries themselves are counted, wherever
    // they are.
    ("xff 2 hops within", "::ffff:10.0.0.1", &[(XFF, b"203.0.113.9, 35.191.0.1")], "203.0.113.9"),
    ("xff 2 hops within", STRANGER, &[(XFF, b"203.0.113.9, 10.0.0.2")], STRANGER),
];

#[test]
fn every_case_of_the_table_has_its_key() {
    assert!(CASES.len() >= 60, "{} cases", CASES.len());
    let mut wrong = Vec::new();
    for (told_by, peer, headers, expected) in CASES {
        let parts = request(peer, headers);
        let key = by(told_by).resolve(&HttpRequest::new(&parts)).unwrap();
        let key = String::from_utf8_lossy(key.as_bytes()).into_owned();
        let told = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.escape_ascii()));
        let told: Vec<_> = told.collect();
        if key != *expected {
            wrong.push(format!(
                "{told_by}, peer {peer}, {told:?}: {key}, not {expected}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_header_of_one_address_with_two_lines_is_an_error_of_the_proxy() {
    let parts = request(PROXY, &[(CDN, b"203.0.113.9"), (CDN, b"198.51.100.7")]);
    let error = by("cdn").resolve(&HttpRequest::new(&parts)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "request has more than one header cf-connecting-ip: send one"
    );
}

#[test]
fn what_the_proxy_appended_counts_however_many_lines_come_before_it() {
    let mut lines: Vec<(&str, &[u8])> = vec![(XFF, b"198.51.100.7"); 300];
    lines.push((XFF, b"203.0.113.9"));
    let parts = request(PROXY, &lines);
    let address = by("xff").address(&HttpRequest::new(&parts)).unwrap();
    assert_eq!(address, IpAddr::from([203, 0, 113, 9]));
}

/// No chain of proxies is that long: what claims to be one is not walked to its end.
#[test]
fn the_walk_ends_after_so_many_entries_on_one_line_or_many() {
    let claimed = |separator: &str| {
        let entries = (0..200).map(|nth| format!("10.0.1.{nth}"));
        entries.collect::<Vec<_>>().join(separator)
    };
    let one_line = claimed(", ");
    let many_lines = claimed("\n");
    let elements = format!("for={}", claimed(", for="));
    let lines: Vec<(&str, &[u8])> = many_lines.lines().map(|it| (XFF, it.as_bytes())).collect();
    for (told_by, lines) in [
        ("xff", vec![(XFF, one_line.as_bytes())]),
        ("xff", lines),
        ("fwd", vec![(FWD, elements.as_bytes())]),
    ] {
        let parts = request(PROXY, &lines);
        let address = by(told_by).address(&HttpRequest::new(&parts)).unwrap();
        assert_eq!(address, IpAddr::from([10, 0, 1, 200 - 32]), "{told_by}");
    }
    // A count is walked as far as it says.
    let parts = request(PROXY, &[(XFF, one_line.as_bytes())]);
    let far = ClientIp::x_forwarded_for(hops(100));
    let address = far.address(&HttpRequest::new(&parts)).unwrap();
    assert_eq!(address, IpAddr::from([10, 0, 1, 100]));
}

/// A source of requests that is not ours; how often a line was asked for.
struct Foreign<'a>(HttpRequest<'a>, AtomicUsize);

impl RequestSource for Foreign<'_> {
    fn header(&self, name: &str, line: usize) -> Option<&[u8]> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.header(name, line)
    }

    fn principal(&self) -> Option<&str> {
        None
    }

    fn peer_ip(&self) -> Option<IpAddr> {
        self.0.peer_ip()
    }

    fn route(&self) -> Option<&str> {
        None
    }
}

/// Like [`Foreign`], and it shows the request that it is made of.
struct Shown<'a>(Foreign<'a>);

impl RequestSource for Shown<'_> {
    fn header(&self, name: &str, line: usize) -> Option<&[u8]> {
        self.0.header(name, line)
    }

    fn principal(&self) -> Option<&str> {
        None
    }

    fn peer_ip(&self) -> Option<IpAddr> {
        self.0.peer_ip()
    }

    fn route(&self) -> Option<&str> {
        None
    }

    fn part(&self, wanted: TypeId) -> Option<&dyn Any> {
        self.0.0.part(wanted)
    }
}

/// To ask an HTTP request for its nth line is to walk over those before: with many lines that would be quadratic.
#[test]
fn the_lines_of_an_http_request_are_not_asked_for_by_number() {
    let mut lines: Vec<(&str, &[u8])> = vec![(XFF, b"198.51.100.7"); 300];
    lines.push((XFF, b"203.0.113.9"));
    lines.push((XFF, b"10.0.0.2"));
    let parts = request(PROXY, &lines);
    let foreign = || Foreign(HttpRequest::new(&parts), AtomicUsize::new(0));
    let client = IpAddr::from([203, 0, 113, 9]);
    let (not_shown, shown) = (foreign(), Shown(foreign()));
    assert_eq!(by("xff").address(&not_shown).unwrap(), client);
    assert_eq!(by("xff").address(&shown).unwrap(), client);
    assert_eq!(not_shown.1.into_inner(), 302 + 1 + 2);
    assert_eq!(shown.0.1.into_inner(), 0);
}

#[test]
fn prefixes_and_proxies_are_checked_at_the_door() {
    assert!(ClientIp::peer().with_ipv6_prefix(0).is_err());
    assert!(ClientIp::peer().with_ipv6_prefix(129).is_err());
    let parts = request("2001:db8:1:2:3:4:5:6", &[]);
    for (bits, expected) in [
        (1, "::/1"),
        (48, "2001:db8:1::/48"),
        (56, "2001:db8:1::/56"),
        (128, "2001:db8:1:2:3:4:5:6/128"),
    ] {
        let resolver = ClientIp::peer().with_ipv6_prefix(bits).unwrap();
        let key = resolver.resolve(&HttpRequest::new(&parts)).unwrap();
        assert_eq!(key.as_bytes(), expected.as_bytes());
        assert_eq!(
            resolver.key_of("2001:db8:1:2:3:4:5:6".parse().unwrap()),
            key
        );
    }
    for mapped in ["203.0.113.9", "::ffff:203.0.113.9"] {
        let key = ClientIp::peer().key_of(mapped.parse().unwrap());
        assert_eq!(key.as_bytes(), b"203.0.113.9");
    }
    assert!(TrustedProxies::networks([]).is_err());
    assert!(TrustedProxies::networks(["10.0.0.0/33"]).is_err());
    assert!(TrustedProxies::networks(["proxy.internal"]).is_err());
    assert!(TrustedProxies::hops(0).is_err());
    assert!(ClientIp::header("no header", networks()).is_err());
    let mapped = TrustedProxies::networks(["::ffff:10.0.0.0/104"]).unwrap();
    let parts = request(PROXY, &[(XFF, b"203.0.113.9")]);
    let address = ClientIp::x_forwarded_for(mapped)
        .address(&HttpRequest::new(&parts))
        .unwrap();
    assert_eq!(address, IpAddr::from([203, 0, 113, 9]));
}

#[tokio::test]
async fn rotating_the_header_gives_no_fresh_bucket_over_the_wire() {
    let bench = Bench::new(&[("gold", "3/h")]);
    let cases = [
        (ClientIp::peer(), 3),
        (
            ClientIp::x_forwarded_for(TrustedProxies::networks(["10.0.0.0/8"]).unwrap()),
            0,
        ),
        // The peer is the proxy here: what a client sent it stands left of what it appends.
        (
            ClientIp::x_forwarded_for(TrustedProxies::networks(["127.0.0.0/8"]).unwrap()),
            3,
        ),
    ];
    for (client_ip, admitted) in cases {
        let limit = RateLimit::plan("gold");
        let layer = RateLimitLayer::new(bench.limiter.clone(), client_ip, limit).unwrap();
        let router = Router::new()
            .route("/", on_get(|| async { "hello" }))
            .layer(layer);
        let url = serve(router).await;
        let client = reqwest::Client::new();
        let mut passed = 0;
        for nth in 0..10 {
            let spoofed = format!("198.51.100.{nth}, 203.0.113.9");
            let response = client.get(&url).header(XFF, spoofed).send().await.unwrap();
            passed += usize::from(response.status() == 200);
        }
        assert_eq!(passed, admitted);
    }
}

/// An entry as a proxy may write it, with the address that it tells, if it tells one. An empty one
/// is none.
fn any_entry() -> impl Strategy<Value = (&'static str, Option<IpAddr>)> {
    let address = |text: &str| Some(text.parse().unwrap());
    prop_oneof![
        Just(("10.0.0.2", address("10.0.0.2"))),
        Just((" 10.0.0.3:80", address("10.0.0.3"))),
        Just(("[fd00::4]:80 ", address("fd00::4"))),
        Just(("203.0.113.9", address("203.0.113.9"))),
        Just(("::ffff:198.51.100.7", address("198.51.100.7"))),
        Just(("unknown", None)),
        Just((" _hidden", None)),
        Just(("", None)),
        Just((" \t", None)),
    ]
}

/// Who is charged by the rules of the documentation: `entries` from the right, without the empty
/// ones.
fn by_the_rules(hops: Option<usize>, entries: &[Option<IpAddr>]) -> IpAddr {
    let peer: IpAddr = PROXY.parse().unwrap();
    let told_at = |nth: usize| {
        if nth == 0 {
            Some(peer)
        } else {
            entries[nth - 1]
        }
    };
    let unreadable = (1..=entries.len()).find(|nth| told_at(*nth).is_none());
    let stranger = |nth: &usize| {
        let is_ours = |it: IpAddr| ["10.0.0.2", "10.0.0.3", "fd00::4"].contains(&&*it.to_string());
        told_at(*nth).is_some_and(|it| !is_ours(it))
    };
    let wanted = hops.unwrap_or_else(|| {
        let stranger = (1..=entries.len()).find(stranger);
        stranger.unwrap_or(entries.len())
    });
    let position = match unreadable {
        Some(stop) if stop <= wanted => stop - 1,
        _ if wanted > entries.len() => entries.len().min(1),
        _ => wanted,
    };
    told_at(position).unwrap()
}

fn any_line() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let name = prop_oneof![Just(XFF), Just(FWD), Just(CDN), Just("x-real-ip")];
    let entry = prop_oneof![
        "[0-9.,: ]{0,24}",
        "(for=)?\"?[0-9a-f:.\\[\\]]{0,20}\"?(, ?|;)(for=)?10\\.0\\.0\\.[0-9]",
        "\\PC{0,20}",
    ];
    let value = entry.prop_map(|text| {
        let visible = |byte: &u8| *byte >= 0x20 && *byte != 0x7f;
        text.into_bytes().into_iter().filter(visible).collect()
    });
    (name, value)
}

proptest! {
    /// However entries are spread over lines, with whatever empty elements and lines among them.
    #[test]
    fn prop_the_client_is_who_the_tables_say(
        lines in prop::collection::vec(prop::collection::vec(any_entry(), 0..6), 0..5),
        hops in prop::option::of(1_u8..6),
    ) {
        let text = |line: &Vec<(&str, _)>| line.iter().map(|(text, _)| *text).collect::<Vec<_>>().join(",");
        let written: Vec<String> = lines.iter().map(text).collect();
        let elements = |line: &Vec<(&str, _)>| {
            let there = |(text, _): &&(&str, _)| !text.trim().is_empty();
            line.iter().filter(there).map(|(text, _)| format!("for=\"{}\"", text.trim())).collect::<Vec<_>>().join(" ,, ")
        };
        let elements: Vec<String> = lines.iter().map(elements).collect();
        let entries = lines.iter().flatten().filter(|(text, _)| !text.trim().is_empty());
        let mut entries: Vec<_> = entries.map(|(_, address)| *address).collect();
        entries.reverse();
        let expected = by_the_rules(hops.map(usize::from), &entries);
        let proxies = || hops.map_or_else(networks, |hops| TrustedProxies::hops(hops).unwrap());
        for (told_by, name, lines) in [
            (ClientIp::x_forwarded_for(proxies()), XFF, &written),
            (ClientIp::forwarded(proxies()), FWD, &elements),
        ] {
            let lines: Vec<(&str, &[u8])> = lines.iter().map(|line| (name, line.as_bytes())).collect();
            let address = told_by.address(&HttpRequest::new(&request(PROXY, &lines))).unwrap();
            prop_assert_eq!(address, expected, "{}", name);
        }
    }

    #[test]
    fn prop_an_untrusted_peer_never_changes_its_key(
        lines in prop::collection::vec(any_line(), 0..6),
        told_by in prop_oneof![Just("peer"), Just("xff"), Just("fwd"), Just("cdn"), Just("xff 2 hops within")],
    ) {
        let lines: Vec<(&str, &[u8])> = lines.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let key = by(told_by).resolve(&HttpRequest::new(&request(STRANGER, &lines))).unwrap();
        prop_assert_eq!(key.as_bytes(), STRANGER.as_bytes());
    }

    /// Whatever a client sends, a trusted proxy appends its address on the right, to the last line or on a line of its own.
    #[test]
    fn prop_what_a_client_sends_through_a_proxy_never_changes_its_key(
        lines in prop::collection::vec(any_line(), 0..6),
        own_line: bool,
        (told_by, name, appended) in prop_oneof![
            Just(("xff", XFF, "203.0.113.9")),
            Just(("fwd", FWD, "for=203.0.113.9;proto=https")),
        ],
    ) {
        let mut lines = lines;
        let last = lines.iter().rposition(|(known, _)| *known == name).filter(|_| !own_line);
        match last {
            Some(last) => lines[last].1.extend_from_slice(format!(", {appended}").as_bytes()),
            None => lines.push((name, appended.into())),
        }
        let lines: Vec<(&str, &[u8])> = lines.iter().map(|(name, value)| (*name, value.as_slice())).collect();
        let key = by(told_by).resolve(&HttpRequest::new(&request(PROXY, &lines))).unwrap();
        prop_assert_eq!(key.as_bytes(), b"203.0.113.9");
    }
}

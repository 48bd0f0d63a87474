//! The header `Forwarded` (RFC 7239), read from the right.

use std::net::IpAddr;

use super::address;

/// Splits one line at its commas, the rightmost part first. Commas between quotes do not split.
///
/// Quotes are told from the right as well: what a client left open on the left cannot swallow what a proxy appended.
pub(super) fn elements_from_the_right(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let line = rest?;
        match last_outside_quotes(line, b',') {
            Some(comma) => {
                rest = line.get(..comma);
                line.get(comma + 1..)
            }
            None => rest.take(),
        }
    })
}

/// Reads the address that the one `for` of an element names. What stands in other pairs need not be
/// text.
pub(super) fn client_of(element: &[u8]) -> Option<IpAddr> {
    let mut client = None;
    let mut rest = Some(element);
    while let Some(pairs) = rest {
        let pair = match last_outside_quotes(pairs, b';') {
            Some(semicolon) => {
                rest = pairs.get(..semicolon);
                pairs.get(semicolon + 1..)?
            }
            None => rest.take()?,
        };
        let pair = pair.trim_ascii();
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
            if pair.is_empty() {
                continue;
            }
            return None;
        };
        let (name, value) = (pair.get(..equals)?, pair.get(equals + 1..)?);
        if name.eq_ignore_ascii_case(b"for") && client.replace(value).is_some() {
            return None;
        }
    }
    address::parse(unquoted(std::str::from_utf8(client?).ok()?)?)
}

/// Takes the quotes off; a value with quotes at one end, or with escapes, is not read.
fn unquoted(value: &str) -> Option<&str> {
    let inner = match value.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"')?,
        None => value,
    };
    (!inner.contains(['"', '\\'])).then_some(inner)
}

fn last_outside_quotes(text: &[u8], wanted: u8) -> Option<usize> {
    let (mut quoted, mut rest) = (false, text);
    while let [before @ .., byte] = rest {
        quoted ^= *byte == b'"' && !is_escaped(before);
        if *byte == wanted && !quoted {
            return Some(before.len());
        }
        rest = before;
    }
    None
}

/// Returns whether what comes after `before` is escaped: a proxy writes what a client sent between
/// quotes so.
fn is_escaped(before: &[u8]) -> bool {
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_for_is_read_whatever_stands_beside_it() {
        for (element, address) in [
            ("for=203.0.113.9", "203.0.113.9"),
            (" For=203.0.113.9;proto=https;by=10.0.0.1", "203.0.113.9"),
            ("proto=https; for=\"203.0.113.9:4711\"", "203.0.113.9"),
            ("for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("host=\"a,b;c\";FOR=203.0.113.9;", "203.0.113.9"),
            ("for=203.0.113.9;host=\"a\\\"b\"", "203.0.113.9"),
            ("for=203.0.113.9;host=\"a\\\\\"", "203.0.113.9"),
        ] {
            assert_eq!(
                client_of(element.as_bytes()),
                Some(address.parse().unwrap()),
                "{element:?}"
            );
        }
    }

    #[test]
    fn anything_else_is_not() {
        for element in [
            "",
            "for",
            "for=",
            "by=10.0.0.1",
            "for=unknown",
            "for=_hidden",
            "for=\"203.0.113.9",
            "for=203.0.113.9\"",
            "for=\"203.0.113.\\9\"",
            "for=203.0.113.9;for=198.51.100.7",
            "203.0.113.9",
        ] {
            assert_eq!(client_of(element.as_bytes()), None, "{element:?}");
        }
    }

    #[test]
    fn a_quote_left_open_on_the_left_swallows_nothing() {
        let elements: Vec<_> = elements_from_the_right(b"for=\", for=203.0.113.9").collect();
        assert_eq!(elements[0], b" for=203.0.113.9");
        let quoted: Vec<_> = elements_from_the_right(b"for=a;host=\"x,y\",for=b").collect();
        assert_eq!(quoted, [&b"for=b"[..], b"for=a;host=\"x,y\""]);
    }

    #[test]
    fn what_is_no_text_stands_in_the_way_of_nothing_else() {
        let client = client_of(b"for=203.0.113.9;host=\"caf\xe9\"");
        assert_eq!(client, Some("203.0.113.9".parse().unwrap()));
        assert_eq!(client_of(b"for=caf\xe9;host=a"), None);
    }

    /// A proxy that tells the host as the client sent it, and quotes it as RFC 9110, section 5.6.4
    /// says.
    fn told_by_a_proxy(host: &[u8]) -> Vec<u8> {
        let mut line = b"for=203.0.113.9;host=\"".to_vec();
        for byte in host {
            if matches!(byte, b'"' | b'\\') {
                line.push(b'\\');
            }
            line.push(*byte);
        }
        line.push(b'"');
        line
    }

    proptest! {
        #[test]
        fn prop_what_a_proxy_quotes_changes_nobody(
            host in prop::collection::vec(prop::sample::select(&b"\"\\,;=for6. \xe9"[..]), 0..24),
        ) {
            let line = told_by_a_proxy(&host);
            let elements: Vec<_> = elements_from_the_right(&line).collect();
            prop_assert_eq!(&elements, &[&line[..]]);
            prop_assert_eq!(client_of(&line), Some("203.0.113.9".parse().unwrap()));
        }
    }
}

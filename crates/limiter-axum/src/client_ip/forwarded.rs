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

/// Reads the address that the one `for` of an element names.
pub(super) fn client_of(element: &[u8]) -> Option<IpAddr> {
    let mut client = None;
    let mut rest = Some(std::str::from_utf8(element).ok()?);
    while let Some(pairs) = rest {
        let pair = match last_outside_quotes(pairs.as_bytes(), b';') {
            Some(semicolon) => {
                rest = pairs.get(..semicolon);
                pairs.get(semicolon + 1..)?
            }
            None => rest.take()?,
        };
        let pair = pair.trim_matches([' ', '\t']);
        let Some((name, value)) = pair.split_once('=') else {
            if pair.is_empty() {
                continue;
            }
            return None;
        };
        if name.eq_ignore_ascii_case("for") && client.replace(value).is_some() {
            return None;
        }
    }
    address::parse(unquoted(client?)?)
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
    let mut quoted = false;
    text.iter().rposition(|byte| {
        quoted ^= *byte == b'"';
        *byte == wanted && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_for_is_read_whatever_stands_beside_it() {
        for (element, address) in [
            ("for=203.0.113.9", "203.0.113.9"),
            (" For=203.0.113.9;proto=https;by=10.0.0.1", "203.0.113.9"),
            ("proto=https; for=\"203.0.113.9:4711\"", "203.0.113.9"),
            ("for=\"[2001:db8::1]:4711\"", "2001:db8::1"),
            ("host=\"a,b;c\";FOR=203.0.113.9;", "203.0.113.9"),
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
}

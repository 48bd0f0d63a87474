//! Addresses as proxies write them.

use std::net::IpAddr;

/// Reads an address with what proxies put around it: spaces, a port, brackets, a zone. A v4-mapped address is made v4.
///
/// Anything else, such as `unknown` or a hidden name, is not read.
pub(super) fn parse(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    let host = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, after) = bracketed.split_once(']')?;
            let well_ended = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
            // Brackets are for version 6 alone.
            (well_ended && host.contains(':')).then_some(host)?
        }
        None => without_port(text)?,
    };
    let address: IpAddr = without_zone(host)?.parse().ok()?;
    Some(address.to_canonical())
}

/// Cuts the port off `203.0.113.9:80`. With more than one colon it is a bare address of version 6, which has no port.
fn without_port(text: &str) -> Option<&str> {
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => is_port(port).then_some(host),
        _ => Some(text),
    }
}

/// Cuts the zone off `fe80::1%eth0`: it means something on the machine that wrote it only.
fn without_zone(host: &str) -> Option<&str> {
    match host.split_once('%') {
        Some((address, zone)) => (address.contains(':') && !zone.is_empty()).then_some(address),
        None => Some(host),
    }
}

/// Says whether `text` is a port, or the hidden name of one (RFC 7239, section 6).
fn is_port(text: &str) -> bool {
    if let Some(hidden) = text.strip_prefix('_') {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        return !hidden.is_empty() && hidden.bytes().all(allowed);
    }
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proxies_write_is_read() {
        for (text, address) in [
            ("203.0.113.9", "203.0.113.9"),
            ("\t 203.0.113.9 ", "203.0.113.9"),
            ("203.0.113.9:65535", "203.0.113.9"),
            ("203.0.113.9:_hidden", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:80", "fe80::1"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("[::ffff:203.0.113.9]:80", "203.0.113.9"),
        ] {
            assert_eq!(parse(text), Some(address.parse().unwrap()), "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_not() {
        for text in [
            "",
            " ",
            "unknown",
            "_hidden",
            "203.0.113",
            "203.0.113.256",
            "0203.0.113.9",
            "203.0.113.9:",
            "203.0.113.9:x",
            "203.0.113.9:65536",
            "203.0.113.9:+80",
            "203.0.113.9:_",
            "203.0.113.9%eth0",
            "[203.0.113.9]",
            "[2001:db8::1",
            "[2001:db8::1]443",
            "[2001:db8::1]:x",
            "2001:db8::1]",
            "2001:db8::1%",
            "203.0.113.9 198.51.100.7",
            "localhost",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}

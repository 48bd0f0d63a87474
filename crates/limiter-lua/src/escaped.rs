//! From the bytes of a key to text that may stand between the braces of a name, and back.

/// How long the longest key is in base64, with its mark in front: no name needs more.
const LONGEST: usize = 342;
/// What base64 stands behind. No escaped byte begins so.
const IN_BASE64: &[u8] = b"%%";
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends `bytes` with each that does not stand for itself escaped; all of them as base64 if that gets too long.
pub(crate) fn escape(bytes: &[u8], text: &mut Vec<u8>) {
    let escaped = bytes.iter().filter(|byte| !stands_for_itself(**byte));
    if bytes.len() + 2 * escaped.count() > LONGEST {
        text.extend_from_slice(IN_BASE64);
        return to_base64(bytes, text);
    }
    for &byte in bytes {
        if stands_for_itself(byte) {
            text.push(byte);
        } else {
            text.extend_from_slice(&[b'%', hex_digit(byte >> 4), hex_digit(byte & 15)]);
        }
    }
}

/// Returns the bytes that [`escape`] writes as `text`; `None` if there are none such.
pub(crate) fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let bytes = match text.strip_prefix(IN_BASE64) {
        Some(text) => from_base64(text)?,
        None => from_percent(text)?,
    };
    // Each key has one name: what reads as a key but is not what it is called is no name of ours.
    let mut again = Vec::with_capacity(text.len());
    escape(&bytes, &mut again);
    (again == text).then_some(bytes)
}

fn from_percent(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex_value(*rest.next()?)? << 4 | hex_value(*rest.next()?)?,
            _ => byte,
        });
    }
    Some(bytes)
}

/// Six bits a letter; the last ones of a text are padded with zero bits.
fn to_base64(bytes: &[u8], text: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u32, 0);
    for &byte in bytes.iter().chain(&[0, 0]) {
        (bits, count) = (bits << 8 | u32::from(byte), count + 8);
        while count >= 6 {
            count -= 6;
            let letter = usize::try_from(bits >> count & 63).unwrap_or(0);
            text.extend(ALPHABET.get(letter));
        }
    }
    // Of the two bytes too many.
    let extra = (bytes.len() + 2) * 8 / 6 - (bytes.len() * 8).div_ceil(6);
    text.truncate(text.len() - extra);
}

fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::with_capacity(text.len()));
    for &letter in text {
        let six = ALPHABET.iter().position(|known| *known == letter)?;
        (bits, count) = (bits << 6 | u32::try_from(six).ok()?, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 255).ok()?);
        }
    }
    Some(bytes)
}

const fn stands_for_itself(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'@' | b'/' | b'=' | b'+')
}

const fn hex_digit(half: u8) -> u8 {
    match half {
        0..=9 => b'0' + half,
        _ => b'A' + half - 10,
    }
}

const fn hex_value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(bytes: &[u8]) -> String {
        let mut text = Vec::new();
        escape(bytes, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn short_keys_stay_readable_and_long_ones_short() {
        assert_eq!(escaped("grün".as_bytes()), "gr%C3%BCn");
        assert_eq!(escaped(&[b'a'; 255]), "a".repeat(255));
        assert_eq!(escaped(&[0; 114]), "%00".repeat(114));
        assert_eq!(escaped(&[0; 115]), format!("%%{}", "A".repeat(154)));
        assert_eq!(escaped(&[0xff; 255]).len(), LONGEST);
    }

    #[test]
    fn what_no_key_is_called_is_no_name() {
        for text in ["%", "%4", "%4g", "%61", "a:b", "%%YW5u", "%%?", "%3a"] {
            assert_eq!(unescape(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn prop_every_key_reads_back(bytes in prop::collection::vec(any::<u8>(), 1..=255)) {
            prop_assert_eq!(unescape(escaped(&bytes).as_bytes()), Some(bytes));
        }

        #[test]
        fn prop_base64_reads_back(bytes in prop::collection::vec(any::<u8>(), 0..=255)) {
            let mut text = Vec::new();
            to_base64(&bytes, &mut text);
            prop_assert_eq!(text.len(), (bytes.len() * 8).div_ceil(6));
            prop_assert_eq!(from_base64(&text), Some(bytes));
        }
    }
}

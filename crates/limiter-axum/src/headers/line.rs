//! [`Line`]: a structured field under way.

use http::HeaderValue;

/// A list of strings with parameters, as in RFC 9651. What one plan takes needs no memory of its own.
pub(super) struct Line {
    /// The member under way.
    member: [u8; ROOM],
    len: usize,
    /// The members before it.
    before: Vec<u8>,
}

/// For the longest name, and two parameters with the largest numbers.
const ROOM: usize = 128;

impl Line {
    pub(super) const fn new() -> Self {
        Self {
            member: [0; ROOM],
            len: 0,
            before: Vec::new(),
        }
    }

    /// Starts a member. A plan's name needs no escapes: letters, digits and `._-` alone.
    pub(super) fn begin_member(&mut self, name: &str) {
        if self.len > 0 {
            let finished = self.member.get(..self.len).unwrap_or_default();
            self.before.extend_from_slice(finished);
            self.before.extend_from_slice(b", ");
            self.len = 0;
        }
        self.push(b"\"");
        self.push(name.as_bytes());
        self.push(b"\"");
    }

    #[inline(never)]
    pub(super) fn push_parameter(&mut self, name: [u8; 3], number: u64) {
        self.push(&name);
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Nothing that is told is longer than the room.
    fn push(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        if let Some(place) = self.member.get_mut(self.len..end) {
            place.copy_from_slice(bytes);
            self.len = end;
        }
    }

    pub(super) fn into_value(mut self) -> Option<HeaderValue> {
        let last = self.member.get(..self.len).unwrap_or_default();
        if self.before.is_empty() {
            return HeaderValue::from_bytes(last).ok();
        }
        self.before.extend_from_slice(last);
        HeaderValue::from_bytes(&self.before).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn prop_lines_are_written_as_usual(
            members in prop::collection::vec(("[A-Za-z][A-Za-z0-9._-]{0,63}", any::<u64>(), any::<u64>()), 1..17),
        ) {
            let mut line = Line::new();
            for (name, first, second) in &members {
                line.begin_member(name);
                line.push_parameter(*b";r=", *first);
                line.push_parameter(*b";t=", *second);
            }
            let usual = members.iter().map(|(name, first, second)| format!("\"{name}\";r={first};t={second}"));
            let usual: Vec<_> = usual.collect();
            prop_assert_eq!(line.into_value().unwrap(), usual.join(", "));
        }
    }
}

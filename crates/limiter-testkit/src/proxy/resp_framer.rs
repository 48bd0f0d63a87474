/// Longest part of a line that says anything about lengths; text after it is skipped.
const LINE_MAX: usize = 32;
const NAME_MAX: usize = 64;

/// Finds where RESP2 and RESP3 messages begin and end in a stream of bytes, without keeping them.
///
/// A stream that is not RESP is one message without an end.
#[derive(Debug, Default)]
pub(super) struct RespFramer {
    inside: bool,
    opaque: bool,
    is_push: bool,
    line: Vec<u8>,
    /// Bytes left of a bulk string, its line end included.
    bulk_left: usize,
    /// Elements left of each aggregate that is open, the innermost last.
    elements_left: Vec<u64>,
    /// The first bulk string of the message, upper case: of a request, its command.
    name: String,
    name_left: usize,
    named: bool,
}

/// A piece of one message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) length: usize,
    pub(super) starts: bool,
    pub(super) ends: bool,
    pub(super) is_push: bool,
}

impl RespFramer {
    /// Takes bytes from the front up to the end of a message, or all of them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Segment {
        let starts = !self.inside && !bytes.is_empty();
        if starts {
            self.inside = true;
            self.is_push = bytes.first() == Some(&b'>');
            self.name.clear();
            self.named = false;
        }
        let (mut rest, mut ends) = (bytes, false);
        while !ends && let Some((byte, tail)) = rest.split_first() {
            if self.opaque {
                rest = &[];
            } else if self.bulk_left > 0 {
                let (payload, tail) = rest.split_at(rest.len().min(self.bulk_left));
                self.take_payload(payload);
                ends = self.bulk_left == 0 && self.element_done();
                rest = tail;
            } else {
                ends = *byte == b'\n' && self.line_done();
                if *byte != b'\n' && self.line.len() < LINE_MAX {
                    self.line.push(*byte);
                }
                rest = tail;
            }
        }
        self.inside = self.inside && !ends;
        Segment {
            length: bytes.len() - rest.len(),
            starts,
            ends,
            is_push: self.is_push,
        }
    }

    /// The first bulk string of the message that ended last; empty if it had none.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn take_payload(&mut self, payload: &[u8]) {
        self.bulk_left -= payload.len();
        let text = payload.len().min(self.name_left);
        self.name_left -= text;
        let room = NAME_MAX.saturating_sub(self.name.len());
        let shown = payload
            .iter()
            .take(text.min(room))
            .map(|byte| char::from(byte.to_ascii_uppercase()));
        self.name.extend(shown);
    }

    /// Acts on a whole line; true if the message ends with it.
    fn line_done(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let Some((kind, rest)) = line.split_first() else {
            return self.not_resp();
        };
        let length = str::from_utf8(rest)
            .ok()
            .and_then(|text| text.parse::<i64>().ok());
        match (kind, length) {
            (b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(', _) => self.element_done(),
            (b'$' | b'!' | b'=', Some(length)) => match usize::try_from(length) {
                Ok(length) => self.bulk_begins(length),
                Err(_) => self.element_done(),
            },
            (b'*' | b'~' | b'>', Some(length)) => self.aggregate_begins(length, 1),
            (b'%', Some(length)) => self.aggregate_begins(length, 2),
            (b'|', Some(length)) => self.attributes_begin(length),
            _ => self.not_resp(),
        }
    }

    fn bulk_begins(&mut self, length: usize) -> bool {
        self.bulk_left = length.saturating_add(2);
        self.name_left = if self.named { 0 } else { length };
        self.named = true;
        false
    }

    fn aggregate_begins(&mut self, length: i64, each: u64) -> bool {
        match u64::try_from(length) {
            Ok(length) if length > 0 => {
                self.elements_left.push(length.saturating_mul(each));
                false
            }
            _ => self.element_done(),
        }
    }

    /// Attributes are pairs that come before an element and are not one.
    fn attributes_begin(&mut self, length: i64) -> bool {
        let elements = u64::try_from(length).unwrap_or(0).saturating_mul(2);
        match self.elements_left.last_mut() {
            Some(left) => *left = left.saturating_add(elements),
            None => self.elements_left.push(elements.saturating_add(1)),
        }
        false
    }

    /// Counts an element off; true if it was the last one of the message.
    fn element_done(&mut self) -> bool {
        while let Some(left) = self.elements_left.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.elements_left.pop();
        }
        true
    }

    fn not_resp(&mut self) -> bool {
        self.opaque = true;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &[&[u8]] = &[
        b"+OK\r\n",
        b"-ERR a very long error text that goes on and on beyond what is kept of it\r\n",
        b":12\r\n",
        b"$-1\r\n",
        b"$0\r\n\r\n",
        b"$4\r\na\r\nb\r\n",
        b"*0\r\n",
        b"*-1\r\n",
        b"*2\r\n$7\r\nevalsha\r\n*1\r\n:1\r\n",
        b"*2\r\n*2\r\n:1\r\n:2\r\n*0\r\n",
        b"%1\r\n+k\r\n~2\r\n#t\r\n,1.5\r\n",
        b"|1\r\n+ttl\r\n:9\r\n*1\r\n|1\r\n+a\r\n_\r\n:1\r\n",
        b">2\r\n+message\r\n+x\r\n",
        b"=7\r\ntxt:abc\r\n",
    ];

    /// Lengths of the messages found in `wire`, which arrives in pieces of `size`.
    fn lengths(wire: &[u8], size: usize) -> Vec<usize> {
        let (mut framer, mut found, mut length) = (RespFramer::default(), Vec::new(), 0);
        for mut chunk in wire.chunks(size) {
            while !chunk.is_empty() {
                let segment = framer.take(chunk);
                assert_eq!(segment.starts, length == 0);
                length += segment.length;
                chunk = &chunk[segment.length..];
                if segment.ends {
                    found.push(std::mem::take(&mut length));
                }
            }
        }
        assert_eq!(length, 0, "nothing is left over");
        found
    }

    #[test]
    fn messages_end_where_they_end_however_they_are_cut() {
        let wire = MESSAGES.concat();
        let expected = MESSAGES
            .iter()
            .map(|message| message.len())
            .collect::<Vec<_>>();
        for size in [1, 2, 3, 7, wire.len()] {
            assert_eq!(lengths(&wire, size), expected, "pieces of {size}");
        }
    }

    #[test]
    fn command_is_the_first_word_of_a_request() {
        let mut framer = RespFramer::default();
        for byte in b"*2\r\n$7\r\nevalsha\r\n$3\r\nabc\r\n" {
            framer.take(&[*byte]);
        }
        assert_eq!(framer.name(), "EVALSHA");
        framer.take(b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(framer.name(), "PING");
    }

    #[test]
    fn pushes_are_told_from_replies() {
        let mut framer = RespFramer::default();
        assert!(framer.take(b">1\r\n+x\r\n").is_push);
        assert!(!framer.take(b"+x\r\n").is_push);
    }

    #[test]
    fn foreign_stream_is_one_endless_message() {
        let mut framer = RespFramer::default();
        let (first, second) = (framer.take(b"GET / HTTP/1.1\r\n"), framer.take(b"\r\n"));
        assert!(first.starts && !first.ends && first.length == 16);
        assert!(!second.starts && !second.ends && second.length == 2);
    }
}

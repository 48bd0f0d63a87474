use std::fmt;
use std::io::{self, BufRead};

/// A reply of a server, as RESP2 has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`.
    Status(String),
    /// `-ERR ...`, without the dash. At the top level it becomes [`ServerError::Refused`](super::ServerError::Refused).
    Error(String),
    /// `:1`.
    Int(i64),
    /// `$3 foo`.
    Bulk(Vec<u8>),
    /// A null bulk string or a null array.
    Nil,
    /// `*2 ...`.
    Array(Vec<Reply>),
}

impl Reply {
    /// The text of a status, an error or a bulk string; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Status(text) | Self::Error(text) => Some(text.clone()),
            Self::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Int(_) | Self::Nil | Self::Array(_) => None,
        }
    }

    /// The number, if the reply is one or is text that spells one.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            other => other.text()?.parse().ok(),
        }
    }

    /// The elements of an array; none for any other reply.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match self {
            Self::Array(items) => items,
            _ => &[],
        }
    }

    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.strip_suffix("\r\n").ok_or_else(|| malformed(&line))?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| malformed(line))?;
        let length = || rest.parse::<i64>().map_err(|_| malformed(line));
        match kind {
            "+" => Ok(Self::Status(rest.to_owned())),
            "-" => Ok(Self::Error(rest.to_owned())),
            ":" => length().map(Self::Int),
            "$" => {
                usize::try_from(length()?).map_or(Ok(Self::Nil), |length| read_bulk(from, length))
            }
            "*" => usize::try_from(length()?).map_or(Ok(Self::Nil), |length| {
                (0..length)
                    .map(|_| Self::read(from))
                    .collect::<io::Result<_>>()
                    .map(Self::Array)
            }),
            _ => Err(malformed(line)),
        }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Array(items) => f
                .debug_list()
                .entries(items.iter().map(Self::to_string))
                .finish(),
            other => f.write_str(&other.text().unwrap_or_else(|| "nil".to_owned())),
        }
    }
}

fn read_bulk(from: &mut impl BufRead, length: usize) -> io::Result<Reply> {
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    let mut end = [0; 2];
    from.read_exact(&mut end)?;
    if &end == b"\r\n" {
        Ok(Reply::Bulk(bytes))
    } else {
        Err(malformed("bulk string without an end"))
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not RESP2: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_reply_is_read_whole() {
        let mut wire: &[u8] = b"*4\r\n+OK\r\n:-7\r\n$3\r\na\r\n\r\n*1\r\n$-1\r\n";
        let reply = Reply::read(&mut wire).unwrap();
        let inner = Reply::Array(vec![Reply::Nil]);
        assert_eq!(
            reply.items(),
            [
                Reply::Status("OK".into()),
                Reply::Int(-7),
                Reply::Bulk(b"a\r\n".into()),
                inner
            ]
        );
        assert!(wire.is_empty());
    }

    #[test]
    fn broken_wire_is_an_error() {
        for wire in [
            "",
            "+OK",
            "\r\n",
            "?x\r\n",
            ":x\r\n",
            "$3\r\nabcde",
            "*2\r\n:1\r\n",
        ] {
            assert!(Reply::read(&mut wire.as_bytes()).is_err(), "{wire:?}");
        }
    }
}

//! [`ServerInfo`]: what `INFO` tells of a server.

use crate::runner::digits;

/// What `INFO` tells of a server, as far as a report needs it.
///
/// # Examples
/// ```
/// use limiter_lua::ServerInfo;
///
/// let info = ServerInfo::read("# Stats\r\nkeyspace_hits:3\r\nkeyspace_misses:1\r\n# Memory\r\nused_memory:1024\r\n");
/// assert_eq!((info.memory_bytes, info.hits, info.misses), (1024, 3, 1));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Bytes that the server's data takes.
    pub memory_bytes: u64,
    /// Reads that found a key.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
}

impl ServerInfo {
    /// Reads the text of `INFO`: lines of `name:value`. What it does not tell is 0.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let value = |name: &str| {
            let mut fields = text.lines().filter_map(|line| line.split_once(':'));
            let (_, value) = fields.find(|(field, _)| *field == name)?;
            digits(value.trim())
        };
        Self {
            memory_bytes: value("used_memory").unwrap_or(0),
            hits: value("keyspace_hits").unwrap_or(0),
            misses: value("keyspace_misses").unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn captures_of_servers_are_read() {
        let redis = "# Memory\r\nused_memory:1011176\r\nused_memory_human:987.48K\r\nused_memory_rss:9850880\r\n\r\n# Stats\r\n\
                     total_commands_processed:12\r\nkeyspace_hits:7\r\nkeyspace_misses:2\r\n";
        let info = ServerInfo::read(redis);
        assert_eq!(
            (info.memory_bytes, info.hits, info.misses),
            (1_011_176, 7, 2)
        );
        let valkey = "# Memory\nused_memory:867424\nmaxmemory:0\n# Stats\nkeyspace_hits:18446744073709551615\nkeyspace_misses:x\n";
        let info = ServerInfo::read(valkey);
        assert_eq!(
            (info.memory_bytes, info.hits, info.misses),
            (867_424, u64::MAX, 0)
        );
        assert_eq!(ServerInfo::read(""), ServerInfo::default());
    }

    proptest! {
        #[test]
        fn prop_no_text_makes_the_reader_panic(text in ".{0,200}") {
            let _ = ServerInfo::read(&text);
        }
    }
}

use std::collections::BTreeMap;

/// What has come to a proxy since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyCounts {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that are up now.
    pub open: u64,
    /// Whole requests received from clients, delivered or not.
    pub requests: u64,
    /// Whole replies received from the server, delivered or not.
    pub replies: u64,
    /// Bytes received from clients, delivered or not.
    pub request_bytes: u64,
    /// Bytes received from the server, delivered or not.
    pub reply_bytes: u64,
}

/// The counts, and requests by command.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: ProxyCounts,
    by_command: BTreeMap<String, u64>,
}

impl Tally {
    pub(super) fn request(&mut self, command: &str) {
        self.counts.requests += 1;
        *self.by_command.entry(command.to_owned()).or_default() += 1;
    }

    pub(super) fn requests_of(&self, command: &str) -> u64 {
        self.by_command
            .get(&command.to_ascii_uppercase())
            .copied()
            .unwrap_or(0)
    }
}

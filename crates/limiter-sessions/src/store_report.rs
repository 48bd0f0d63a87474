//! [`StoreReport`]: how full a store is.

/// How full a store is, and how well it serves. Counts are of a moment in which others go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreReport {
    /// Sessions that live.
    pub sessions: u64,
    /// Fingerprints that have a session.
    pub fingerprints: u64,
    /// Addresses that have signals.
    pub addresses: u64,
    /// Nonces that are remembered.
    pub nonces: u64,
    /// Whether everything was counted: `false` if there was more than was to be looked at, the time of the call was up, or a node
    /// could not be asked. The counts are too low then.
    pub is_complete: bool,
    /// Bytes that the store takes; of a server all that it holds, for others too.
    pub memory_bytes: u64,
    /// Reads that found something; of a server all reads, for others too.
    pub hits: u64,
    /// Reads that found nothing.
    pub misses: u64,
}

impl StoreReport {
    /// Returns the share of reads that found something, in parts per million; `None` if nothing was read.
    ///
    /// # Examples
    /// ```
    /// use limiter_sessions::StoreReport;
    ///
    /// let mut report = StoreReport::default();
    /// assert_eq!(report.hit_rate_ppm(), None);
    /// (report.hits, report.misses) = (3, 1);
    /// assert_eq!(report.hit_rate_ppm(), Some(750_000));
    /// ```
    #[must_use]
    pub fn hit_rate_ppm(&self) -> Option<u32> {
        let (hits, reads) = (
            u128::from(self.hits),
            u128::from(self.hits) + u128::from(self.misses),
        );
        let ppm = (hits * 1_000_000).checked_div(reads)?;
        u32::try_from(ppm).ok()
    }

    /// Adds what another part of the same store reports, such as another node of a cluster.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            sessions: self.sessions.saturating_add(other.sessions),
            fingerprints: self.fingerprints.saturating_add(other.fingerprints),
            addresses: self.addresses.saturating_add(other.addresses),
            nonces: self.nonces.saturating_add(other.nonces),
            is_complete: self.is_complete && other.is_complete,
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
            hits: self.hits.saturating_add(other.hits),
            misses: self.misses.saturating_add(other.misses),
        }
    }
}

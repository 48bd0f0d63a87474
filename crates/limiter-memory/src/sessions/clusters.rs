//! [`Clusters`]: fingerprints that belong together.

use std::collections::BTreeMap;

use limiter_core::{StoreError, Timestamp};
use limiter_sessions::{CLUSTER_MAX, Fingerprint, Label};

use super::expiring::Expiring;

/// Fingerprints that belong together, so many in all clusters at most.
pub(super) struct Clusters {
    by_label: BTreeMap<Label, Expiring<Fingerprint, ()>>,
    members: usize,
    max: usize,
}

impl Clusters {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            by_label: BTreeMap::new(),
            members: 0,
            max,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.members
    }

    /// Puts a fingerprint into a cluster; one too many pushes out that which would leave first.
    pub(super) fn join(
        &mut self,
        label: &Label,
        member: Fingerprint,
        end: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        if self.members >= self.max {
            self.sweep(now);
        }
        let is_full = self.members >= self.max;
        let cluster = self.by_label.entry(label.clone());
        let cluster = cluster.or_insert_with(|| Expiring::new(CLUSTER_MAX));
        let before = cluster.len();
        if !cluster.holds(&member) {
            if before >= CLUSTER_MAX {
                cluster.remove_first();
            } else if is_full {
                return Err(StoreError::Full { max_keys: self.max });
            }
        }
        let joined = cluster.put(member, (), end, now);
        self.members = self.members + cluster.len() - before;
        joined
    }

    /// Returns the fingerprints of a cluster, that which stays longest first.
    pub(super) fn members(&self, label: &Label, now: Timestamp) -> Vec<Fingerprint> {
        let cluster = self.by_label.get(label);
        cluster.map_or_else(Vec::new, |cluster| cluster.last_to_end(now).collect())
    }

    pub(super) fn sweep(&mut self, now: Timestamp) {
        self.by_label.retain(|_, cluster| {
            cluster.sweep(now);
            cluster.len() > 0
        });
        self.members = self.by_label.values().map(Expiring::len).sum();
    }
}

//! [`Expiring`]: entries that know when they end.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeBounds;
use std::time::Duration;

use limiter_core::{StoreError, Timestamp};

/// How long past its end an entry is left in its place: a clock that steps back by less meets the very entry that was there.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// How many entries that have ended are freed with each one that is written: more than one, so that none is left over.
const FREED_PER_WRITE: usize = 4;

/// Entries that know when they end, at most so many. What has ended is freed little by little, as others are written.
pub(super) struct Expiring<K, V> {
    entries: BTreeMap<K, (Timestamp, V)>,
    by_end: BTreeSet<(Timestamp, K)>,
    max: usize,
}

impl<K: Clone + Ord, V> Expiring<K, V> {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            by_end: BTreeSet::new(),
            max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the entry under `key`, if it has not ended.
    pub(super) fn get(&self, key: &K, now: Timestamp) -> Option<&V> {
        let (end, value) = self.entries.get(key)?;
        (now < *end).then_some(value)
    }

    /// Returns the entries of a range of keys that have not ended, each with its end.
    pub(super) fn range(
        &self,
        keys: impl RangeBounds<K>,
        now: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, &K, &V)> {
        let range = self.entries.range(keys);
        range.filter_map(move |(key, (end, value))| (now < *end).then_some((*end, key, value)))
    }

    /// Takes out the entry under `key`, if it has not ended.
    pub(super) fn take(&mut self, key: &K, now: Timestamp) -> Option<V> {
        self.get(key, now)?;
        let (end, value) = self.entries.remove(key)?;
        self.by_end.remove(&(end, key.clone()));
        Some(value)
    }

    /// Puts an entry in the place of what is there.
    ///
    /// # Errors
    /// [`StoreError::Full`] if it is new and there is no room, not even of one that has ended.
    pub(super) fn put(
        &mut self,
        key: K,
        value: V,
        end: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.free(FREED_PER_WRITE, now.saturating_sub(GRACE));
        if !self.entries.contains_key(&key) && self.entries.len() >= self.max {
            self.free(1, now);
            if self.entries.len() >= self.max {
                return Err(StoreError::Full { max_keys: self.max });
            }
        }
        if let Some((old_end, _)) = self.entries.insert(key.clone(), (end, value)) {
            self.by_end.remove(&(old_end, key.clone()));
        }
        self.by_end.insert((end, key));
        Ok(())
    }

    /// Returns whether there is an entry under `key`, be it that it has ended.
    pub(super) fn holds(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns the keys that have not ended, that which ends last first.
    pub(super) fn last_to_end(&self, now: Timestamp) -> impl Iterator<Item = K> {
        let living = self.by_end.iter().rev();
        let living = living.take_while(move |(end, _)| now < *end);
        living.map(|(_, key)| key.clone())
    }

    /// Removes the entry that ends first.
    pub(super) fn remove_first(&mut self) {
        if let Some((_, key)) = self.by_end.pop_first() {
            self.entries.remove(&key);
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some((end, _)) = self.entries.remove(key) {
            self.by_end.remove(&(end, key.clone()));
        }
    }

    /// Frees all that ended more than the grace ago.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        self.free(usize::MAX, now.saturating_sub(GRACE));
    }

    fn free(&mut self, count: usize, ended_by: Timestamp) {
        for _ in 0..count {
            match self.by_end.first() {
                Some((end, _)) if *end <= ended_by => self.remove_first(),
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000).unwrap()
    }

    #[test]
    fn a_full_one_takes_only_what_it_knows_or_the_place_of_what_ended() {
        let mut entries = Expiring::new(2);
        entries.put(1, 'a', at(10), at(0)).unwrap();
        entries.put(2, 'b', at(20), at(0)).unwrap();
        assert!(matches!(
            entries.put(3, 'c', at(30), at(9)),
            Err(StoreError::Full { max_keys: 2 })
        ));
        entries.put(2, 'B', at(25), at(9)).unwrap();
        entries.put(3, 'c', at(30), at(10)).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries.get(&1, at(5)), None);
        assert_eq!(
            (entries.get(&2, at(24)), entries.get(&2, at(25))),
            (Some(&'B'), None)
        );
    }

    #[test]
    fn what_ended_is_freed_as_others_are_written() {
        let mut entries = Expiring::new(1000);
        for key in 0..100 {
            entries.put(key, (), at(10), at(0)).unwrap();
        }
        for key in 100..150 {
            entries.put(key, (), at(100), at(20)).unwrap();
        }
        assert_eq!(entries.len(), 50);
    }
}

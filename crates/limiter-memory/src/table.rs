//! [`Table`]: fingerprints to entries, in one flat allocation.

use crate::entry::Entry;
use crate::fingerprint::Fingerprint;
use crate::pages::{PAGE, Pages};

/// An open-addressing table in the order of its fingerprints, with gaps.
///
/// A fingerprint's *home* is its place scaled to the number of homes, so homes ascend as fingerprints do. Each run of
/// neighbours is sorted: a search ends at the first slot that is not smaller, an insertion shifts the rest of a run up, a
/// removal shifts it back down, and no tombstone stays. A rebuild is one pass from front to back. There is no wrapping
/// round: the last homes spill into a tail.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Table {
    pages: Pages,
    homes: usize,
    occupied: usize,
}

/// A fingerprint, place first, and an entry, whose bits come right behind those of the fingerprint; all zero if vacant.
pub(crate) type Slot = [u64; 4];

const VACANT: Slot = [0; 4];

/// Of a hundred homes, how many may be taken before the table grows.
const MAX_LOAD: usize = 85;
/// Of a hundred homes, how many are taken after the table shrank: what growing by a fifth leaves of the greatest load.
const LOAD_AFTER_SHRINKING: usize = 70;
/// Of a hundred homes, how few are taken when the table shrinks.
const MIN_LOAD: usize = 30;
/// The last slots are no homes, and neither is one in so many others.
const TAIL: usize = 8;
const SLOTS_PER_TAIL_SLOT: usize = 32;

impl Table {
    /// Returns how many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.occupied
    }

    /// Returns all slots.
    #[inline]
    pub(crate) fn slots(&self) -> &[Slot] {
        self.pages.words().as_chunks().0
    }

    /// Returns the slot of `key`.
    #[inline]
    pub(crate) fn slot_of(&mut self, key: Fingerprint) -> Option<&mut Slot> {
        let home = home(key.place, self.homes);
        let run = self.slots_mut().get_mut(home..)?;
        let not_smaller = |slot: &&mut Slot| is_vacant(slot) || fingerprint(slot) >= key;
        let slot = run.iter_mut().find(not_smaller)?;
        (fingerprint(slot) == key).then_some(slot)
    }

    /// Returns where the entry of `key` is, and the entry.
    #[inline]
    pub(crate) fn find(&self, key: Fingerprint) -> Option<(usize, Entry)> {
        let index = self.lower_bound(key);
        let slot = self.slots().get(index)?;
        (fingerprint(slot) == key).then(|| (index, entry(slot)))
    }

    /// Returns all slots with their numbers, from the home of `key` on and round to it again.
    pub(crate) fn slots_from_home(&self, key: Fingerprint) -> impl Iterator<Item = (usize, &Slot)> {
        let home = home(key.place, self.homes);
        let slots = || self.slots().iter().enumerate();
        slots().skip(home).chain(slots().take(home))
    }

    /// Replaces the entry in a slot that is not vacant.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, new: Entry) {
        if let Some(slot) = self.slots_mut().get_mut(index) {
            set_entry(slot, new);
        }
    }

    /// Replaces all entries by what `replace` makes of them.
    pub(crate) fn replace_all(&mut self, replace: &mut dyn FnMut(Entry) -> Entry) {
        for slot in self.slots_mut().iter_mut().filter(|slot| !is_vacant(slot)) {
            set_entry(slot, replace(entry(slot)));
        }
    }

    /// Adds an entry under a fingerprint that has none, growing if need be.
    pub(crate) fn insert(&mut self, key: Fingerprint, new: Entry) {
        if self.occupied * 100 >= self.homes * MAX_LOAD {
            self.grow();
        }
        let mut index = self.lower_bound(key);
        while !self.open_gap(index) {
            self.grow();
            index = self.lower_bound(key);
        }
        if let Some(slot) = self.slots_mut().get_mut(index) {
            *slot = [key.place, key.rest, 0, 0];
            set_entry(slot, new);
            self.occupied += 1;
        }
    }

    /// Removes the entry in a slot; the next one of its run moves there.
    pub(crate) fn remove_at(&mut self, index: usize) {
        let homes = self.homes;
        let Some(rest) = self.slots_mut().get_mut(index..) else {
            return;
        };
        let stays = |(at, slot): (usize, &Slot)| {
            at > index && (is_vacant(slot) || home(slot[0], homes) == at)
        };
        let end = (index..).zip(rest.iter()).position(stays);
        let end = end.unwrap_or(rest.len());
        if let Some(run) = rest.get_mut(..end) {
            run.rotate_left(1);
            if let Some(last) = run.last_mut() {
                *last = VACANT;
                self.occupied -= 1;
            }
        }
    }

    /// Gives memory back if most homes are vacant. The entries must be spread evenly: a smaller table has not enough homes
    /// for many neighbours.
    pub(crate) fn shrink(&mut self) {
        if self.occupied == 0 {
            *self = Self::default();
        } else if self.occupied * 100 < self.homes * MIN_LOAD {
            let homes = self.occupied * 100 / LOAD_AFTER_SHRINKING;
            let count = TAIL + homes + homes / (SLOTS_PER_TAIL_SLOT - 1);
            if pages_for(count) < pages_for(self.slots().len()) {
                self.rebuild(count);
            }
        }
    }

    fn grow(&mut self) {
        self.rebuild(self.slots().len() * 6 / 5 + 1);
    }

    /// Moves all entries to a table with at least `count` slots.
    fn rebuild(&mut self, count: usize) {
        let mut new = Self {
            pages: Pages::zeroed(pages_for(count)),
            ..Self::default()
        };
        let slots = new.pages.words_mut().as_chunks_mut().0;
        new.homes = slots
            .len()
            .saturating_sub(TAIL + slots.len() / SLOTS_PER_TAIL_SLOT);
        let mut next = 0;
        for slot in self.slots().iter().filter(|slot| !is_vacant(slot)) {
            let index = home(slot[0], new.homes).max(next);
            let Some(place) = slots.get_mut(index) else {
                return self.rebuild(count * 6 / 5 + 1);
            };
            *place = *slot;
            next = index + 1;
        }
        new.occupied = self.occupied;
        *self = new;
    }

    /// Returns the first slot, from the home of `key` on, that is vacant or not smaller.
    #[inline]
    fn lower_bound(&self, key: Fingerprint) -> usize {
        let home = home(key.place, self.homes);
        let run = self.slots().get(home..).unwrap_or_default();
        let not_smaller = |slot: &Slot| is_vacant(slot) || fingerprint(slot) >= key;
        home + run.iter().position(not_smaller).unwrap_or(run.len())
    }

    /// Makes a slot vacant by shifting its run; `false` if the tail is full.
    fn open_gap(&mut self, index: usize) -> bool {
        let Some(rest) = self.slots_mut().get_mut(index..) else {
            return false;
        };
        let Some(gap) = rest.iter().position(is_vacant) else {
            return false;
        };
        if let Some(run) = rest.get_mut(..=gap) {
            run.rotate_right(1);
        }
        true
    }

    #[inline]
    fn slots_mut(&mut self) -> &mut [Slot] {
        self.pages.words_mut().as_chunks_mut().0
    }
}

/// Returns the entry in a slot, unless it is vacant.
pub(crate) fn held(slot: &Slot) -> Option<Entry> {
    (!is_vacant(slot)).then(|| entry(slot))
}

fn pages_for(slots: usize) -> usize {
    (slots * size_of::<Slot>()).div_ceil(PAGE)
}

#[inline]
fn fingerprint(&[place, rest, ..]: &Slot) -> Fingerprint {
    Fingerprint {
        place,
        rest: rest & Entry::FREE_MASK,
    }
}

#[inline]
pub(crate) fn entry(&[_, words @ ..]: &Slot) -> Entry {
    Entry::from_words(words)
}

/// Replaces the entry in a slot that is not vacant.
#[inline]
pub(crate) fn set_entry([_, rest, since, until]: &mut Slot, new: Entry) {
    let words = new.to_words();
    *rest = *rest & Entry::FREE_MASK | words[0];
    [*since, *until] = [words[1], words[2]];
}

#[inline]
fn is_vacant(slot: &Slot) -> bool {
    slot[0] == 0
}

#[inline]
fn home(place: u64, homes: usize) -> usize {
    let scaled = (u128::from(place) * homes as u128) >> 64;
    usize::try_from(scaled).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Few places, so that runs are long and the tail fills.
    fn keys() -> impl Strategy<Value = Fingerprint> {
        let places = prop_oneof![1..4_u64, Just(u64::MAX), (1..64_u64).prop_map(|n| n << 58)];
        (places, 0..64_u64).prop_map(|(place, rest)| Fingerprint {
            place,
            rest: rest << 58,
        })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Fingerprint),
        Remove(Fingerprint),
        Shrink,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => keys().prop_map(Step::Insert),
            4 => keys().prop_map(Step::Remove),
            1 => Just(Step::Shrink),
        ];
        proptest::collection::vec(step, 0..600)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn prop_a_table_is_a_sorted_map(steps in steps()) {
            let (mut table, mut model) = (Table::default(), BTreeMap::new());
            for (nth, step) in (0..).zip(steps) {
                match step {
                    Step::Insert(key) => {
                        let new = Entry::of_box(nth, nth);
                        match table.slot_of(key) {
                            Some(slot) => set_entry(slot, new),
                            None => table.insert(key, new),
                        }
                        model.insert(key, new);
                    }
                    Step::Remove(key) => {
                        let found = table.find(key);
                        prop_assert_eq!(found.map(|(_, entry)| entry), model.remove(&key));
                        if let Some((index, _)) = found {
                            table.remove_at(index);
                        }
                    }
                    Step::Shrink => table.shrink(),
                }
                let slots = table.slots().iter().filter(|slot| !is_vacant(slot));
                let held: Vec<_> = slots.map(|slot| (fingerprint(slot), entry(slot))).collect();
                prop_assert_eq!(table.len(), held.len());
                prop_assert!(held.into_iter().eq(model.clone()));
                for (key, entry) in &model {
                    prop_assert_eq!(table.find(*key).map(|(_, found)| found), Some(*entry));
                }
            }
        }
    }

    #[test]
    fn a_slot_takes_32_bytes_so_that_none_lies_in_two_cache_lines() {
        assert_eq!(size_of::<Slot>(), 32);
    }

    #[test]
    fn a_key_takes_at_most_52_bytes_from_a_thousand_a_table_on() {
        let mut table = Table::default();
        let mut random = fastrand::Rng::with_seed(7);
        for keys in 1..=20_000 {
            let (place, rest) = (random.u64(1..), random.u64(..) & Entry::FREE_MASK);
            table.insert(Fingerprint { place, rest }, Entry::of_box(0, 0));
            let bytes = pages_for(table.slots().len()) * PAGE;
            assert!(
                keys < 1_000 || bytes <= 52 * keys,
                "{bytes} bytes for {keys} keys"
            );
        }
    }

    #[test]
    fn an_emptied_table_holds_no_memory() {
        let mut table = Table::default();
        for place in 1..1000 {
            let key = Fingerprint {
                place: place << 54,
                rest: 0,
            };
            table.insert(key, Entry::of_box(0, 0));
        }
        while table.len() > 0 {
            let first = table.slots().iter().position(|slot| !is_vacant(slot));
            table.remove_at(first.unwrap());
        }
        table.shrink();
        assert!(table.slots().is_empty());
    }
}

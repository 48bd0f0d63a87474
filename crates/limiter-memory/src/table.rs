//! [`Table`]: fingerprints to entries, in one flat allocation.

use crate::fingerprint::Fingerprint;

/// What a table keeps for a key.
pub(crate) trait Entry {
    /// Nothing, as vacant slots have it.
    const NONE: Self;

    /// Returns the microsecond since the epoch from which on nothing in the entry means anything.
    fn expires_at_us(&self) -> u64;
}

/// An open-addressing table in the order of its fingerprints, with gaps.
///
/// A fingerprint's *home* is its place scaled to the number of homes, so homes ascend as fingerprints do. Each run of
/// neighbours is sorted: a search ends at the first slot that is not smaller, an insertion shifts the rest of a run up, a
/// removal shifts it back down, and no tombstone stays. A rebuild is one pass from front to back. There is no wrapping
/// round: the last homes spill into a tail.
pub(crate) struct Table<E> {
    slots: Vec<Slot<E>>,
    homes: usize,
    occupied: usize,
}

/// One place in a [`Table`].
pub(crate) struct Slot<E> {
    fingerprint: Fingerprint,
    entry: E,
}

impl<E> Default for Table<E> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            homes: 0,
            occupied: 0,
        }
    }
}

impl<E: Entry> Slot<E> {
    const VACANT: Self = Self {
        fingerprint: Fingerprint::VACANT,
        entry: E::NONE,
    };

    /// Returns what is in the slot, unless it is vacant.
    pub(crate) fn entry(&self) -> Option<&E> {
        (!self.is_vacant()).then_some(&self.entry)
    }

    fn is_vacant(&self) -> bool {
        self.fingerprint == Fingerprint::VACANT
    }
}

/// Of a hundred homes, how many may be taken before the table grows.
const MAX_LOAD: usize = 85;
/// Of a hundred homes, how many are taken after the table shrank: what growing by a fifth leaves of the greatest load.
const LOAD_AFTER_SHRINKING: usize = 70;
/// Of a hundred homes, how few are taken when the table shrinks.
const MIN_LOAD: usize = 30;
/// The fewest homes by which a table grows.
const MIN_GROWTH: usize = 8;

impl<E: Entry> Table<E> {
    /// Returns how many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.occupied
    }

    /// Returns how many slots are allocated.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get_mut(&mut self, fingerprint: Fingerprint) -> Option<&mut E> {
        let index = self.lower_bound(fingerprint);
        self.slots
            .get_mut(index)
            .filter(|slot| slot.fingerprint == fingerprint)
            .map(|slot| &mut slot.entry)
    }

    /// Returns the slot at `index`, or `None` beyond the last.
    pub(crate) fn at(&self, index: usize) -> Option<&Slot<E>> {
        self.slots.get(index)
    }

    /// Returns all entries.
    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.slots
            .iter_mut()
            .filter(|slot| !slot.is_vacant())
            .map(|slot| &mut slot.entry)
    }

    /// Adds an entry under a fingerprint that has none, growing if need be.
    pub(crate) fn insert(&mut self, fingerprint: Fingerprint, entry: E) {
        if self.occupied * 100 >= self.homes * MAX_LOAD {
            self.grow();
        }
        let mut index = self.lower_bound(fingerprint);
        while !self.open_gap(index) {
            self.grow();
            index = self.lower_bound(fingerprint);
        }
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Slot { fingerprint, entry };
            self.occupied += 1;
        }
    }

    /// Removes the entry of `fingerprint`, if it has one, and says where it was.
    pub(crate) fn remove(&mut self, fingerprint: Fingerprint) -> Option<usize> {
        let index = self.lower_bound(fingerprint);
        let found = self.slots.get(index)?.fingerprint == fingerprint;
        found.then(|| self.remove_at(index)).map(|()| index)
    }

    /// Removes the entry at `index`; the next one of its run moves there.
    pub(crate) fn remove_at(&mut self, index: usize) {
        let homes = self.homes;
        let Some(rest) = self.slots.get_mut(index..) else {
            return;
        };
        let stays = |(at, slot): (usize, &Slot<E>)| {
            at > index && (slot.is_vacant() || home(slot.fingerprint, homes) == at)
        };
        let end = (index..).zip(rest.iter()).position(stays);
        let end = end.unwrap_or(rest.len());
        if let Some(run) = rest.get_mut(..end) {
            run.rotate_left(1);
            if let Some(last) = run.last_mut() {
                *last = Slot::VACANT;
                self.occupied -= 1;
            }
        }
    }

    /// Gives memory back if most homes are vacant.
    pub(crate) fn shrink(&mut self) {
        let sparse = self.homes > MIN_GROWTH && self.occupied * 100 < self.homes * MIN_LOAD;
        if sparse || (self.occupied == 0 && self.homes > 0) {
            self.rebuild(self.occupied * 100 / LOAD_AFTER_SHRINKING);
        }
    }

    fn grow(&mut self) {
        self.rebuild(self.homes + (self.homes / 5).max(MIN_GROWTH));
    }

    /// Moves all entries to a table with `homes` homes.
    fn rebuild(&mut self, homes: usize) {
        let tail = if homes == 0 {
            0
        } else {
            MIN_GROWTH + homes / 32
        };
        let mut slots = Vec::with_capacity(homes + tail);
        for slot in std::mem::take(&mut self.slots) {
            if !slot.is_vacant() {
                let home = home(slot.fingerprint, homes);
                slots.resize_with(slots.len().max(home), || Slot::VACANT);
                slots.push(slot);
            }
        }
        slots.resize_with(slots.len().max(homes + tail), || Slot::VACANT);
        self.slots = slots;
        self.homes = homes;
    }

    /// Returns the first slot, from the home of `fingerprint` on, that is not smaller.
    fn lower_bound(&self, fingerprint: Fingerprint) -> usize {
        let home = home(fingerprint, self.homes);
        let run = self.slots.get(home..).unwrap_or_default();
        let smaller = run
            .iter()
            .position(|slot| slot.fingerprint >= fingerprint)
            .unwrap_or(run.len());
        home + smaller
    }

    /// Makes the slot at `index` vacant by shifting its run; `false` if the tail is full.
    fn open_gap(&mut self, index: usize) -> bool {
        let Some(rest) = self.slots.get_mut(index..) else {
            return false;
        };
        let Some(gap) = rest.iter().position(Slot::is_vacant) else {
            return false;
        };
        if let Some(run) = rest.get_mut(..=gap) {
            run.rotate_right(1);
        }
        true
    }
}

fn home(fingerprint: Fingerprint, homes: usize) -> usize {
    let scaled = (u128::from(fingerprint.place) * homes as u128) >> 64;
    usize::try_from(scaled).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan_entry::PlanEntry;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Few places, so that runs are long and the tail fills.
    fn fingerprints() -> impl Strategy<Value = Fingerprint> {
        let places = prop_oneof![
            0..4_u64,
            Just(u64::MAX - 1),
            (0..64_u64).prop_map(|bits| bits << 58)
        ];
        (places, 0..64_u64).prop_map(|(place, rest)| Fingerprint { place, rest })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Fingerprint),
        Remove(Fingerprint),
        RemoveAt(usize),
        Shrink,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => fingerprints().prop_map(Step::Insert),
            4 => fingerprints().prop_map(Step::Remove),
            2 => (0..100_usize).prop_map(Step::RemoveAt),
            1 => Just(Step::Shrink),
        ];
        proptest::collection::vec(step, 0..400)
    }

    fn apply(table: &mut Table<PlanEntry>, model: &mut BTreeSet<Fingerprint>, step: &Step) {
        match *step {
            Step::Insert(key) => {
                if model.insert(key) {
                    table.insert(key, PlanEntry::NONE);
                }
            }
            Step::Remove(key) => {
                model.remove(&key);
                table.remove(key);
            }
            Step::RemoveAt(index) => {
                let key = table.at(index).filter(|slot| !slot.is_vacant());
                if let Some(key) = key.map(|slot| slot.fingerprint) {
                    model.remove(&key);
                    table.remove_at(index);
                }
            }
            Step::Shrink => table.shrink(),
        }
    }

    proptest! {
        #[test]
        fn prop_a_table_is_a_sorted_map(steps in steps()) {
            let (mut table, mut model) = (Table::default(), BTreeSet::new());
            for step in &steps {
                apply(&mut table, &mut model, step);
                let held: Vec<_> = table.slots.iter().filter(|slot| !slot.is_vacant()).collect();
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(held.iter().map(|slot| &slot.fingerprint).eq(&model));
                for key in &model {
                    prop_assert!(table.get_mut(*key).is_some());
                }
            }
        }
    }

    #[test]
    fn a_slot_takes_40_bytes() {
        assert_eq!(size_of::<Slot<PlanEntry>>(), 40);
    }

    #[test]
    fn a_key_takes_at_most_64_bytes_at_any_size() {
        let mut table = Table::default();
        let mut random = fastrand::Rng::with_seed(7);
        for keys in 1..=20_000 {
            let (place, rest) = (random.u64(..u64::MAX), random.u64(..));
            table.insert(Fingerprint { place, rest }, PlanEntry::NONE);
            let bytes = table.slots() * size_of::<Slot<PlanEntry>>();
            assert!(
                keys < 500 || bytes <= 64 * keys,
                "{bytes} bytes for {keys} keys"
            );
        }
    }

    #[test]
    fn an_emptied_table_holds_no_memory() {
        let mut table = Table::default();
        let keys = (0..1000).map(|place| Fingerprint {
            place: place << 54,
            rest: 0,
        });
        keys.clone()
            .for_each(|key| table.insert(key, PlanEntry::NONE));
        for key in keys {
            assert!(table.remove(key).is_some());
        }
        table.shrink();
        assert_eq!(table.slots.capacity(), 0);
    }
}

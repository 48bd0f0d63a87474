//! [`Boxes`]: the states of keys that have more than an entry takes.

use crate::entry::Entry;
use crate::kept::Kept;

/// Numbered boxes of states. Numbers of boxes that are gone are given out again.
#[derive(Default)]
pub(crate) struct Boxes {
    boxes: Vec<Box<[Kept]>>,
    free: Vec<u64>,
}

impl Boxes {
    /// Keeps `kept`, and returns the entry that refers to it.
    pub(crate) fn insert(&mut self, kept: Box<[Kept]>) -> Entry {
        let expires_at_us = kept.iter().map(Kept::expires_at_us).max();
        let nth = self.free.pop().unwrap_or(self.boxes.len() as u64);
        match index(nth).and_then(|index| self.boxes.get_mut(index)) {
            Some(place) => *place = kept,
            None => self.boxes.push(kept),
        }
        Entry::of_box(nth, expires_at_us.unwrap_or(0))
    }

    /// Returns what is in a box.
    pub(crate) fn get_mut(&mut self, nth: u64) -> &mut [Kept] {
        let found = index(nth).and_then(|index| self.boxes.get_mut(index));
        found.map_or(&mut [], |kept| kept)
    }

    /// Empties a box.
    pub(crate) fn remove(&mut self, nth: u64) -> Box<[Kept]> {
        let found = index(nth).and_then(|index| self.boxes.get_mut(index));
        let kept = found.map(std::mem::take).unwrap_or_default();
        self.free.push(nth);
        if self.free.len() == self.boxes.len() {
            *self = Self::default();
        }
        kept
    }
}

fn index(nth: u64) -> Option<usize> {
    usize::try_from(nth).ok()
}

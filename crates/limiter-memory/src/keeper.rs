//! [`Keeper`]: turns the states of a key into an entry, and back.

use limiter_core::{BucketRule, Plan, PlanName, Timestamp};

use crate::boxes::Boxes;
use crate::entry::Entry;
use crate::kept::{Kept, States, fill, named, take_live};
use crate::origins::{Kind, OriginId, Origins, kind_of};

/// What the entries of one shard refer to: the origins of the states in them, and boxes for all that they do not hold.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Keeper {
    origins: Origins,
    boxes: Boxes,
}

/// How states are taken back after a decision.
pub(crate) enum Settled {
    /// They go where they were.
    InPlace(Entry),
    /// They do not fit there: this is all there is now, and the old entry is gone.
    Anew(Vec<Kept>),
}

impl Keeper {
    /// Keeps `kept` as small as it goes; `None` if it is empty.
    pub(crate) fn pack(&mut self, kept: Vec<Kept>) -> Option<Entry> {
        match kept.as_slice() {
            [] => None,
            [one] if let Some(entry) = self.pack_one(one) => Some(entry),
            _ => Some(self.boxes.insert(kept.into_boxed_slice())),
        }
    }

    /// Turns an entry into a list; what it referred to is freed.
    pub(crate) fn unpack(&mut self, entry: Entry) -> Vec<Kept> {
        if let Some(nth) = entry.nth_box() {
            return self.boxes.remove(nth).into_vec();
        }
        let origin = entry.origin().and_then(|origin| self.origins.get(origin));
        let kept = origin.map(|origin| Kept {
            name: origin.name.clone(),
            state: entry.state(origin.kind),
        });
        kept.into_iter().collect()
    }

    /// Frees what an entry refers to.
    pub(crate) fn free(&mut self, entry: Entry) {
        if let Some(nth) = entry.nth_box() {
            self.boxes.remove(nth);
        }
    }

    /// Returns whether there is a state, live or not, for each of `plans`.
    pub(crate) fn has_all(&mut self, entry: Entry, plans: &[Plan]) -> bool {
        match (entry.nth_box(), plans) {
            (Some(nth), plans) => {
                let kept = self.boxes.get_mut(nth);
                plans
                    .iter()
                    .all(|plan| kept.iter().any(|kept| kept.name == *plan.name()))
            }
            (None, [plan]) => self.kind_for(entry, plan).is_some(),
            (None, _) => false,
        }
    }

    /// Hands out the states of `plans` that mean something at `now`.
    pub(crate) fn take(&mut self, entry: Entry, plans: &[Plan], now: Timestamp) -> States {
        if let Some(nth) = entry.nth_box() {
            return take_live(self.boxes.get_mut(nth), plans, now);
        }
        let live = entry.expires_at_us() > now.as_micros();
        let take = |plan| {
            let (_, kind) = self.kind_for(entry, plan)?;
            live.then(|| entry.state(kind)).flatten()
        };
        plans.iter().map(take).collect()
    }

    /// Takes the states of `plans` back, after a decision at `now`.
    pub(crate) fn put_back(
        &mut self,
        entry: Entry,
        plans: &[Plan],
        mut states: States,
        now: Timestamp,
    ) -> Settled {
        if let Some(nth) = entry.nth_box() {
            let kept = self.boxes.get_mut(nth);
            if fill(kept, plans, &mut states) {
                let expires_at_us = kept.iter().map(Kept::expires_at_us).max();
                return Settled::InPlace(Entry::of_box(nth, expires_at_us.unwrap_or(0)));
            }
        } else if let ([plan], [Some(state)]) = (plans, states.as_slice())
            && let Some((origin, kind)) = self.kind_for(entry, plan)
            && kind_of(state) == Some(kind)
            && let Some(entry) = Entry::of_state(state, origin)
        {
            return Settled::InPlace(entry);
        }
        let was_in_hand = entry.nth_box().is_none() && entry.expires_at_us() > now.as_micros();
        let mut kept = self.unpack(entry);
        if was_in_hand {
            kept.retain(|kept| plans.iter().all(|plan| *plan.name() != kept.name));
        } else {
            fill(&mut kept, plans, &mut states);
        }
        kept.retain(|kept| kept.state.is_some());
        kept.extend(named(plans, states));
        Settled::Anew(kept)
    }

    /// Returns how to read an entry, and the name of that, if it is a state of `plan`.
    #[inline]
    pub(crate) fn kind_for(&self, entry: Entry, plan: &Plan) -> Option<(OriginId, Kind)> {
        let id = entry.origin()?;
        let origin = self.origins.get(id)?;
        (origin.name == *plan.name()).then_some((id, origin.kind))
    }

    /// Returns the origin of an entry, if it is a bucket of the plan of that name and refills as `rule` says.
    #[inline]
    pub(crate) fn origin_of_bucket(
        &self,
        entry: Entry,
        name: &PlanName,
        rule: &BucketRule,
    ) -> Option<OriginId> {
        let id = entry.origin()?;
        let origin = self.origins.get(id)?;
        (origin.kind == Kind::Bucket(rule.rate()) && origin.name == *name).then_some(id)
    }

    /// Forgets the origins that no entry refers to, if they have become many; `rename` goes through all entries.
    pub(crate) fn collect_origins(&mut self, rename: impl FnOnce(&mut dyn FnMut(Entry) -> Entry)) {
        if self.origins.is_crowded() {
            let old = std::mem::take(&mut self.origins);
            rename(&mut |entry| {
                let origin = entry.origin().and_then(|origin| old.get(origin));
                let new = origin.and_then(|origin| self.origins.intern(&origin.name, origin.kind));
                new.map_or(entry, |new| entry.with_origin(new))
            });
        }
    }

    fn pack_one(&mut self, kept: &Kept) -> Option<Entry> {
        let state = kept.state.as_ref()?;
        let origin = self.origins.intern(&kept.name, kind_of(state)?)?;
        Entry::of_state(state, origin)
    }
}

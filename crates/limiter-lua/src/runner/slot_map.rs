//! [`SlotMap`]: the nodes of a cluster that are known, and which of them serves which slots.

use std::mem;
use std::time::Instant;

use super::member::Member;
use super::{Driver, Node};

/// The nodes of a cluster that are known, and which of them serves which slots.
#[derive(Debug)]
pub(super) struct SlotMap<D: Driver> {
    pub(super) members: Vec<Member<D>>,
    /// Those that no slot was known of when the slots were last asked for. They come back with
    /// their attempts to connect.
    pub(super) retired: Vec<Member<D>>,
    /// For each slot, which of the members serves it; empty if nothing is known yet.
    pub(super) owners: Vec<Option<u16>>,
    /// Whether every node that serves slots is known.
    pub(super) is_complete: bool,
    /// When seeds that serve no slot may be asked again, once some other node is known.
    pub(super) seeds_again_at: Option<Instant>,
}

impl<D: Driver> SlotMap<D> {
    pub(super) fn owner_of(&self, slot: u16) -> Option<&Member<D>> {
        let owner = self.owners.get(usize::from(slot)).copied().flatten()?;
        self.members.get(usize::from(owner))
    }

    pub(super) fn position(&self, node: &Node) -> Option<usize> {
        self.members.iter().position(|member| member.node == *node)
    }

    /// Retires the members that serve no slot; returns those that had retired before.
    pub(super) fn retire_idle(&mut self) -> Vec<Member<D>> {
        let mut serves = vec![false; self.members.len()];
        for owner in self.owners.iter().flatten() {
            if let Some(serves) = serves.get_mut(usize::from(*owner)) {
                *serves = true;
            }
        }
        let (mut kept, mut retired, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for (member, serves) in self.members.drain(..).zip(serves) {
            places.push(u16::try_from(kept.len()).ok());
            if serves {
                kept.push(member);
            } else {
                retired.push(member);
            }
        }
        for owner in &mut self.owners {
            *owner = owner.and_then(|nth| places.get(usize::from(nth)).copied().flatten());
        }
        self.members = kept;
        mem::replace(&mut self.retired, retired)
    }
}

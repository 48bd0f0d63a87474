//! [`Fingerprint`]: 128 keyed bits that stand for a key.

use limiter_core::{Key, PlanName};
use smallvec::SmallVec;

use crate::sip_hash::SipHash;

/// 128 bits of a key under the secret of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint {
    /// Says where the key lives: its low bits in which shard, its high bits where in the shard's table. Never zero.
    pub(crate) place: u64,
    pub(crate) rest: u64,
}

/// A fingerprint of which the rest is still to be worked out.
///
/// The place is all it takes to find the shard. To lock that is a wait for memory, during which the processor has time to
/// work out the rest.
pub(crate) struct Half {
    pub(crate) place: u64,
    hash: SipHash,
}

/// The random secret of one store: who does not know it can neither make keys collide nor crowd a shard.
pub(crate) struct Secret(SipHash);

impl Secret {
    /// Draws a secret from the operating system, by way of std's own defence against hash flooding.
    #[cfg(not(shuttle))]
    pub(crate) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};

        let (first, second) = (RandomState::new(), RandomState::new());
        Self::new(first.hash_one(0_u8), second.hash_one(1_u8))
    }

    /// Returns a secret that is always the same, so that a schedule can be replayed.
    #[cfg(shuttle)]
    pub(crate) fn random() -> Self {
        Self::new(1, 2)
    }

    fn new(first: u64, second: u64) -> Self {
        Self(SipHash::keyed(first, second))
    }

    /// Begins to work out what stands for a key, given by its bytes.
    #[expect(
        clippy::inline_always,
        reason = "measured: what the other half needs stays in registers"
    )]
    #[inline(always)]
    pub(crate) fn half(&self, key: &[u8]) -> Half {
        let mut hash = self.0;
        let place = hash.first_word(key).max(1);
        Half { place, hash }
    }

    /// Stands for a key under a policy, whatever the case of its name.
    pub(crate) fn fingerprint_under(&self, policy: &PlanName, key: &Key) -> Fingerprint {
        let mut bytes: SmallVec<[u8; 128]> = SmallVec::new();
        bytes.extend(
            policy
                .as_str()
                .bytes()
                .map(|byte| byte.to_ascii_lowercase()),
        );
        bytes.push(NO_BYTE_OF_A_NAME);
        bytes.extend_from_slice(key.as_bytes());
        self.half(&bytes).whole()
    }
}

/// Parts a name from the key behind it.
const NO_BYTE_OF_A_NAME: u8 = 0;

impl Half {
    /// Works out the rest.
    #[inline]
    pub(crate) fn whole(self) -> Fingerprint {
        Fingerprint {
            place: self.place,
            rest: self.hash.second_word(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_have_secrets_of_their_own() {
        let key = Key::new("user:42").unwrap();
        let (one, other) = (Secret::random(), Secret::random());
        let of = |secret: &Secret, key: &Key| secret.half(key.as_bytes()).whole();
        assert_eq!(of(&one, &key), of(&one, &key));
        assert_ne!(of(&one, &key), of(&other, &key));
        assert_ne!(of(&one, &key), of(&one, &Key::new("user:43").unwrap()));
    }

    #[test]
    fn a_policy_and_a_key_are_told_apart_whatever_the_case_of_the_name() {
        let secret = Secret::random();
        let of = |policy, key| {
            let (policy, key) = (PlanName::new(policy).unwrap(), Key::new(key).unwrap());
            secret.fingerprint_under(&policy, &key)
        };
        assert_eq!(of("login", "ada"), of("LOGIN", "ada"));
        assert_ne!(of("login", "ada"), of("log", "inada"));
        assert_ne!(of("login", "ada"), of("signup", "ada"));
    }
}

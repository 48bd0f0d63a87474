//! [`Fingerprint`]: 113 keyed bits that stand for a key.

use limiter_core::{Key, PlanName};
use smallvec::SmallVec;

use crate::entry::Entry;
use crate::key_hash::KeyHash;

/// 113 bits of a key under the secret of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint {
    /// Says where the key lives: its low bits in which shard, its high bits where in the shard's table. Never zero.
    pub(crate) place: u64,
    /// The other 49 bits, uppermost: the lower ones are zero, and a slot has something else there.
    pub(crate) rest: u64,
}

/// The random secret of one store: who does not know it can neither make keys collide nor crowd a shard.
pub(crate) struct Secret(KeyHash);

impl Secret {
    /// Draws a secret from the operating system, by way of std's own defence against hash flooding.
    #[cfg(not(shuttle))]
    pub(crate) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};

        let (drawn, mut nth) = (RandomState::new(), 0_u64);
        Self(KeyHash::of_secret(|| {
            nth += 1;
            drawn.hash_one(nth)
        }))
    }

    /// Returns a secret that is always the same, so that a schedule can be replayed.
    #[cfg(shuttle)]
    pub(crate) fn random() -> Self {
        Self::of_seed(1)
    }

    /// Returns the secret of a seed, which is none: for schedules and runs that are replayed.
    #[cfg(any(shuttle, feature = "_replay"))]
    pub(crate) fn of_seed(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        Self(KeyHash::of_secret(|| random.u64(..)))
    }

    /// Stands for a key, given by its bytes.
    #[inline]
    pub(crate) fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        let (place, rest) = self.0.hash(key);
        Fingerprint {
            place: place.max(1),
            rest: rest & Entry::FREE_MASK,
        }
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
        self.fingerprint(&bytes)
    }
}

/// Parts a name from the key behind it.
const NO_BYTE_OF_A_NAME: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_have_secrets_of_their_own() {
        let key = Key::new("user:42").unwrap();
        let (one, other) = (Secret::random(), Secret::random());
        let of = |secret: &Secret, key: &Key| secret.fingerprint(key.as_bytes());
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

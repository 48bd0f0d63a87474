//! [`Fingerprint`]: 128 keyed bits that stand for a key.

use limiter_core::Key;
use siphasher::sip128::SipHasher13;

/// 128 bits of a key under the secret of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint {
    /// Says where in its shard's table the key lives. Never zero.
    pub(crate) place: u64,
    /// Its low bits say in which shard.
    pub(crate) rest: u64,
}

/// The random secret of one store: who does not know it can neither make keys collide nor crowd a shard.
pub(crate) struct Secret(SipHasher13);

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
        Self(SipHasher13::new_with_keys(first, second))
    }

    pub(crate) fn fingerprint(&self, key: &Key) -> Fingerprint {
        let hash = self.0.hash(key.as_bytes());
        Fingerprint {
            place: hash.h1.max(1),
            rest: hash.h2,
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
        assert_eq!(one.fingerprint(&key), one.fingerprint(&key));
        assert_ne!(one.fingerprint(&key), other.fingerprint(&key));
        assert_ne!(
            one.fingerprint(&key),
            one.fingerprint(&Key::new("user:43").unwrap())
        );
    }
}

//! [`ChildLimits`]: the limits of the layers that were made for routes.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::rate_limit::CheckedLimit;

/// The limits of the layers that [`for_route`](crate::RateLimitLayer::for_route) made of one layer,
/// of its clones and of each other. A limit is forgotten once no layer and no service has it any
/// more.
#[derive(Default)]
pub(crate) struct ChildLimits(Mutex<Vec<Weak<CheckedLimit>>>);

impl ChildLimits {
    pub(crate) fn add(&self, limit: &Arc<CheckedLimit>) {
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        limits.retain(|known| known.strong_count() > 0);
        limits.push(Arc::downgrade(limit));
    }

    /// Returns those that are in use, in the order in which they were added.
    pub(crate) fn in_use(&self) -> Vec<Arc<CheckedLimit>> {
        let limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        limits.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use limiter_core::{Key, RequestSource, UnresolvedKey};

    use super::*;
    use crate::RateLimit;
    use crate::rate_limit::Keys;

    struct Nobody;

    impl limiter_core::KeyResolver for Nobody {
        fn resolve(&self, _: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
            Err(UnresolvedKey::Missing {
                what: String::new(),
            })
        }
    }

    #[test]
    fn limits_that_are_gone_take_no_room() {
        let keys = Keys::new(Nobody);
        let limit = |plan: &str| RateLimit::plan(plan).check_to_keep(&keys).unwrap();
        let limits = ChildLimits::default();
        let kept = [limit("a"), limit("b")];
        limits.add(&kept[0]);
        for _ in 0..1000 {
            limits.add(&limit("gone"));
        }
        limits.add(&kept[1]);
        assert_eq!(limits.0.lock().unwrap().len(), 2);
        let in_use = limits.in_use();
        assert!(in_use.iter().zip(&kept).all(|(a, b)| Arc::ptr_eq(a, b)));
        assert_eq!(in_use.len(), 2);
    }
}

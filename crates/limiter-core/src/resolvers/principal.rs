//! [`PrincipalKeyResolver`]: limits by who the caller is.

use crate::{Key, KeyResolver, RequestSource, UnresolvedKey};

/// Takes the key from the authenticated principal.
///
/// An anonymous request has no key. To limit those by something else, put this first in
/// [`CompositeKeyResolver::first_of`](crate::CompositeKeyResolver::first_of).
#[derive(Clone, Copy, Debug, Default)]
pub struct PrincipalKeyResolver;

impl KeyResolver for PrincipalKeyResolver {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        let what = || "authenticated principal".to_owned();
        let principal = request
            .principal()
            .ok_or_else(|| UnresolvedKey::Missing { what: what() })?;
        Key::new(principal).map_err(|cause| UnresolvedKey::Invalid {
            what: what(),
            cause,
        })
    }
}

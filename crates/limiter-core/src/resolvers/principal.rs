//! [`PrincipalKeyResolver`]: limits by who the caller is.

use crate::{Challenge, Key, KeyResolver, RequestSource, UnresolvedKey};

/// Takes the key from the authenticated principal.
///
/// The name reaches the store as it is: it is who the caller is, and not what proves it. An
/// anonymous request has no key. To limit those by something else, put this first in
/// [`CompositeKeyResolver::first_of`](crate::CompositeKeyResolver::first_of).
///
/// # Examples
/// ```
/// use limiter_core::{Key, KeyResolver, PrincipalKeyResolver, RequestSource};
/// # use std::net::IpAddr;
/// struct Request { user: Option<&'static str> }
/// impl RequestSource for Request {
///     fn principal(&self) -> Option<&str> { self.user }
/// #   fn header(&self, _: &str, _: usize) -> Option<&[u8]> { None }
/// #   fn peer_ip(&self) -> Option<IpAddr> { None }
/// #   fn route(&self) -> Option<&str> { None }
/// }
///
/// assert_eq!(PrincipalKeyResolver.resolve(&Request { user: Some("alice") })?, Key::new("alice")?);
/// assert!(PrincipalKeyResolver.resolve(&Request { user: None }).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }
}

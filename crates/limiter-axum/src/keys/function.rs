//! [`KeyFn`]: limits by whatever a closure finds.

use limiter_core::{Key, KeyResolver, RequestSource, UnresolvedKey};

use crate::HttpRequest;

/// Takes the key from a closure that sees the head of the request: its headers, URI and extensions.
/// The key reaches the store as it is: make it of a secret with [`Key::of_secret`].
///
/// # Examples
/// ```
/// use limiter_axum::{Key, KeyFn};
///
/// #[derive(Clone)]
/// struct Tenant(String);
///
/// let by_tenant = KeyFn::new("tenant", |head| {
///     head.extensions.get::<Tenant>().and_then(|tenant| Key::new(&tenant.0).ok())
/// });
/// ```
#[derive(Clone)]
pub struct KeyFn<F> {
    what: String,
    find: F,
}

impl<F> KeyFn<F>
where
    F: Fn(&HttpRequest<'_>) -> Option<Key> + Send + Sync,
{
    /// Resolves by `find`; `what` it looks for is named to clients whose request lacks it.
    #[must_use]
    pub fn new(what: impl Into<String>, find: F) -> Self {
        Self {
            what: what.into(),
            find,
        }
    }
}

impl<F> KeyResolver for KeyFn<F>
where
    F: Fn(&HttpRequest<'_>) -> Option<Key> + Send + Sync,
{
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        HttpRequest::seen_in(request)
            .and_then(|request| (self.find)(&request))
            .ok_or_else(|| UnresolvedKey::Missing {
                what: self.what.clone(),
            })
    }
}

impl<F> std::fmt::Debug for KeyFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyFn")
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

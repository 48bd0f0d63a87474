//! [`Principal`]: who the caller is, once something has authenticated them.

use std::fmt;
use std::sync::Arc;

/// Who the caller is. The middleware that authenticates puts it into the request's extensions, and
/// [`PrincipalKeyResolver`](crate::PrincipalKeyResolver) limits by it.
///
/// The name reaches the store as it is. It is no place for a token: where there is nothing else to
/// tell callers apart by, give it the hash, as `Key::of_secret` makes it, or limit by
/// [`HeaderKeyResolver`](crate::HeaderKeyResolver).
///
/// `Debug` shows the length alone: who calls must not reach a log by accident.
///
/// # Examples
/// ```
/// use limiter_axum::Principal;
///
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Principal::new("user:42"));
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Names the caller.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Returns the caller's name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Principal({} bytes)", self.0.len())
    }
}

//! [`HeaderKeyResolver`]: limits by a header, such as an API key.

use crate::{Key, KeyResolver, RequestSource, UnresolvedKey};

/// Takes the key from a header, such as `X-Api-Key`.
///
/// A request without the header, or with several lines of it, has no key: no bucket is shared by strangers, and nobody
/// chooses between buckets. The header's value is the key byte for byte.
///
/// # Examples
/// ```
/// use limiter_core::{HeaderKeyResolver, Key, KeyResolver, RequestSource};
/// # use std::net::IpAddr;
/// struct Request;
/// impl RequestSource for Request {
///     fn header(&self, name: &str, line: usize) -> Option<&[u8]> {
///         (name.eq_ignore_ascii_case("x-api-key") && line == 0).then_some(b"k-123")
///     }
/// #   fn principal(&self) -> Option<&str> { None }
/// #   fn peer_ip(&self) -> Option<IpAddr> { None }
/// #   fn route(&self) -> Option<&str> { None }
/// }
///
/// let key = HeaderKeyResolver::new("X-Api-Key").resolve(&Request)?;
/// assert_eq!(key, Key::new("k-123")?);
/// assert!(HeaderKeyResolver::new("Authorization").resolve(&Request).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeaderKeyResolver {
    name: String,
}

impl HeaderKeyResolver {
    /// Resolves by the header `name`, case apart.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    fn what(&self) -> String {
        format!("header {}", self.name)
    }
}

impl KeyResolver for HeaderKeyResolver {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        let missing = || UnresolvedKey::Missing { what: self.what() };
        let value = request.header(&self.name, 0).ok_or_else(missing)?;
        if request.header(&self.name, 1).is_some() {
            return Err(UnresolvedKey::Ambiguous { what: self.what() });
        }
        Key::new(value).map_err(|cause| UnresolvedKey::Invalid {
            what: self.what(),
            cause,
        })
    }
}

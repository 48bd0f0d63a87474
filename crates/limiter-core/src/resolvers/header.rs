//! [`HeaderKeyResolver`]: limits by a header, such as an API key.

use crate::{Challenge, InvalidKey, Key, KeyResolver, RequestSource, UnresolvedKey};

/// Takes the key from a header, such as `X-Api-Key`.
///
/// A header is held to be a secret: what reaches the store is [`Key::of_secret`] of its value,
/// whatever its length. An API key, a token or a cookie never stands in the store, its backups or
/// its log. [`readable`](Self::readable) keeps the value as it is.
///
/// | request | answer |
/// |---|---|
/// | one line | the key |
/// | none | [`UnresolvedKey::Missing`]: no bucket is shared by strangers |
/// | several lines | [`UnresolvedKey::Ambiguous`]: nobody chooses between buckets |
/// | an empty line, or a readable one of more than 255 bytes | [`UnresolvedKey::Invalid`] |
///
/// The value is taken whole: `Bearer a` and `bearer a` are two keys. Where both are authenticated
/// as one caller, that caller would have a bucket for each spelling: limit by the principal
/// instead.
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
/// let by_key = HeaderKeyResolver::new("X-Api-Key");
/// assert_eq!(by_key.resolve(&Request)?, Key::of_secret("k-123"));
/// assert_eq!(by_key.key_of("k-123")?, Key::of_secret("k-123")); // for operators
/// assert_eq!(by_key.readable().resolve(&Request)?, Key::new("k-123")?);
/// assert!(HeaderKeyResolver::new("Authorization").resolve(&Request).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HeaderKeyResolver {
    name: String,
    readable: bool,
}

impl HeaderKeyResolver {
    /// Resolves by the header `name`, case apart.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            readable: false,
        }
    }

    /// Keeps the value as it is, byte for byte, so that it can be read in the store: for a header
    /// that is no secret, such as `X-Tenant`.
    #[must_use]
    pub const fn readable(mut self) -> Self {
        self.readable = true;
        self
    }

    /// Returns the key of requests that have `value` in the header: for an operator who looks for
    /// it in the store, or puts it on a list.
    ///
    /// # Errors
    /// [`InvalidKey`] if no request with it has a key.
    pub fn key_of(&self, value: impl AsRef<[u8]>) -> Result<Key, InvalidKey> {
        match value.as_ref() {
            [] => Err(InvalidKey::Empty),
            value if self.readable => Key::new(value),
            value => Ok(Key::of_secret(value)),
        }
    }

    /// Returns the one line of the header, as it was sent: for resolvers that make a key of it in a
    /// way of their own.
    ///
    /// # Errors
    /// [`UnresolvedKey`] if there is none, are several, or it is empty.
    pub fn value<'a>(&self, request: &'a dyn RequestSource) -> Result<&'a [u8], UnresolvedKey> {
        let missing = || UnresolvedKey::Missing { what: self.what() };
        let value = request.header(&self.name, 0).ok_or_else(missing)?;
        if request.header(&self.name, 1).is_some() {
            return Err(UnresolvedKey::Ambiguous { what: self.what() });
        }
        if value.is_empty() {
            return Err(self.invalid(InvalidKey::Empty));
        }
        Ok(value)
    }

    fn invalid(&self, cause: InvalidKey) -> UnresolvedKey {
        UnresolvedKey::Invalid {
            what: self.what(),
            cause,
        }
    }

    fn what(&self) -> String {
        format!("header {}", self.name)
    }
}

impl KeyResolver for HeaderKeyResolver {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        let key = self.key_of(self.value(request)?);
        key.map_err(|cause| self.invalid(cause))
    }

    /// Asks for `Bearer` if the header is `Authorization`, and else for `ApiKey` with the name of
    /// the header.
    fn challenges(&self) -> Vec<Challenge> {
        if self.name.eq_ignore_ascii_case("authorization") {
            return vec![Challenge::bearer()];
        }
        let api_key = Challenge::new("ApiKey");
        let api_key = api_key.and_then(|it| it.with_parameter("header", &self.name));
        api_key.into_iter().collect()
    }
}

//! [`CompositeKeyResolver`]: limits by several things at once, or by the first there is.

use std::sync::Arc;

use crate::{Challenge, InvalidKey, Key, KeyResolver, RequestSource, UnresolvedKey};

/// Joins several resolvers.
///
/// - [`all_of`](Self::all_of): every part is needed; the key is all of them (`ip + route`).
/// - [`first_of`](Self::first_of): the first that has a key (`principal, else API key`).
///
/// The parts are joined as their resolvers made them: a secret that one of them hashes stays
/// hashed.
///
/// Keys of different parts never collide: each part is written with its length, and a first-of key with which resolver it
/// came from. So a header that says `alice` is not the principal `alice`.
///
/// What is stored is not the key of a part. [`key_of_all`](Self::key_of_all) and
/// [`key_of_nth`](Self::key_of_nth) make it for operators, who look it up or put it on a list.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::{CompositeKeyResolver, HeaderKeyResolver, KeyResolver, PrincipalKeyResolver, RequestSource};
/// # struct Request(Option<&'static str>);
/// # impl RequestSource for Request {
/// #     fn header(&self, _: &str, line: usize) -> Option<&[u8]> { (line == 0).then_some(b"alice") }
/// #     fn principal(&self) -> Option<&str> { self.0 }
/// #     fn peer_ip(&self) -> Option<std::net::IpAddr> { None }
/// #     fn route(&self) -> Option<&str> { None }
/// # }
/// # let (signed_in, anonymous) = (Request(Some("alice")), Request(None));
/// let principal: Arc<dyn KeyResolver> = Arc::new(PrincipalKeyResolver);
/// let api_key: Arc<dyn KeyResolver> = Arc::new(HeaderKeyResolver::new("X-Api-Key"));
///
/// let either = CompositeKeyResolver::first_of([principal.clone(), api_key.clone()]);
/// assert_ne!(either.resolve(&signed_in)?, either.resolve(&anonymous)?); // both say `alice`
/// let both = CompositeKeyResolver::all_of([principal, api_key]);
/// assert!(both.resolve(&signed_in).is_ok() && both.resolve(&anonymous).is_err());
/// # Ok::<(), limiter_core::UnresolvedKey>(())
/// ```
#[derive(Clone)]
pub struct CompositeKeyResolver {
    how: How,
    resolvers: Vec<Arc<dyn KeyResolver>>,
}

#[derive(Clone, Copy)]
enum How {
    AllOf,
    FirstOf,
}

impl CompositeKeyResolver {
    /// Makes one key of the keys of all `resolvers`.
    #[must_use]
    pub fn all_of(resolvers: impl IntoIterator<Item = Arc<dyn KeyResolver>>) -> Self {
        Self {
            how: How::AllOf,
            resolvers: resolvers.into_iter().collect(),
        }
    }

    /// Takes the key of the first of `resolvers` that is not missing its part.
    ///
    /// Only a missing part moves on to the next: one that is there but wrong is an error, lest a sender choose its key.
    #[must_use]
    pub fn first_of(resolvers: impl IntoIterator<Item = Arc<dyn KeyResolver>>) -> Self {
        Self {
            how: How::FirstOf,
            resolvers: resolvers.into_iter().collect(),
        }
    }

    /// Returns the key that [`all_of`](Self::all_of) makes of the keys of all its resolvers, in
    /// their order.
    ///
    /// # Errors
    /// [`InvalidKey`] if no request with these parts has a key.
    ///
    /// # Examples
    /// ```
    /// use limiter_core::{CompositeKeyResolver, Key};
    ///
    /// let parts = [Key::new("203.0.113.9")?, Key::new("/users/{id}")?]; // address and route
    /// let stored = CompositeKeyResolver::key_of_all(&parts)?;
    /// assert_eq!(stored.as_bytes(), b"\x0b203.0.113.9\x0b/users/{id}");
    /// # Ok::<(), limiter_core::InvalidKey>(())
    /// ```
    pub fn key_of_all(parts: &[Key]) -> Result<Key, InvalidKey> {
        let mut joined = Vec::new();
        for part in parts {
            joined.extend(u8::try_from(part.as_bytes().len()));
            joined.extend_from_slice(part.as_bytes());
        }
        Key::new(joined)
    }

    /// Returns the key that [`first_of`](Self::first_of) makes of `part`, which its resolver number
    /// `nth` found, counted from 0.
    ///
    /// # Errors
    /// [`InvalidKey`] if no request with this part has a key.
    ///
    /// # Examples
    /// ```
    /// use limiter_core::{CompositeKeyResolver, Key};
    ///
    /// // Of `first_of([principal, api_key])`: an API key that has leaked, to be denied.
    /// let stored = CompositeKeyResolver::key_of_nth(1, &Key::of_secret("leaked"))?;
    /// assert_ne!(stored, Key::of_secret("leaked"));
    /// # Ok::<(), limiter_core::InvalidKey>(())
    /// ```
    pub fn key_of_nth(nth: usize, part: &Key) -> Result<Key, InvalidKey> {
        let origin = u8::try_from(nth).unwrap_or(u8::MAX);
        Key::new([&[origin], part.as_bytes()].concat())
    }

    fn resolve_all(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        let parts = self.resolvers.iter().map(|it| it.resolve(request));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        Self::key_of_all(&parts).map_err(joined_is_invalid)
    }

    fn resolve_first(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        let mut missing = Vec::new();
        for (nth, resolver) in self.resolvers.iter().enumerate() {
            match resolver.resolve(request) {
                Ok(key) => return Self::key_of_nth(nth, &key).map_err(joined_is_invalid),
                Err(UnresolvedKey::Missing { what }) => missing.push(what),
                Err(wrong) => return Err(wrong),
            }
        }
        Err(UnresolvedKey::Missing {
            what: missing.join(" or "),
        })
    }
}

fn joined_is_invalid(cause: InvalidKey) -> UnresolvedKey {
    UnresolvedKey::Invalid {
        what: "the joined key".to_owned(),
        cause,
    }
}

impl KeyResolver for CompositeKeyResolver {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        match self.how {
            How::AllOf => self.resolve_all(request),
            How::FirstOf => self.resolve_first(request),
        }
    }

    /// Asks for what any of the resolvers asks for.
    fn challenges(&self) -> Vec<Challenge> {
        let mut challenges = Vec::new();
        for resolver in &self.resolvers {
            for challenge in resolver.challenges() {
                if !challenges.contains(&challenge) {
                    challenges.push(challenge);
                }
            }
        }
        challenges
    }
}

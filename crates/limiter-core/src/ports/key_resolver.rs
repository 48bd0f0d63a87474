//! [`KeyResolver`] and [`RequestSource`]: the inbound ports from a request to a key.

use std::any::{Any, TypeId};
use std::net::IpAddr;
use std::sync::Arc;

use crate::{Challenge, InvalidKey, Key};

/// What a [`KeyResolver`] may look at: a request of any kind, seen from the inbound adapter.
pub trait RequestSource: Send + Sync {
    /// Returns the nth line (from 0) of the header `name`, case apart, as raw bytes.
    fn header(&self, name: &str, line: usize) -> Option<&[u8]>;

    /// Returns who the caller is, once something that can be trusted has authenticated them.
    fn principal(&self) -> Option<&str>;

    /// Returns the address of the other end of the connection.
    fn peer_ip(&self) -> Option<IpAddr>;

    /// Returns the template of the route that matched, such as `/users/{id}`: never the raw path.
    fn route(&self) -> Option<&str>;

    /// Returns the part of the request that is of the type `wanted`, as the inbound adapter holds it, for resolvers that were
    /// written for that adapter.
    ///
    /// The adapter's documentation names the types. A resolver that does not find what it needs has no key. By default there is
    /// nothing to be had.
    fn part(&self, _wanted: TypeId) -> Option<&dyn Any> {
        None
    }
}

#[cfg(any(test, feature = "mock"))]
mockall::mock! {
    /// A [`RequestSource`] that answers as it is told, with what lives for ever: literals, or what was leaked. Its
    /// [`part`](RequestSource::part)s are nothing.
    pub RequestSource {}

    impl RequestSource for RequestSource {
        fn header(&self, name: &str, line: usize) -> Option<&'static [u8]>;
        fn principal(&self) -> Option<&'static str>;
        fn peer_ip(&self) -> Option<IpAddr>;
        fn route(&self) -> Option<&'static str>;
    }
}

#[cfg(any(test, feature = "mock"))]
mockall::mock! {
    /// A [`KeyResolver`] that answers as it is told, and asks for nothing in particular.
    pub KeyResolver {}

    impl KeyResolver for KeyResolver {
        fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey>;
    }
}

/// Finds out who a request is limited as.
pub trait KeyResolver: Send + Sync {
    /// Returns the key of `request`.
    ///
    /// # Errors
    /// [`UnresolvedKey`] if the request does not say. A resolver never makes up a key that strangers would share.
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey>;

    /// Returns what a caller whose request has no key may send, for `WWW-Authenticate` of a 401. By
    /// default nothing in particular.
    fn challenges(&self) -> Vec<Challenge> {
        Vec::new()
    }
}

impl<R: KeyResolver + ?Sized> KeyResolver for Arc<R> {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        (**self).resolve(request)
    }

    fn challenges(&self) -> Vec<Challenge> {
        (**self).challenges()
    }
}

/// Says why a request has no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnresolvedKey {
    /// The request lacks what the key is made of.
    #[error("request has no {what}, which its rate limit goes by")]
    Missing {
        /// What is missing.
        what: String,
    },
    /// The request has several where one was wanted: taking either would let the sender choose its key.
    #[error("request has more than one {what}: send one")]
    Ambiguous {
        /// What there is too much of.
        what: String,
    },
    /// What the request has makes no key.
    #[error("{what} makes no rate-limit key")]
    Invalid {
        /// What it was.
        what: String,
        /// Why it makes none.
        #[source]
        cause: InvalidKey,
    },
    /// No request could have a key here: the service is set up wrongly, and its sender cannot help it.
    #[error("rate limit is set up wrongly: {advice}")]
    Misconfigured {
        /// What to do about it.
        advice: String,
    },
}

//! [`HmacKeyResolver`]: keeps secrets and addresses out of the store.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use limiter_core::{Challenge, HeaderKeyResolver, Key, KeyResolver, RequestSource, UnresolvedKey};
use sha2::Sha256;

/// Hashes the key of another resolver, or a whole header, with HMAC-SHA-256 before it leaves the process.
///
/// E-mail addresses, short codes and IP addresses never reach the store, its backups or its log
/// then. Plain hashes, as [`HeaderKeyResolver`] makes them, would not do for these: there are few
/// enough to try them all. The key is 32 hexadecimal digits (128 bits); [`HmacSecret::key_of`]
/// tells operators which one.
///
/// Another secret means other keys: to rotate it is to start all counters afresh.
///
/// # Examples
/// ```
/// use limiter_axum::{ClientIp, HmacKeyResolver, HmacSecret, HttpRequest, KeyResolver};
///
/// let secret = HmacSecret::new(b"32 random bytes from your vault!")?;
/// let by_hidden_ip = HmacKeyResolver::of(ClientIp::peer(), &secret);
/// let by_token = HmacKeyResolver::of_header("authorization", &secret);
/// let (head, ()) = http::Request::builder().header("authorization", "Bearer secret").body(())?.into_parts();
/// let key = by_token.resolve(&HttpRequest::new(&head))?;
/// assert_eq!(key.as_bytes(), b"0bcf1d35526f773e28de6e9d69a1ff71");
/// assert_eq!(key, secret.key_of("Bearer secret"));
/// assert!(by_hidden_ip.resolve(&HttpRequest::new(&head)).is_err(), "no peer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HmacKeyResolver {
    hashed: Hashed,
    secret: HmacSecret,
}

#[derive(Clone)]
enum Hashed {
    Key(Arc<dyn KeyResolver>),
    Header(HeaderKeyResolver),
}

impl HmacKeyResolver {
    /// Hashes the key that `resolver` finds: of [`HeaderKeyResolver`] that is a hash already, which
    /// does no harm.
    #[must_use]
    pub fn of(resolver: impl KeyResolver + 'static, secret: &HmacSecret) -> Self {
        Self {
            hashed: Hashed::Key(Arc::new(resolver)),
            secret: secret.clone(),
        }
    }

    /// Hashes the header `name` as it was sent, however long it is.
    #[must_use]
    pub fn of_header(name: impl Into<String>, secret: &HmacSecret) -> Self {
        Self {
            hashed: Hashed::Header(HeaderKeyResolver::new(name)),
            secret: secret.clone(),
        }
    }
}

impl KeyResolver for HmacKeyResolver {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        match &self.hashed {
            Hashed::Key(resolver) => Ok(self.secret.key_of(resolver.resolve(request)?.as_bytes())),
            Hashed::Header(header) => Ok(self.secret.key_of(header.value(request)?)),
        }
    }

    fn challenges(&self) -> Vec<Challenge> {
        match &self.hashed {
            Hashed::Key(resolver) => resolver.challenges(),
            Hashed::Header(header) => header.challenges(),
        }
    }
}

impl fmt::Debug for HmacKeyResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HmacKeyResolver").finish_non_exhaustive()
    }
}

/// The secret that keys are hashed with: at least 16 bytes, 32 random ones at best.
///
/// | input | answer |
/// |---|---|
/// | fewer than 16 bytes | [`InvalidHmacSecret`] |
#[derive(Clone)]
pub struct HmacSecret(Hmac<Sha256>);

impl HmacSecret {
    /// The shortest secret, in bytes.
    pub const MIN_LEN: usize = 16;

    /// Checks and keeps `secret`.
    ///
    /// # Errors
    /// [`InvalidHmacSecret`] if it has fewer than 16 bytes.
    pub fn new(secret: impl AsRef<[u8]>) -> Result<Self, InvalidHmacSecret> {
        let secret = secret.as_ref();
        let refused = InvalidHmacSecret { len: secret.len() };
        if secret.len() < Self::MIN_LEN {
            return Err(refused);
        }
        Hmac::new_from_slice(secret).map(Self).map_err(|_| refused)
    }

    /// Returns the key that stands for `hashed`: for an operator who looks for it in the store, or
    /// puts it on a list.
    #[must_use]
    pub fn key_of(&self, hashed: impl AsRef<[u8]>) -> Key {
        let mac: [u8; 32] = self
            .0
            .clone()
            .chain_update(hashed)
            .finalize()
            .into_bytes()
            .into();
        Key::of_hash(mac.first_chunk().copied().unwrap_or_default())
    }
}

impl fmt::Debug for HmacSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacSecret(hidden)")
    }
}

/// Says that a secret is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "secret has {len} bytes: take at least {}, 32 random ones at best",
    HmacSecret::MIN_LEN
)]
pub struct InvalidHmacSecret {
    /// How many bytes there were.
    pub len: usize,
}

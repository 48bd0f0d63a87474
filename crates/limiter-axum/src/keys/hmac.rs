//! [`HmacKeyResolver`]: keeps secrets and addresses out of the store.

use std::fmt;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use limiter_core::{Key, KeyResolver, RequestSource, UnresolvedKey};
use sha2::Sha256;

/// Hashes the key of another resolver, or a whole header, with HMAC-SHA-256 before it leaves the process.
///
/// API keys, tokens, e-mail addresses and IP addresses never reach the store, its backups or its log then. The key is 32
/// hexadecimal digits (128 bits). Plain hashes would not do: there are few enough addresses to try them all.
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
/// assert!(by_hidden_ip.resolve(&HttpRequest::new(&head)).is_err(), "no peer");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HmacKeyResolver {
    hashed: Hashed,
    mac: Hmac<Sha256>,
}

#[derive(Clone)]
enum Hashed {
    Key(Arc<dyn KeyResolver>),
    Header(String),
}

/// How many bytes of the hash are kept.
const KEPT: usize = 16;

impl HmacKeyResolver {
    /// Hashes what `resolver` finds.
    #[must_use]
    pub fn of(resolver: impl KeyResolver + 'static, secret: &HmacSecret) -> Self {
        Self {
            hashed: Hashed::Key(Arc::new(resolver)),
            mac: secret.0.clone(),
        }
    }

    /// Hashes the header `name`, however long it is: a bearer token is longer than a key may be.
    #[must_use]
    pub fn of_header(name: impl Into<String>, secret: &HmacSecret) -> Self {
        Self {
            hashed: Hashed::Header(name.into()),
            mac: secret.0.clone(),
        }
    }

    fn hash(&self, bytes: &[u8]) -> Result<Key, UnresolvedKey> {
        let digest = self.mac.clone().chain_update(bytes).finalize().into_bytes();
        let hex = |half: u8| b"0123456789abcdef".get(usize::from(half)).copied();
        let digits = digest
            .iter()
            .take(KEPT)
            .flat_map(|byte| [hex(byte >> 4), hex(byte & 0xf)]);
        let digits: Vec<u8> = digits.flatten().collect();
        Key::new(digits).map_err(|cause| UnresolvedKey::Invalid {
            what: "hashed key".to_owned(),
            cause,
        })
    }
}

impl KeyResolver for HmacKeyResolver {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        match &self.hashed {
            Hashed::Key(resolver) => self.hash(resolver.resolve(request)?.as_bytes()),
            Hashed::Header(name) => {
                let what = || format!("header {name}");
                let value = request.header(name, 0).filter(|value| !value.is_empty());
                let value = value.ok_or_else(|| UnresolvedKey::Missing { what: what() })?;
                if request.header(name, 1).is_some() {
                    return Err(UnresolvedKey::Ambiguous { what: what() });
                }
                self.hash(value)
            }
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

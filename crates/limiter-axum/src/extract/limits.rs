//! [`Limits`]: charges a cost that only the handler knows.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use limiter_core::{Key, UnresolvedKey};

use super::{Receipt, scope_here};
use crate::rate_limit::CheckedLimit;
use crate::scope::Scope;
use crate::{HttpRequest, RateLimit, Rejection};

/// Charges inside of a handler, where the cost is known only there.
///
/// Needs a [`RateLimitLayer`](crate::RateLimitLayer) around the handler, which may have no limit of its own: the limiter, the keys
/// and the form of the answer are that layer's, of several the innermost. The response tells how the caller stands.
///
/// The layer is found on the thread that runs the extractor, inside of the layer: what goes on in a task of its own, the handler or a
/// part of it, finds none, and the extractor answers 500 and says so. Take it out of the request before, and move it there.
///
/// # Examples
/// ```
/// use limiter_axum::{Limits, RateLimit, Rejection};
///
/// async fn export(limits: Limits, body: String) -> Result<String, Rejection> {
///     let rows = u32::try_from(body.lines().count()).unwrap_or(u32::MAX).max(1);
///     let receipt = limits.charge(&RateLimit::plan("rows").cost(rows)).await?;
///     if body.contains("nothing") {
///         let _ = receipt.refund().await;
///     }
///     Ok(format!("{rows} rows"))
/// }
/// ```
#[derive(Clone)]
pub struct Limits {
    scope: Arc<Scope>,
    keys: Vec<Result<Key, UnresolvedKey>>,
}

impl Limits {
    /// Charges the caller, under the key of the layer that `limit` names.
    ///
    /// A request that the layer exempts is not charged. With [`RateLimit::refund_failures`] the cost is given back when the
    /// handler's response is a server error.
    ///
    /// # Errors
    /// [`Rejection`] if a plan has no room, the caller has no key, the cost is more than a plan can ever admit, or the limit is
    /// not allowed. Return it: it is a response.
    ///
    /// # Cancel safety
    /// A dropped call may have charged, once.
    pub async fn charge(&self, limit: &RateLimit) -> Result<Receipt, Rejection> {
        let (place, limit) = self.checked(limit)?;
        let key = self.keys.get(place).cloned();
        let unknown = UnresolvedKey::Misconfigured {
            advice: "the limit is of another layer".to_owned(),
        };
        Receipt::charge(&self.scope, key.unwrap_or(Err(unknown)), limit).await
    }

    /// Charges `key`, whoever the caller is. It reaches the store as it is: make it of a secret
    /// with [`Key::of_secret`].
    ///
    /// # Errors
    /// As [`charge`](Self::charge).
    ///
    /// # Cancel safety
    /// A dropped call may have charged, once.
    pub async fn charge_key(&self, key: Key, limit: &RateLimit) -> Result<Receipt, Rejection> {
        let (_, limit) = self.checked(limit)?;
        Receipt::charge(&self.scope, Ok(key), limit).await
    }

    /// Checks a limit, and finds the place of its key.
    fn checked(&self, limit: &RateLimit) -> Result<(usize, CheckedLimit), Rejection> {
        let settings = &self.scope.settings;
        let place = limit.key_place(&settings.keys);
        let checked = place.and_then(|place| Ok((place, limit.check(&settings.keys)?)));
        checked.map_err(|error| {
            settings.turned_away(
                Rejection::misconfigured(&error.to_string()),
                self.scope.grpc,
            )
        })
    }
}

impl<S: Sync> FromRequestParts<S> for Limits {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let scope = scope_here()?;
        let keys = scope.settings.keys.resolve_all(&HttpRequest::new(parts));
        Ok(Self { scope, keys })
    }
}

impl std::fmt::Debug for Limits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Limits").finish_non_exhaustive()
    }
}

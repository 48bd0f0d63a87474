//! [`Limited`]: a limit in the signature of a handler.

use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::{Receipt, scope_here};
use crate::{HttpRequest, RateLimit, Rejection};

/// A limit that a handler names as a type, for [`Limited`].
pub trait HandlerLimit: Send + Sync {
    /// The names of the plans.
    const PLANS: &'static [&'static str];
    /// What a request costs.
    const COST: u32 = 1;
    /// The layer's key of this name; its first one if there is none.
    const KEY: Option<&'static str> = None;
    /// Whether the cost is given back when the response is a server error.
    const REFUND_FAILURES: bool = false;
}

/// Charges a request for the handler that has this among its parameters, before its body is read.
///
/// The attribute `#[rate_limit(plan = "gold")]` (feature `macros`) writes it for you. Needs a
/// [`RateLimitLayer`](crate::RateLimitLayer) around the handler, in the same task, which may have no limit of its own. Name it before
/// the parameters that are costly to make.
///
/// # Examples
/// ```
/// use limiter_axum::{HandlerLimit, Limited};
///
/// struct Gold;
///
/// impl HandlerLimit for Gold {
///     const PLANS: &'static [&'static str] = &["gold"];
/// }
///
/// async fn search(_: Limited<Gold>, body: String) -> String {
///     body
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Limited<L> {
    receipt: Receipt,
    limit: PhantomData<fn() -> L>,
}

impl<L> Limited<L> {
    /// Returns what was charged.
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

impl<L: HandlerLimit, S: Sync> FromRequestParts<S> for Limited<L> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Rejection> {
        let scope = scope_here()?;
        let settings = &scope.settings;
        let mut limit = RateLimit::plans(L::PLANS.iter().copied()).cost(L::COST);
        if let Some(key) = L::KEY {
            limit = limit.key(key);
        }
        if L::REFUND_FAILURES {
            limit = limit.refund_failures();
        }
        let limit = limit.check(&settings.keys).map_err(|error| {
            settings.turned_away(Rejection::misconfigured(&error.to_string()), scope.grpc)
        })?;
        let key = limit.resolver.resolve(&HttpRequest::new(parts));
        Ok(Self {
            receipt: Receipt::charge(&scope, key, limit).await?,
            limit: PhantomData,
        })
    }
}

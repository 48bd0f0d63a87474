//! [`MissingKey`]: what becomes of a request without a key.

/// What to do with a request that lacks what its limit goes by. There is never a key that strangers share.
///
/// This is about what is *missing*. A key that is there and wrong (two lines of a header, too long) is always 400: else a
/// client could step out of its limit by garbling it. A limit that is set up wrongly is always 500.
///
/// # Examples
/// ```
/// # use std::convert::Infallible;
/// # use http::{Request, Response};
/// # use tower::{Layer, ServiceExt};
/// use limiter_axum::{HeaderKeyResolver, MissingKey, RateLimit, RateLimitLayer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let plans = limiter_core::InMemoryPlanRegistry::new([limiter_core::Plan::new("gold", "fixed 9/h")?])?;
/// # let store = std::sync::Arc::new(limiter_memory::MemoryStore::new());
/// # let limiter = std::sync::Arc::new(limiter_core::DefaultRateLimiter::new(std::sync::Arc::new(plans), store));
/// # let hello = tower::service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Vec::new())) });
/// let by_api_key = RateLimitLayer::builder(limiter, HeaderKeyResolver::new("x-api-key"))
///     .missing_key(MissingKey::Unauthorized)
///     .limit(RateLimit::plan("gold"))
///     .build()?;
/// let response = by_api_key.layer(hello).oneshot(Request::new(())).await?;
/// assert_eq!(response.status(), 401);
/// assert_eq!(response.headers()["www-authenticate"], "ApiKey header=\"x-api-key\"");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum MissingKey {
    /// Answer 400 Bad Request.
    #[default]
    BadRequest,
    /// Answer 401 Unauthorized, and ask in `WWW-Authenticate` for what the limit goes by: right for
    /// API keys and principals.
    ///
    /// | key resolver | challenge |
    /// |---|---|
    /// | `HeaderKeyResolver`, `HmacKeyResolver` of `Authorization` | `Bearer` |
    /// | the same of another header | `ApiKey header="x-api-key"` |
    /// | `PrincipalKeyResolver` | `Bearer` |
    /// | `CompositeKeyResolver` | those of its parts |
    /// | `HmacKeyResolver::of` another | that of the other |
    /// | one of your own | what its `challenges` say; `Bearer` if they say nothing |
    /// | any, with [`challenge`](crate::RateLimitLayerBuilder::challenge) | what that says |
    Unauthorized,
    /// Answer 500 Internal Server Error: right where something before this layer always sets the key.
    ServerError,
    /// Let the request pass, unlimited by this layer.
    Skip,
}

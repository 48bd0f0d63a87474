//! [`HeaderStyle`]: in which form clients are told.

use std::fmt;
use std::sync::Arc;

use limiter_core::Clock;

/// In which form responses tell clients how they stand. `Retry-After` is sent with every refusal in any case.
///
/// # Examples
/// ```
/// # use std::convert::Infallible;
/// # use http::{Request, Response};
/// # use tower::{Layer, ServiceExt};
/// # use limiter_axum::{Key, KeyFn};
/// use limiter_axum::{HeaderStyle, LegacyReset, RateLimit, RateLimitLayer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let plans = limiter_core::InMemoryPlanRegistry::new([limiter_core::Plan::new("gold", "fixed 10/min")?])?;
/// # let store = std::sync::Arc::new(limiter_memory::MemoryStore::new());
/// # let limiter = std::sync::Arc::new(limiter_core::DefaultRateLimiter::new(std::sync::Arc::new(plans), store));
/// # let hello = tower::service_fn(|_: Request<()>| async { Ok::<_, Infallible>(Response::new(Vec::new())) });
/// # let everybody = KeyFn::new("key", |_| Key::new("everybody").ok());
/// let limits = RateLimitLayer::builder(limiter, everybody)
///     .limit(RateLimit::plan("gold"))
///     .headers(HeaderStyle::Legacy(LegacyReset::Seconds))
///     .build()?;
/// let response = limits.layer(hello).oneshot(Request::new(())).await?;
/// assert_eq!(response.headers()["x-ratelimit-remaining"], "9");
/// assert!(!response.headers().contains_key("ratelimit"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum HeaderStyle {
    /// `RateLimit-Policy: "gold";q=10;w=10` and `RateLimit: "gold";r=0;t=2`, as in
    /// draft-ietf-httpapi-ratelimit-headers-11.
    #[default]
    Draft11,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, of the plan that is nearest to its end.
    Legacy(LegacyReset),
    /// Both of them.
    Draft11AndLegacy(LegacyReset),
    /// Neither.
    Off,
}

/// What `X-RateLimit-Reset` counts: servers disagree, so it is said.
#[derive(Clone)]
#[non_exhaustive]
pub enum LegacyReset {
    /// Seconds from now.
    Seconds,
    /// Seconds since the Unix epoch, by this clock.
    UnixTime(Arc<dyn Clock>),
}

impl HeaderStyle {
    pub(crate) const fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    pub(crate) const fn has_draft11(&self) -> bool {
        matches!(self, Self::Draft11 | Self::Draft11AndLegacy(_))
    }

    pub(crate) const fn legacy(&self) -> Option<&LegacyReset> {
        match self {
            Self::Legacy(reset) | Self::Draft11AndLegacy(reset) => Some(reset),
            Self::Draft11 | Self::Off => None,
        }
    }
}

impl fmt::Debug for LegacyReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seconds => "Seconds",
            Self::UnixTime(_) => "UnixTime",
        })
    }
}

//! Charging inside of a handler.

mod limited;
mod limits;
mod receipt;

use std::sync::Arc;

use http::request::Parts;

use crate::Rejection;
use crate::scope::Scope;

pub use limited::{HandlerLimit, Limited};
pub use limits::Limits;
pub use receipt::Receipt;

/// Finds what the layer left for extractors.
fn scope_of(parts: &Parts) -> Result<Arc<Scope>, Rejection> {
    let scope = parts.extensions.get::<Arc<Scope>>();
    scope.cloned().ok_or_else(|| {
        let rejection = Rejection::misconfigured(
            "the handler has a rate limit, but there is no RateLimitLayer around it; put one on the router",
        );
        tracing::error!(target: "limiter", "{rejection}");
        rejection
    })
}

//! Charging inside of a handler.

mod limited;
mod limits;
mod receipt;

use std::sync::Arc;

use crate::Rejection;
use crate::complaints::complain_without_layer;
use crate::passage::Passage;
use crate::scope::Scope;

pub use limited::{HandlerLimit, Limited};
pub use limits::Limits;
pub use receipt::Receipt;

/// Finds the layer around the handler.
fn scope_here() -> Result<Arc<Scope>, Rejection> {
    Passage::share_here().ok_or_else(|| {
        let rejection = Rejection::misconfigured(
            "the handler has a rate limit, but there is no RateLimitLayer around it; put one on the router, and take what limits out of \
             the request before anything goes on in a task of its own",
        );
        complain_without_layer(&rejection);
        rejection
    })
}

//! The attribute `#[rate_limit]`: made by a crate of its own, as macros must be, and told of here, where its example compiles.

/// Limits a handler, before its body is read.
///
/// | argument | meaning |
/// |---|---|
/// | `plan = "gold"` | a plan; write it several times for a chain, all or nothing. Needed |
/// | `cost = 5` | what a request costs: at least 1, the default |
/// | `key = "user"` | the layer's key of this name; its first one if left out |
/// | `refund_failures` | gives the cost back when the response is a server error |
///
/// The handler gets a hidden first parameter, an extractor, so it may have at most 15 of its own. A `RateLimitLayer` must be
/// around it, in the same task. The attribute may be repeated; the limits apply from the top down. It goes on free functions,
/// and together with `#[debug_handler]` in any order.
///
/// # Examples
/// ```
/// use axum::{Router, routing::post};
/// use limiter_axum::{RateLimitLayer, rate_limit};
///
/// #[rate_limit(key = "user", plan = "gold", cost = 5)]
/// async fn search(body: String) -> String {
///     body
/// }
///
/// fn app(limits: RateLimitLayer) -> Router {
///     Router::new().route("/search", post(search)).layer(limits)
/// }
/// ```
#[doc(inline)]
pub use limiter_axum_macros::rate_limit;

//! The attribute `#[rate_limit]` of `limiter-axum`. Take it through that crate's feature `macros`.

mod arguments;
mod expand;

use proc_macro::TokenStream;

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
/// around it. The attribute may be repeated; the limits apply from the top down. It goes on free functions, and together with
/// `#[debug_handler]` in any order.
///
/// # Examples
/// ```text
/// use limiter_axum::rate_limit;
///
/// #[rate_limit(key = "user", plan = "gold", cost = 5)]
/// async fn search(body: String) -> String {
///     body
/// }
/// ```
#[proc_macro_attribute]
pub fn rate_limit(arguments: TokenStream, handler: TokenStream) -> TokenStream {
    let expanded = expand::expand(arguments.into(), handler.into());
    expanded
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

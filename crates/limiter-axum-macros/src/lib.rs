//! The attribute `#[rate_limit]` of `limiter-axum`. Take it through that crate's feature `macros`.

mod arguments;
mod expand;

use proc_macro::TokenStream;

/// Made by `limiter-axum-macros`. Take it through `limiter-axum`, whose documentation has the arguments and an example.
#[proc_macro_attribute]
pub fn rate_limit(arguments: TokenStream, handler: TokenStream) -> TokenStream {
    let expanded = expand::expand(arguments.into(), handler.into());
    expanded
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}

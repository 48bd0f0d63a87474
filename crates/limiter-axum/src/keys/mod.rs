//! Key resolvers that know HTTP.

mod function;
#[cfg(feature = "hmac")]
mod hmac;
mod path_parameter;
mod route;

pub use function::KeyFn;
#[cfg(feature = "hmac")]
pub use hmac::{HmacKeyResolver, HmacSecret, InvalidHmacSecret};
pub use path_parameter::PathParameterKeyResolver;
pub use route::RouteKeyResolver;

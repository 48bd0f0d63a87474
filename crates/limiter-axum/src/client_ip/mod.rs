//! Who is at the other end: the address that a request is limited by.

mod address;
mod forwarded;
mod resolver;
mod trusted_proxies;

pub use resolver::{ClientIp, InvalidClientIp};
pub(crate) use trusted_proxies::parse_network;
pub use trusted_proxies::{InvalidProxies, TrustedProxies};

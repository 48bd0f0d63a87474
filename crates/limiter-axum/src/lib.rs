#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::pedantic)]

mod abuse;
mod access_list;
#[cfg(feature = "macros")]
mod attribute;
mod builder;
mod charge;
mod charges;
mod child_limits;
mod client_ip;
mod complaints;
mod entry;
#[cfg(feature = "axum")]
mod extract;
mod headers;
mod http_request;
mod keys;
mod layer;
mod missing_key;
#[cfg_attr(
    not(feature = "axum"),
    expect(dead_code, reason = "extractors alone ask for some of it")
)]
mod passage;
mod principal;
mod rate_limit;
mod rejection;
mod response_future;
mod route_rule;
mod route_template;
#[cfg_attr(
    not(feature = "axum"),
    expect(dead_code, reason = "extractors alone ask for some of it")
)]
mod scope;
mod service;
mod settings;
#[cfg(feature = "axum")]
mod tokio_timer;
mod undecided;

pub use abuse::{
    AbuseFuture, AbuseLayer, AbuseLayerBuilder, AbuseService, Attempt, AttemptOutcome, Counting,
};
pub use access_list::{AccessList, InvalidNetwork};
#[cfg(feature = "macros")]
pub use attribute::rate_limit;
pub use builder::{InvalidLayer, RateLimitLayerBuilder};
pub use client_ip::{ClientIp, InvalidClientIp, InvalidProxies, TrustedProxies};
#[cfg(feature = "axum")]
pub use extract::{HandlerLimit, Limited, Limits, Receipt};
pub use headers::{EXPOSED_HEADERS, HeaderStyle, LegacyReset};
pub use http_request::HttpRequest;
#[cfg(feature = "hmac")]
pub use keys::{HmacKeyResolver, HmacSecret, InvalidHmacSecret};
pub use keys::{KeyFn, PathParameterKeyResolver, RouteKeyResolver};
pub use layer::RateLimitLayer;
pub use limiter_core::{
    Challenge, CompositeKeyResolver, HeaderKeyResolver, InvalidChallenge, Key, KeyResolver,
    PrincipalKeyResolver,
};
pub use missing_key::MissingKey;
pub use principal::Principal;
pub use rate_limit::{InvalidRateLimit, RateLimit};
pub use rejection::{Rejection, RejectionBody, RejectionReason};
pub use response_future::ResponseFuture;
pub use route_rule::{InvalidRoute, RouteRule};
pub use route_template::RouteTemplate;
pub use service::RateLimitService;
#[cfg(feature = "axum")]
pub use tokio_timer::TokioTimer;
pub use undecided::Undecided;

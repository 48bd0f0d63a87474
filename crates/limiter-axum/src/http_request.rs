//! [`HttpRequest`]: a request as key resolvers see it.

use std::any::Any;
use std::net::{IpAddr, SocketAddr};

#[cfg(feature = "axum")]
use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};
use http::request::Parts;
use limiter_core::RequestSource;

use crate::{Principal, RouteTemplate};

/// An HTTP request as key resolvers see it.
///
/// | asked for | taken from |
/// |---|---|
/// | a header | the request's head |
/// | the principal | [`Principal`] in the extensions |
/// | the peer | axum's `ConnectInfo<SocketAddr>` or `MockConnectInfo`, tonic's `TcpConnectInfo`, or a plain `SocketAddr` in the extensions |
/// | the route | axum's `MatchedPath`, or [`RouteTemplate`] in the extensions |
/// | the original | [`http::request::Parts`] |
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a>(&'a Parts);

impl<'a> HttpRequest<'a> {
    /// Shows the head of a request to key resolvers.
    #[must_use]
    pub const fn new(parts: &'a Parts) -> Self {
        Self(parts)
    }

    /// Returns the path that the client asked for, also inside a nested router.
    #[must_use]
    pub fn path(&self) -> &'a str {
        #[cfg(feature = "axum")]
        if let Some(original) = self.0.extensions.get::<axum::extract::OriginalUri>() {
            return original.0.path();
        }
        self.0.uri.path()
    }

    /// Returns the peer where it is told by other means than axum's `ConnectInfo`.
    #[cold]
    fn peer_told_otherwise(self) -> Option<SocketAddr> {
        let extensions = &self.0.extensions;
        #[cfg(feature = "axum")]
        if let Some(MockConnectInfo(peer)) = extensions.get::<MockConnectInfo<SocketAddr>>() {
            return Some(*peer);
        }
        #[cfg(feature = "tonic")]
        if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
            return info.remote_addr();
        }
        extensions.get::<SocketAddr>().copied()
    }
}

impl RequestSource for HttpRequest<'_> {
    fn header(&self, name: &str, line: usize) -> Option<&[u8]> {
        let mut lines = self.0.headers.get_all(name).iter();
        lines.nth(line).map(http::HeaderValue::as_bytes)
    }

    fn principal(&self) -> Option<&str> {
        self.0.extensions.get::<Principal>().map(Principal::as_str)
    }

    fn peer_ip(&self) -> Option<IpAddr> {
        #[cfg(feature = "axum")]
        if let Some(ConnectInfo(peer)) = self.0.extensions.get::<ConnectInfo<SocketAddr>>() {
            return Some(peer.ip());
        }
        self.peer_told_otherwise().map(|peer| peer.ip())
    }

    fn route(&self) -> Option<&str> {
        #[cfg(feature = "axum")]
        if let Some(matched) = self.0.extensions.get::<axum::extract::MatchedPath>() {
            return Some(matched.as_str());
        }
        self.0
            .extensions
            .get::<RouteTemplate>()
            .map(RouteTemplate::as_str)
    }

    fn original(&self) -> Option<&dyn Any> {
        Some(self.0)
    }
}

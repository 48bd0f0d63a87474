//! [`HttpRequest`]: a request as key resolvers see it.

use std::any::{Any, TypeId};
use std::net::{IpAddr, SocketAddr};

#[cfg(feature = "axum")]
use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Request, Uri, Version};
use limiter_core::RequestSource;

use crate::{Principal, RouteTemplate};

/// The head of an HTTP request, as key resolvers see it. To look at a request does not take it apart.
///
/// | asked for | taken from |
/// |---|---|
/// | a header | the headers |
/// | the principal | [`Principal`] in the extensions |
/// | the peer | axum's `ConnectInfo<SocketAddr>` or `MockConnectInfo`, tonic's `TcpConnectInfo`, or a plain `SocketAddr` in the extensions |
/// | the route | axum's `MatchedPath`, or [`RouteTemplate`] in the extensions |
/// | a part | [`Method`], [`Uri`], [`Version`], [`HeaderMap`], [`Extensions`] |
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HttpRequest<'a> {
    /// The method.
    pub method: &'a Method,
    /// The URI. Inside a nested router it is what the router left of it: [`path`](Self::path) is what the client asked for.
    pub uri: &'a Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The header lines.
    pub headers: &'a HeaderMap,
    /// What the server and the layers further out know of the request.
    pub extensions: &'a Extensions,
}

impl<'a> HttpRequest<'a> {
    /// Shows the head of a request that was taken apart to key resolvers.
    #[must_use]
    pub const fn new(parts: &'a Parts) -> Self {
        Self {
            method: &parts.method,
            uri: &parts.uri,
            version: parts.version,
            headers: &parts.headers,
            extensions: &parts.extensions,
        }
    }

    /// Shows the head of a request to key resolvers. The request stays as it is.
    #[must_use]
    #[inline]
    pub fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }

    /// Returns the HTTP request that a key resolver is shown, if it is one: for resolvers of your own.
    ///
    /// # Examples
    /// ```
    /// use limiter_axum::{HttpRequest, Key, KeyResolver};
    /// use limiter_core::{RequestSource, UnresolvedKey};
    ///
    /// struct ByHost;
    ///
    /// impl KeyResolver for ByHost {
    ///     fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
    ///         let host = HttpRequest::seen_in(request).and_then(|request| request.uri.host());
    ///         let missing = || UnresolvedKey::Missing { what: "host".to_owned() };
    ///         host.and_then(|host| Key::new(host).ok()).ok_or_else(missing)
    ///     }
    /// }
    /// # let (head, ()) = http::Request::get("http://a.example/").body(())?.into_parts();
    /// # assert_eq!(ByHost.resolve(&HttpRequest::new(&head))?.as_bytes(), b"a.example");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn seen_in(request: &'a dyn RequestSource) -> Option<Self> {
        Some(Self {
            method: part(request)?,
            uri: part(request)?,
            version: *part(request)?,
            headers: part(request)?,
            extensions: part(request)?,
        })
    }

    /// Returns the path that the client asked for, also inside a nested router.
    #[must_use]
    pub fn path(&self) -> &'a str {
        #[cfg(feature = "axum")]
        if let Some(original) = self.extensions.get::<axum::extract::OriginalUri>() {
            return original.0.path();
        }
        self.uri.path()
    }

    /// Returns the peer where it is told by other means than axum's `ConnectInfo`.
    #[cold]
    fn peer_told_otherwise(self) -> Option<SocketAddr> {
        let extensions = self.extensions;
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
        let mut lines = self.headers.get_all(name).iter();
        lines.nth(line).map(http::HeaderValue::as_bytes)
    }

    fn principal(&self) -> Option<&str> {
        self.extensions.get::<Principal>().map(Principal::as_str)
    }

    fn peer_ip(&self) -> Option<IpAddr> {
        #[cfg(feature = "axum")]
        if let Some(ConnectInfo(peer)) = self.extensions.get::<ConnectInfo<SocketAddr>>() {
            return Some(peer.ip());
        }
        self.peer_told_otherwise().map(|peer| peer.ip())
    }

    fn route(&self) -> Option<&str> {
        #[cfg(feature = "axum")]
        if let Some(matched) = self.extensions.get::<axum::extract::MatchedPath>() {
            return Some(matched.as_str());
        }
        self.extensions
            .get::<RouteTemplate>()
            .map(RouteTemplate::as_str)
    }

    fn part(&self, wanted: TypeId) -> Option<&dyn Any> {
        let parts: [&dyn Any; 5] = [
            self.method,
            self.uri,
            &self.version,
            self.headers,
            self.extensions,
        ];
        parts.into_iter().find(|part| (**part).type_id() == wanted)
    }
}

fn part<T: Any>(request: &dyn RequestSource) -> Option<&T> {
    request.part(TypeId::of::<T>())?.downcast_ref()
}

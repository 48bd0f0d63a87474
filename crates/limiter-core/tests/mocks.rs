//! The mocks of the inbound ports, as who writes a resolver or a layer uses them.
#![allow(clippy::unwrap_used, reason = "what a test is made of may panic")]

use std::net::IpAddr;

use limiter_core::mock::{MockKeyResolver, MockRequestSource};
use limiter_core::{
    HeaderKeyResolver, Key, KeyResolver, PrincipalKeyResolver, RequestSource, UnresolvedKey,
};

/// A resolver that somebody wrote: the route, and the address that asks for it.
struct ByRouteAndPeer;

impl KeyResolver for ByRouteAndPeer {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        let missing = |what: &str| UnresolvedKey::Missing { what: what.into() };
        let route = request.route().ok_or_else(|| missing("route"))?;
        let peer = request.peer_ip().ok_or_else(|| missing("peer address"))?;
        Key::new(format!("{route} {peer}")).map_err(|cause| UnresolvedKey::Invalid {
            what: "route and peer".into(),
            cause,
        })
    }
}

#[test]
fn a_request_is_made_up_for_the_resolvers_that_are_here() {
    let mut request = MockRequestSource::new();
    request
        .expect_header()
        .withf(|name, line| name == "X-Api-Key" && *line == 0)
        .return_const(Some(&b"k-123"[..]));
    request.expect_header().return_const(None);
    request.expect_principal().times(1).return_const("alice");
    let by_header = HeaderKeyResolver::new("X-Api-Key").resolve(&request);
    assert_eq!(by_header.unwrap(), Key::of_secret("k-123"));
    let by_principal = PrincipalKeyResolver.resolve(&request);
    assert_eq!(by_principal.unwrap(), Key::new("alice").unwrap());
    assert!(request.part(std::any::TypeId::of::<()>()).is_none());
}

#[test]
fn a_request_is_made_up_for_a_resolver_of_ones_own() {
    let mut request = MockRequestSource::new();
    let peer: IpAddr = [203, 0, 113, 9].into();
    request.expect_route().return_const("/users/{id}");
    request.expect_peer_ip().times(1).return_const(peer);
    let key = ByRouteAndPeer.resolve(&request).unwrap();
    assert_eq!(key, Key::new("/users/{id} 203.0.113.9").unwrap());
    request.checkpoint();
    request.expect_route().return_const(None);
    assert!(ByRouteAndPeer.resolve(&request).is_err());
}

#[test]
fn a_resolver_is_made_up_for_a_request() {
    let mut resolver = MockKeyResolver::new();
    resolver
        .expect_resolve()
        .times(1)
        .returning(|request| Key::new(request.route().unwrap_or("?")).map_err(|_| unreachable!()));
    let mut request = MockRequestSource::new();
    request.expect_route().return_const("/login");
    assert_eq!(
        resolver.resolve(&request).unwrap(),
        Key::new("/login").unwrap()
    );
}

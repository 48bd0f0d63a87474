//! [`RouteKeyResolver`]: tells routes apart.

use limiter_core::{Key, KeyResolver, RequestSource, UnresolvedKey};

/// Takes the key from the template of the route that matched, such as `/users/{id}`.
///
/// Alone it would limit all clients of a route together. Join it with who calls:
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_axum::{ClientIp, CompositeKeyResolver, KeyResolver, RouteKeyResolver};
///
/// let parts: [Arc<dyn KeyResolver>; 2] = [Arc::new(ClientIp::peer()), Arc::new(RouteKeyResolver)];
/// let by_ip_and_route = CompositeKeyResolver::all_of(parts);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RouteKeyResolver;

impl KeyResolver for RouteKeyResolver {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        let what = || "matched route".to_owned();
        let route = request
            .route()
            .ok_or_else(|| UnresolvedKey::Missing { what: what() })?;
        Key::new(route).map_err(|cause| UnresolvedKey::Invalid {
            what: what(),
            cause,
        })
    }
}

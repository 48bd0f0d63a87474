//! [`RouteTemplate`]: the route that matched, where the router is not axum's.

use std::sync::Arc;

/// The template of the route that matched, such as `/users/{id}`, put into the request's extensions by a router that is not
/// axum's. Under axum there is no need for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RouteTemplate(Arc<str>);

impl RouteTemplate {
    /// Names the route.
    #[must_use]
    pub fn new(template: impl Into<Arc<str>>) -> Self {
        Self(template.into())
    }

    /// Returns the template.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

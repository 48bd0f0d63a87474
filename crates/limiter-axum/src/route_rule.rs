//! [`RouteRule`]: which limit a route has.

use std::collections::HashMap;
use std::sync::Arc;

use http::Method;

use crate::rate_limit::{CheckedLimit, InvalidRateLimit, Keys, RateLimit};

/// A row of the table of routes: a route's template, perhaps a method, and the limit for them.
///
/// A row with the method of the request comes before one without a method; a route without a row has the layer's first
/// limit, if there is one. A `HEAD` without a row of its own has that of `GET`, as axum's `get` serves both. The template is that
/// of the router in full, such as `/api/users/{id}`, also inside nested routers.
///
/// | input | answer, once a layer is built of it |
/// |---|---|
/// | a path that does not start with `/` | [`InvalidRoute::Path`] |
/// | a method with lower-case letters: `get` would never match | [`InvalidRoute::Method`] |
/// | two rows of one path for the same method, or two without any | [`InvalidRoute::Twice`] |
/// | a limit that is not allowed | [`InvalidRoute::Limit`], with the [`InvalidRateLimit`] |
/// | in configuration: a method that is none, or in lower case | [`InvalidRoute::Method`], when read |
/// | in configuration: neither plans nor `unlimited`, or both | [`InvalidRoute::Contradiction`], when read |
///
/// With the feature `serde` rows are read from configuration:
///
/// ```json
/// [
///   { "path": "/search", "method": "GET", "plans": ["search", "daily"], "cost": 5, "key": "api-key" },
///   { "path": "/healthz", "unlimited": true }
/// ]
/// ```
///
/// # Examples
/// ```
/// use http::Method;
/// use limiter_axum::{RateLimit, RouteRule};
///
/// let rows = [
///     RouteRule::new("/users/{id}", RateLimit::plan("gold")),
///     RouteRule::new("/users/{id}", RateLimit::plan("writes").cost(5)).method(Method::PUT),
///     RouteRule::unlimited("/healthz"),
/// ];
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(try_from = "row::Row")
)]
pub struct RouteRule {
    path: String,
    method: Option<Method>,
    limit: Option<RateLimit>,
}

impl RouteRule {
    /// Gives the route with the template `path` a limit.
    #[must_use]
    pub fn new(path: impl Into<String>, limit: RateLimit) -> Self {
        Self {
            path: path.into(),
            method: None,
            limit: Some(limit),
        }
    }

    /// Lets the route with the template `path` go unlimited.
    #[must_use]
    pub fn unlimited(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            method: None,
            limit: None,
        }
    }

    /// Applies to requests with this method alone; `GET` to those by `HEAD` as well, unless they have a row of their own.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }
}

/// The rows, checked and found by their template.
#[derive(Default)]
pub(crate) struct RouteTable {
    rows: HashMap<String, Vec<Row>>,
}

struct Row {
    method: Option<Method>,
    limit: Option<Arc<CheckedLimit>>,
}

/// What the table says of a request.
pub(crate) enum Found<'a> {
    Nothing,
    Unlimited,
    Limit(&'a Arc<CheckedLimit>),
}

impl RouteTable {
    pub(crate) fn new(
        rules: impl IntoIterator<Item = RouteRule>,
        keys: &Keys,
    ) -> Result<Self, InvalidRoute> {
        let mut table = Self::default();
        for rule in rules {
            let RouteRule {
                path,
                method,
                limit,
            } = rule;
            if !path.starts_with('/') {
                return Err(InvalidRoute::Path { path });
            }
            if !method.as_ref().is_none_or(may_match) {
                return Err(InvalidRoute::Method { path });
            }
            let limit = match limit.map(|limit| limit.check_to_keep(keys)).transpose() {
                Ok(limit) => limit,
                Err(cause) => return Err(InvalidRoute::Limit { path, cause }),
            };
            let rows = table.rows.entry(path.clone()).or_default();
            if rows.iter().any(|row| row.method == method) {
                return Err(InvalidRoute::Twice { path });
            }
            rows.push(Row { method, limit });
        }
        Ok(table)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn find(&self, route: Option<&str>, method: &Method) -> Found<'_> {
        let Some(rows) = route.and_then(|route| self.rows.get(route)) else {
            return Found::Nothing;
        };
        let of = |wanted: Option<&Method>| rows.iter().find(|row| row.method.as_ref() == wanted);
        // What answers `GET` answers `HEAD` too: it must not be a way past the limit.
        let as_get = || (method == Method::HEAD).then(|| of(Some(&Method::GET)))?;
        match of(Some(method)).or_else(as_get).or_else(|| of(None)) {
            Some(Row {
                limit: Some(limit), ..
            }) => Found::Limit(limit),
            Some(Row { limit: None, .. }) => Found::Unlimited,
            None => Found::Nothing,
        }
    }

    pub(crate) fn limits(&self) -> impl Iterator<Item = &Arc<CheckedLimit>> {
        let rows = self.rows.values().flatten();
        rows.filter_map(|row| row.limit.as_ref())
    }
}

/// Says whether requests have such a method. Methods are told apart by case, and those in use have no lower-case letters: with
/// one of `get` a row would be accepted, and limit nobody.
fn may_match(method: &Method) -> bool {
    !method
        .as_str()
        .bytes()
        .any(|byte| byte.is_ascii_lowercase())
}

/// Says why a row of the table of routes is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRoute {
    /// The template is none.
    #[error(
        "route {path:?} does not start with '/': write the router's template, such as \"/users/{{id}}\""
    )]
    Path {
        /// The template.
        path: String,
    },
    /// Two rows are for the same requests.
    #[error("route {path} has two rows for the same method: write one")]
    Twice {
        /// The template.
        path: String,
    },
    /// The limit is not allowed.
    #[error("limit of route {path} is not allowed")]
    Limit {
        /// The template.
        path: String,
        /// Why.
        #[source]
        cause: InvalidRateLimit,
    },
    /// The row says two things at once, or nothing.
    #[error("route {path} must have either plans, or `unlimited`")]
    Contradiction {
        /// The template.
        path: String,
    },
    /// The method is none, or has lower-case letters.
    #[error(
        "route {path} has a method that is not allowed: write one in upper case, such as \"GET\""
    )]
    Method {
        /// The template.
        path: String,
    },
}

#[cfg(feature = "serde")]
mod row {
    //! A row as configuration files hold it.

    use super::{InvalidRoute, Method, RateLimit, RouteRule, may_match};

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Row {
        path: String,
        method: Option<String>,
        #[serde(default)]
        plans: Vec<String>,
        #[serde(default = "crate::rate_limit::one")]
        cost: u32,
        key: Option<String>,
        #[serde(default)]
        refund_failures: bool,
        #[serde(default)]
        unlimited: bool,
    }

    impl TryFrom<Row> for RouteRule {
        type Error = InvalidRoute;

        fn try_from(row: Row) -> Result<Self, InvalidRoute> {
            let path = row.path;
            if row.plans.is_empty() != row.unlimited {
                return Err(InvalidRoute::Contradiction { path });
            }
            let method = match row.method.as_deref().map(Method::try_from) {
                Some(Ok(method)) if may_match(&method) => Some(method),
                Some(_) => return Err(InvalidRoute::Method { path }),
                None => None,
            };
            let mut limit = RateLimit::plans(row.plans).cost(row.cost);
            if let Some(key) = row.key {
                limit = limit.key(key);
            }
            if row.refund_failures {
                limit = limit.refund_failures();
            }
            Ok(Self {
                path,
                method,
                limit: (!row.unlimited).then_some(limit),
            })
        }
    }
}

//! What a layer was told: shared by all its clones.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response};
use limiter_core::{Challenge, Key, RateLimiter, RequestSource, UnresolvedKey};

use crate::access_list::Access;
use crate::child_limits::ChildLimits;
use crate::complaints::Complaints;
use crate::rate_limit::{CheckedLimit, Keys};
use crate::route_rule::{Found, RouteTable};
use crate::{AccessList, ClientIp, HeaderStyle, HttpRequest, MissingKey, Rejection, Undecided};

pub(crate) type OnRejection = Arc<dyn Fn(&Rejection) -> Response<Bytes> + Send + Sync>;
pub(crate) type OnUndecided = Arc<dyn Fn(Undecided) + Send + Sync>;
pub(crate) type SkipIf = Arc<dyn Fn(&HttpRequest<'_>) -> bool + Send + Sync>;

/// In this order in memory as well: what every request needs comes first, and side by side.
#[repr(C)]
pub(crate) struct Settings {
    pub(crate) limiter: Arc<dyn RateLimiter>,
    pub(crate) first_limit: Option<Arc<CheckedLimit>>,
    pub(crate) header_style: HeaderStyle,
    /// There is more to look at than the first limit: routes, lists, or what is skipped.
    pub(crate) has_rules: bool,
    pub(crate) missing_key: MissingKey,
    pub(crate) challenges: Vec<Challenge>,
    pub(crate) keys: Keys,
    pub(crate) routes: RouteTable,
    pub(crate) access: AccessList,
    pub(crate) client_ip: ClientIp,
    pub(crate) skip: Skip,
    pub(crate) on_rejection: Option<OnRejection>,
    pub(crate) on_undecided: Option<OnUndecided>,
    pub(crate) complaints: Complaints,
    pub(crate) children: ChildLimits,
}

/// Which requests are not looked at.
#[derive(Clone, Default)]
pub(crate) struct Skip {
    pub(crate) preflight: bool,
    pub(crate) paths: Vec<String>,
    pub(crate) conditions: Vec<SkipIf>,
}

impl Skip {
    pub(crate) fn is_empty(&self) -> bool {
        !self.preflight && self.paths.is_empty() && self.conditions.is_empty()
    }

    pub(crate) fn applies_to(&self, request: &HttpRequest<'_>) -> bool {
        (self.preflight && is_preflight(request))
            || self.paths.iter().any(|skipped| skipped == request.path())
            || self.conditions.iter().any(|condition| condition(request))
    }
}

fn is_preflight(request: &HttpRequest<'_>) -> bool {
    request.method == Method::OPTIONS
        && request.headers.contains_key(http::header::ORIGIN)
        && request
            .headers
            .contains_key(http::header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// What is to be done with a request.
pub(crate) enum Gate<'a> {
    /// It goes on, and whoever charges it later is told that it is exempt.
    Exempt(Undecided),
    /// It goes on: nothing is charged here.
    Pass(Undecided),
    /// It is turned away.
    Reject(Rejection),
    /// It is charged.
    Charge(Key, &'a Arc<CheckedLimit>),
}

impl Settings {
    /// Says what is to be done with a request; `only` is the limit that stands in for the table of routes.
    #[inline(never)]
    pub(crate) fn gate<'a>(
        &'a self,
        request: &HttpRequest<'_>,
        only: Option<&'a Arc<CheckedLimit>>,
    ) -> Gate<'a> {
        if self.skip.applies_to(request) {
            return Gate::Exempt(Undecided::Skipped);
        }
        let of_address = match self.access_of_address(request) {
            Ok(Access::Denied) => return Gate::Reject(Rejection::forbidden()),
            Ok(access) => access,
            Err(rejection) => return Gate::Reject(rejection),
        };
        let limit = only.or_else(|| self.limit_of(request));
        match (of_address, limit) {
            (Access::Limited, Some(limit)) => {
                self.gate_of_key(limit.resolver.resolve(request), limit)
            }
            _ if self.denies_key_of(request, limit) => Gate::Reject(Rejection::forbidden()),
            (Access::Allowed, _) => Gate::Exempt(Undecided::Allowed),
            _ => Gate::Pass(Undecided::Unlimited),
        }
    }

    /// Says whether who asks is denied by key, where nobody needs the key otherwise.
    fn denies_key_of(&self, request: &HttpRequest<'_>, limit: Option<&Arc<CheckedLimit>>) -> bool {
        self.access.denies_keys() && {
            let source = limit.map_or_else(|| self.keys.first(), |limit| Some(&limit.resolver));
            let key = source.and_then(|source| source.resolve(request).ok());
            key.is_some_and(|key| self.access.of_key(&key) == Access::Denied)
        }
    }

    #[cold]
    pub(crate) fn gate_of_nobody(
        &self,
        error: &UnresolvedKey,
        limit: &CheckedLimit,
    ) -> Gate<'static> {
        match Rejection::by_missing_key(error, self.missing_key) {
            Some(rejection) => {
                Gate::Reject(rejection.asking_for(&self.challenges, &limit.resolver))
            }
            None => Gate::Pass(Undecided::PassedWithoutKey),
        }
    }

    /// Returns every limit of the layer, of its table of routes and of the layers for routes.
    pub(crate) fn limits(&self) -> impl Iterator<Item = Arc<CheckedLimit>> {
        let own = self.first_limit.iter().chain(self.routes.limits());
        own.cloned().chain(self.children.in_use())
    }

    fn limit_of(&self, request: &HttpRequest<'_>) -> Option<&Arc<CheckedLimit>> {
        if self.routes.is_empty() {
            return self.first_limit.as_ref();
        }
        match self.routes.find(request.route(), request.method) {
            Found::Limit(limit) => Some(limit),
            Found::Unlimited => None,
            Found::Nothing => self.first_limit.as_ref(),
        }
    }

    fn access_of_address(&self, request: &HttpRequest<'_>) -> Result<Access, Rejection> {
        if !self.access.asks_for_addresses() {
            return Ok(Access::Limited);
        }
        match self.client_ip.address(request) {
            Ok(address) => Ok(self.access.of_address(address)),
            Err(error) => Rejection::by_missing_key(&error, MissingKey::BadRequest)
                .map_or(Ok(Access::Limited), Err),
        }
    }

    pub(crate) fn gate_of_key<'a>(
        &self,
        key: Result<Key, UnresolvedKey>,
        limit: &'a Arc<CheckedLimit>,
    ) -> Gate<'a> {
        let key = match key {
            Ok(key) => key,
            Err(error) => return self.gate_of_nobody(&error, limit),
        };
        match self.access.of_key(&key) {
            Access::Limited => Gate::Charge(key, limit),
            Access::Allowed => Gate::Exempt(Undecided::Allowed),
            Access::Denied => Gate::Reject(Rejection::forbidden()),
        }
    }

    /// Makes the answer of this layer to a request that is turned away, and tells those who keep count of them.
    #[cold]
    pub(crate) fn turned_away(&self, rejection: Rejection, grpc: bool) -> Rejection {
        self.complaints.about(&rejection);
        if let Some(what) = Undecided::of(&rejection) {
            self.tell(what);
        }
        rejection.answered_by(self, grpc)
    }

    /// Tells who keeps count of the requests that no plan decided.
    pub(crate) fn tell(&self, what: Undecided) {
        if let Some(tell) = &self.on_undecided {
            tell(what);
        }
    }
}

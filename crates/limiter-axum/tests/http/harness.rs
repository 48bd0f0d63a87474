//! A server on loopback, clients, and plans on a clock that tests turn by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use http::HeaderMap;
use limiter_axum::{ClientIp, RateLimit, RateLimitLayer, RateLimitLayerBuilder};
use limiter_core::{DefaultRateLimiter, InMemoryPlanRegistry, Plan};
use limiter_memory::MemoryStore;
use limiter_testkit::ManualClock;
use sfv::{BareItem, List, ListEntry, Parser};

/// A limiter in memory, and the clock that it reads.
pub(crate) struct Bench {
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) limiter: Arc<DefaultRateLimiter>,
}

/// Registers plans such as `("gold", "1/s burst 10")`; a name that starts with `~` is in shadow.
pub(crate) fn registry(plans: &[(&str, &str)]) -> Arc<InMemoryPlanRegistry> {
    let plans = plans
        .iter()
        .map(|(name, limit)| match name.strip_prefix('~') {
            Some(name) => Plan::new(name, *limit).unwrap().in_shadow(),
            None => Plan::new(*name, *limit).unwrap(),
        });
    Arc::new(InMemoryPlanRegistry::new(plans).unwrap())
}

impl Bench {
    pub(crate) fn new(plans: &[(&str, &str)]) -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().clock(Arc::new(clock.clone()));
        let store = Arc::new(store.build().unwrap());
        Self {
            limiter: Arc::new(DefaultRateLimiter::new(registry(plans), store.clone())),
            clock,
            store,
        }
    }

    /// A layer by client address.
    pub(crate) fn by_ip(&self, limit: RateLimit) -> RateLimitLayer {
        self.builder().limit(limit).build().unwrap()
    }

    pub(crate) fn builder(&self) -> RateLimitLayerBuilder {
        RateLimitLayer::builder(self.limiter.clone(), ClientIp::peer())
    }
}

/// Serves `router` on a free port until the test ends.
pub(crate) async fn serve(router: Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
    format!("http://{address}")
}

pub(crate) async fn get(url: &str) -> reqwest::Response {
    reqwest::get(url).await.unwrap()
}

/// The statuses of `count` requests, one after the other.
pub(crate) async fn statuses(url: &str, count: usize) -> Vec<u16> {
    let client = reqwest::Client::new();
    let mut statuses = Vec::new();
    for _ in 0..count {
        let response = client.get(url).send().await.unwrap();
        statuses.push(response.status().as_u16());
    }
    statuses
}

pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

/// A member of `RateLimit` or `RateLimit-Policy`: the plan, and its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) plan: String,
    pub(crate) parameters: Vec<(String, i64)>,
}

impl Member {
    pub(crate) fn get(&self, name: &str) -> Option<i64> {
        let found = self.parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value)
    }
}

/// Reads all lines of a field with a parser of RFC 9651 that knows nothing of this crate.
pub(crate) fn members(headers: &HeaderMap, field: &str) -> Vec<Member> {
    let lines = headers
        .get_all(field)
        .iter()
        .map(|line| line.to_str().unwrap());
    let joined = lines.collect::<Vec<_>>().join(", ");
    let list: List = Parser::new(&joined).parse().unwrap();
    let member = |entry: ListEntry| {
        let ListEntry::Item(item) = entry else {
            panic!("{joined}: an inner list");
        };
        let BareItem::String(plan) = item.bare_item else {
            panic!("{joined}: no string");
        };
        let parameters = item.params.into_iter().map(|(name, value)| match value {
            BareItem::Integer(number) => (name.to_string(), i64::from(number)),
            other => panic!("{joined}: {other:?}"),
        });
        Member {
            plan: plan.to_string(),
            parameters: parameters.collect(),
        }
    };
    list.into_iter().map(member).collect()
}

/// Says in short what a field has: `gold r=9 t=9`.
pub(crate) fn short(headers: &HeaderMap, field: &str) -> String {
    let members = members(headers, field).into_iter().map(|member| {
        let parameters = member
            .parameters
            .iter()
            .map(|(name, value)| format!(" {name}={value}"));
        format!("{}{}", member.plan, parameters.collect::<String>())
    });
    members.collect::<Vec<_>>().join(", ")
}

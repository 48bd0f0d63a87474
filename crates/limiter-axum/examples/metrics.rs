//! What an operator watches: who made each decision, how often the store failed, which requests no plan decided, which change of
//! the plans was refused. Counted without keys and addresses, and shown as Prometheus reads it.
//!
//! `cargo run --release --example metrics` starts an app on a free port, takes its store away for a while, and prints `/metrics`.

use std::error::Error;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use limiter_axum::{HeaderKeyResolver, RateLimit, RateLimitLayer, Undecided};
use limiter_core::{
    BreakerState, Charge, Cost, Decision, DefaultRateLimiter, InMemoryPlanRegistry, Key, Observer,
    Plan, RateLimiterRepository, Refund, Source, StoreError, Verdict,
};
use limiter_memory::MemoryStore;
use tokio::net::TcpListener;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A counter for each of a few names.
struct Counter {
    head: &'static str,
    label: &'static str,
    counts: Vec<(&'static str, AtomicU64)>,
}

impl Counter {
    fn new(
        head: &'static str,
        label: &'static str,
        names: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let counts = names.into_iter().map(|name| (name, AtomicU64::new(0)));
        let counts = counts.collect();
        Self {
            head,
            label,
            counts,
        }
    }

    fn count(&self, name: &str) {
        if let Some((_, count)) = self.counts.iter().find(|(known, _)| *known == name) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, text: &mut String) {
        let Self { head, label, .. } = self;
        let _ = writeln!(text, "# TYPE {head} counter");
        for (name, count) in &self.counts {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{head}{{{label}=\"{name}\"}} {count}");
        }
    }
}

/// All that is counted.
struct Metrics {
    decisions: Counter,
    store_failures: Counter,
    undecided: Counter,
    plan_changes: Counter,
}

impl Metrics {
    fn new() -> Self {
        let sources = [
            Source::Store,
            Source::Fallback,
            Source::FailOpen,
            Source::FailClosed,
        ];
        let kinds = ["unavailable", "overloaded", "full", "misconfigured"];
        let changes = ["done", "refused"];
        Self {
            decisions: Counter::new(
                "limiter_decisions_total",
                "source",
                sources.map(Source::as_str),
            ),
            store_failures: Counter::new("limiter_store_failures_total", "kind", kinds),
            undecided: Counter::new(
                "limiter_undecided_total",
                "what",
                Undecided::ALL.iter().map(|what| what.as_str()),
            ),
            plan_changes: Counter::new("limiter_plan_changes_total", "outcome", changes),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for counter in [
            &self.decisions,
            &self.store_failures,
            &self.undecided,
            &self.plan_changes,
        ] {
            counter.write(&mut text);
        }
        text
    }
}

/// Each decision is counted once, those without the store as well.
impl Observer for Metrics {
    fn decided(&self, decision: &Decision) {
        self.decisions.count(decision.source().as_str());
    }

    fn store_failed(&self, error: &StoreError) {
        self.store_failures.count(error.kind());
    }

    fn breaker_changed(&self, _: BreakerState) {}
}

/// Puts other plans in the place of those that are there. If one is not allowed all stay as they were; that is counted, as nobody
/// would notice it otherwise.
fn change_plans(plans: &InMemoryPlanRegistry, metrics: &Metrics, rows: &[(&str, &str)]) {
    let parsed = rows.iter().map(|(name, limit)| Plan::new(*name, *limit));
    let changed = match parsed.collect::<Result<Vec<_>, _>>() {
        Ok(parsed) => plans.replace_all(parsed).is_ok(),
        Err(_) => false,
    };
    metrics
        .plan_changes
        .count(if changed { "done" } else { "refused" });
}

/// A store that can be taken away.
struct Detachable {
    store: MemoryStore,
    away: AtomicBool,
}

impl Detachable {
    fn there(&self) -> Result<&MemoryStore, StoreError> {
        match self.away.load(Ordering::Relaxed) {
            false => Ok(&self.store),
            true => Err(StoreError::unavailable(Charge::Impossible, "taken away")),
        }
    }
}

#[async_trait]
impl RateLimiterRepository for Detachable {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        self.there()?.try_acquire(key, plans, cost).await
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        self.there()?.peek(key, plans, cost).await
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        self.there()?.refund(key, plans, refund).await
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.there()?.reset(key, plans).await
    }
}

/// The app, and what the story turns.
struct App {
    url: String,
    store: Arc<Detachable>,
    plans: Arc<InMemoryPlanRegistry>,
    metrics: Arc<Metrics>,
}

async fn start() -> Outcome<App> {
    let metrics = Arc::new(Metrics::new());
    let store = Arc::new(Detachable {
        store: MemoryStore::new(),
        away: AtomicBool::new(false),
    });
    let plans = Arc::new(InMemoryPlanRegistry::new([Plan::new("gold", "2/h")?])?);
    // Fails open, unless told otherwise.
    let limiter = DefaultRateLimiter::new(plans.clone(), store.clone());
    let limiter = limiter.with_observer(metrics.clone());

    let counted = metrics.clone();
    let limits = RateLimitLayer::builder(Arc::new(limiter), HeaderKeyResolver::new("x-api-key"))
        .limit(RateLimit::plan("gold"))
        .on_undecided(move |what| counted.undecided.count(what.as_str()))
        .build()?;
    let shown = |State(metrics): State<Arc<Metrics>>| async move { metrics.text() };
    let router = Router::new()
        .route("/", get(|| async { "hello" }).layer(limits))
        .route("/metrics", get(shown))
        .with_state(metrics.clone());

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(App {
        url,
        store,
        plans,
        metrics,
    })
}

async fn ask(app: &App, key: Option<&str>) -> Outcome<reqwest::Response> {
    let mut request = reqwest::Client::new().get(&app.url);
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    Ok(request.send().await?)
}

async fn metrics(app: &App) -> Outcome<String> {
    let response = reqwest::get(format!("{}/metrics", app.url)).await?;
    Ok(response.text().await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let app = start().await?;
    println!("Alice asks 3 times, and has 2; somebody has no key.");
    for key in [Some("alice"), Some("alice"), Some("alice"), None] {
        println!("   {}", ask(&app, key).await?.status());
    }
    println!("The store is away: she is let in, and told nothing.");
    app.store.away.store(true, Ordering::Relaxed);
    println!("   {}", ask(&app, Some("alice")).await?.status());
    println!("New plans, of which one is not allowed:");
    change_plans(&app.plans, &app.metrics, &[("gold", "9/h"), ("9", "1/s")]);
    println!("\n{}", metrics(&app).await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_fails_open_shows_in_the_metric_and_not_in_the_response() {
        let app = start().await.unwrap();
        let limited = ask(&app, Some("alice")).await.unwrap();
        assert!(limited.headers().contains_key("ratelimit"));
        assert!(metrics(&app).await.unwrap().contains(
            "limiter_decisions_total{source=\"store\"} 1\n\
             limiter_decisions_total{source=\"fallback\"} 0\n\
             limiter_decisions_total{source=\"fail_open\"} 0\n"
        ));

        app.store.away.store(true, Ordering::Relaxed);
        let mut told = Vec::new();
        for _ in 0..4 {
            let response = ask(&app, Some("alice")).await.unwrap();
            assert_eq!(response.status(), 200);
            let names = response.headers().keys().map(ToString::to_string);
            told.push(names.collect::<Vec<_>>());
            assert_eq!(response.text().await.unwrap(), "hello");
        }
        assert_eq!(told, vec![["content-type", "content-length", "date"]; 4]);
        let text = metrics(&app).await.unwrap();
        for line in [
            "limiter_decisions_total{source=\"store\"} 1",
            "limiter_decisions_total{source=\"fail_open\"} 4",
            "limiter_store_failures_total{kind=\"unavailable\"} 4",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
        assert!(!text.contains("alice"));
    }

    #[tokio::test]
    async fn who_has_no_key_and_plans_that_are_refused_are_counted() {
        let app = start().await.unwrap();
        assert_eq!(ask(&app, None).await.unwrap().status(), 400);
        let before = app.plans.plans();
        change_plans(
            &app.plans,
            &app.metrics,
            &[("gold", "1/s"), ("GOLD", "2/s")],
        );
        assert_eq!(app.plans.plans(), before);
        change_plans(&app.plans, &app.metrics, &[("gold", "5/h")]);
        let text = metrics(&app).await.unwrap();
        for line in [
            "limiter_undecided_total{what=\"no_key\"} 1",
            "limiter_undecided_total{what=\"unlimited\"} 0",
            "limiter_plan_changes_total{outcome=\"refused\"} 1",
            "limiter_plan_changes_total{outcome=\"done\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn whatever_a_layer_tells_is_counted() {
        let metrics = Metrics::new();
        for what in Undecided::ALL {
            metrics.undecided.count(what.as_str());
        }
        let counted = metrics.text();
        let counted = counted.lines().filter(|line| line.ends_with(" 1"));
        assert_eq!(counted.count(), Undecided::ALL.len());
    }
}

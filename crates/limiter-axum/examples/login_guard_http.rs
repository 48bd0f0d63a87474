//! A sign-in page under attack, over HTTP: guesses at one name, guesses from one address, a success that forgives.
//!
//! `cargo run --release --example login_guard_http` starts it on a free port, plays a user and an attacker and stops. With
//! `-- --serve` it keeps serving, for you to play either:
//!
//! ```sh
//! curl -i http://127.0.0.1:3000/login -H 'content-type: application/json' -d '{"name":"ada","password":"guess"}'
//! ```
//!
//! The tests at the end are how an app of your own would be tested: in memory, with a clock that stands still until it is told.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use limiter_axum::{AbuseLayer, Attempt, ClientIp, Key, Rejection};
use limiter_core::{
    AbuseGuard, AbuseLimiter, AbusePolicy, AbuseRepository, DefaultAbuseLimiter, Tier, hours,
    minutes, seconds,
};
use limiter_memory::MemoryAbuseStore;
use tokio::net::TcpListener;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What a browser sends.
#[derive(serde::Deserialize)]
struct Credentials {
    name: String,
    password: String,
}

/// The guards: strict on a name, which one person has, and lenient on an address, which an office shares.
///
/// Blocks are told as such to nobody but who made the attempts: a stranger can lock a name for as long as the block lasts, so
/// the block of a name is short.
fn guards(shared: Arc<dyn AbuseRepository>) -> Outcome<(AbuseGuard, AbuseGuard)> {
    let local = Arc::new(MemoryAbuseStore::new());
    let limiter: Arc<dyn AbuseLimiter> = Arc::new(DefaultAbuseLimiter::new(shared, local));
    let by_name = AbusePolicy::builder("login-name")
        .tier(Tier::new("temp", 4, seconds(3)))
        .tier(Tier::new("long", 50, hours(24)).blocking_for(hours(24)));
    let by_address = AbusePolicy::builder("login-address")
        .tier(Tier::new("temp", 10, minutes(10)).blocking_for(hours(1)));
    Ok((
        AbuseGuard::for_sign_in(Arc::clone(&limiter), by_name.build()?).naming("this account"),
        AbuseGuard::for_sign_in(limiter, by_address.build()?),
    ))
}

/// The app. The layer counts by address before a byte of the body is read; the handler counts by name.
fn app(shared: Arc<dyn AbuseRepository>) -> Outcome<Router> {
    let (by_name, by_address) = guards(shared)?;
    let by_name = Arc::new(by_name);
    let sign_in = move |attempt: Attempt, Json(credentials): Json<Credentials>| {
        let by_name = Arc::clone(&by_name);
        async move { sign_in(&attempt, &by_name, &credentials).await }
    };
    let guarded = post(sign_in).route_layer(AbuseLayer::new(by_address, ClientIp::peer()));
    Ok(Router::new().route("/login", guarded).route(
        "/",
        get(|| async { "POST your name and password to /login" }),
    ))
}

async fn sign_in(
    attempt: &Attempt,
    by_name: &Arc<AbuseGuard>,
    credentials: &Credentials,
) -> Result<(StatusCode, &'static str), Rejection> {
    let name = credentials.name.to_lowercase();
    let Ok(name) = Key::new(&name) else {
        return Ok((StatusCode::BAD_REQUEST, "no such name"));
    };
    attempt.under(by_name, &name).await?;
    // Everybody's password is hunter2. By its status the layer knows a wrong one, and forgives after a right one.
    Ok(match credentials.password.as_str() {
        "hunter2" => (StatusCode::OK, "welcome"),
        _ => (StatusCode::UNAUTHORIZED, "wrong name or password"),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let app = app(Arc::new(MemoryAbuseStore::new()))?;
    let serve = std::env::args().any(|argument| argument == "--serve");
    let address = if serve {
        "127.0.0.1:3000"
    } else {
        "127.0.0.1:0"
    };
    let listener = TcpListener::bind(address).await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("serving {url}");
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    let server = axum::serve(listener, service);
    if serve {
        return Ok(server.await?);
    }
    tokio::select! {
        stopped = async { server.await } => Ok(stopped?),
        told = story(&url) => told,
    }
}

async fn story(url: &str) -> Outcome<()> {
    println!("\n1. Ada mistypes twice, then remembers. Her success forgives.");
    for password in ["hunter1", "hunter3", "hunter2"] {
        attempt(url, "ada", password).await?;
    }
    println!(
        "\n2. Somebody guesses at Bob. The fourth guess meets a block, and so does the right one."
    );
    let mut wait = None;
    for password in ["a", "b", "c", "d", "hunter2"] {
        wait = attempt(url, "bob", password).await?;
    }
    println!("\n3. Ada is not affected: the block is Bob's.");
    attempt(url, "ada", "hunter2").await?;
    if let Some(wait) = wait {
        println!("\n4. Bob waits {wait} s, as he is told, and is let in.");
        tokio::time::sleep(Duration::from_secs(wait)).await;
        attempt(url, "bob", "hunter2").await?;
    }
    println!(
        "\n5. An attacker tries one password on many names: now it is the address that is blocked."
    );
    for name in 1..=10 {
        attempt(url, &format!("user-{name}"), "12345").await?;
    }
    Ok(())
}

/// Tries to sign in, tells what came of it, and returns the wait that the site asked for.
async fn attempt(url: &str, name: &str, password: &str) -> Outcome<Option<u64>> {
    let credentials = serde_json::json!({"name": name, "password": password});
    let request = reqwest::Client::new().post(format!("{url}/login"));
    let response = request.json(&credentials).send().await?;
    let wait = response.headers().get("retry-after").cloned();
    let wait = wait.and_then(|wait| wait.to_str().ok()?.parse().ok());
    println!(
        "   {name} with {password}: {} {}",
        response.status(),
        response.text().await?
    );
    Ok(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    use axum::body::Body;
    use axum::extract::connect_info::MockConnectInfo;
    use http::Request;
    use limiter_testkit::ManualClock;
    use tower::ServiceExt;

    /// The app in memory, as seen from one address.
    fn app_at(clock: &ManualClock) -> Router {
        let store = MemoryAbuseStore::builder().clock(Arc::new(clock.clone()));
        let app = app(Arc::new(store.build_abuse_store().unwrap())).unwrap();
        app.layer(MockConnectInfo(SocketAddr::from(([203, 0, 113, 9], 1))))
    }

    async fn sign_in(app: &Router, name: &str, password: &str) -> (u16, Option<String>) {
        let credentials = serde_json::json!({"name": name, "password": password});
        let request = Request::post("/login").header("content-type", "application/json");
        let request = request.body(Body::from(credentials.to_string())).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        let wait = response.headers().get("retry-after");
        let wait = wait.map(|wait| wait.to_str().unwrap().to_owned());
        (response.status().as_u16(), wait)
    }

    #[tokio::test]
    async fn the_fourth_guess_at_a_name_is_turned_away_until_the_wait_is_over() {
        let clock = ManualClock::new();
        let app = app_at(&clock);
        for guess in ["a", "b", "c"] {
            assert_eq!(sign_in(&app, "bob", guess).await, (401, None));
        }
        let blocked = (429, Some("3".to_owned()));
        assert_eq!(sign_in(&app, "bob", "hunter2").await, blocked);
        assert_eq!(sign_in(&app, "BOB", "hunter2").await, blocked);
        assert_eq!(sign_in(&app, "ada", "hunter2").await, (200, None));
        clock.advance(Duration::from_secs(3));
        assert_eq!(sign_in(&app, "bob", "hunter2").await, (200, None));
    }

    #[tokio::test]
    async fn one_address_cannot_try_many_names() {
        let app = app_at(&ManualClock::new());
        for name in 1..=9 {
            let name = format!("user-{name}");
            assert_eq!(sign_in(&app, &name, "12345").await, (401, None));
        }
        let blocked = (429, Some("3600".to_owned()));
        assert_eq!(sign_in(&app, "ada", "hunter2").await, blocked);
    }
}

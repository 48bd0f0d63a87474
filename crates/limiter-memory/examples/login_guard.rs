//! A sign-in page under attack: five wrong passwords, a block with its wait, a success that forgives, an operator.
//!
//! Run it with `cargo run --release --example login_guard`. It needs no server.

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use limiter_core::{
    AbuseGuard, AbuseLimiter, AbusePolicy, AbuseRepository, AbuseVerdict, Block, Charge,
    DefaultAbuseLimiter, Escalation, Key, Refusal, StoreError, Tier, hours, minutes, seconds,
};
use limiter_memory::MemoryAbuseStore;

type Story = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Story {
    // Seconds where a real site has minutes: nobody wants to wait for an example.
    let login = AbusePolicy::builder("login")
        .tier(Tier::new("temp", 5, seconds(2)))
        .tier(Tier::new("long", 20, minutes(10)).blocking_for(hours(1)))
        .escalating(Escalation::doubling(hours(1), hours(24)))
        .build()?;
    println!("The policy: {login}; each relapse within an hour doubles the block.");

    let store = Arc::new(MemoryAbuseStore::new());
    let limiter = DefaultAbuseLimiter::new(store, Arc::new(MemoryAbuseStore::new()));
    let site = Site::new(Arc::new(limiter), login.clone());
    a_forgetful_user(&site).await?;
    an_attacker(&site).await?;
    an_operator(&site, &login).await?;
    a_store_that_fails(login).await
}

async fn a_forgetful_user(site: &Site) -> Story {
    println!("\n1. Ada mistypes three times, then remembers. Her success forgives.");
    let ada = Key::new("ada")?;
    for password in ["hunter1", "hunter3", "huntre2", "hunter2"] {
        site.sign_in("ada", &ada, password).await;
    }
    println!(
        "   {}",
        site.limiter.status(&ada, site.guard.policy()).await
    );
    Ok(())
}

async fn an_attacker(site: &Site) -> Story {
    println!("\n2. Mallory guesses. The fifth guess meets the block, and so does the right one.");
    let mallory = Key::new("mallory")?;
    let mut wait = None;
    for password in ["a", "b", "c", "d", "e", "hunter2"] {
        wait = site.sign_in("mallory", &mallory, password).await;
    }
    if let Some(wait) = wait.and_then(|refusal| refusal.retry_after()) {
        println!(
            "   Mallory waits exactly {wait:?}, and goes on guessing: a relapse, twice as long ..."
        );
        tokio::time::sleep(wait).await;
        for password in ["f", "g", "h", "i", "j"] {
            site.sign_in("mallory", &mallory, password).await;
        }
    }
    Ok(())
}

async fn an_operator(site: &Site, policy: &AbusePolicy) -> Story {
    println!("\n3. It was a colleague after all: an operator looks, and lifts the block.");
    let mallory = Key::new("mallory")?;
    println!("   {}", site.limiter.status(&mallory, policy).await);
    if let Some(lifted) = site.limiter.unblock(&mallory, policy).await? {
        println!("   lifted the block of {}", lifted.scope);
    }
    site.sign_in("mallory", &mallory, "hunter2").await;
    Ok(())
}

async fn a_store_that_fails(policy: AbusePolicy) -> Story {
    println!("\n4. The shared store is away: this node goes on counting by itself.");
    let limiter =
        DefaultAbuseLimiter::new(Arc::new(BrokenStore), Arc::new(MemoryAbuseStore::new()));
    let (key, limiter) = (Key::new("eve")?, Arc::new(limiter));
    for _ in 0..5 {
        println!("   {}", limiter.record(&key, &policy).await);
    }
    Ok(())
}

/// A site with one sign-in page. Everybody's password is hunter2.
struct Site {
    limiter: Arc<dyn AbuseLimiter>,
    guard: AbuseGuard,
}

impl Site {
    fn new(limiter: Arc<dyn AbuseLimiter>, policy: AbusePolicy) -> Self {
        let guard = AbuseGuard::for_sign_in(Arc::clone(&limiter), policy);
        Self { limiter, guard }
    }

    /// Counts the attempt before it looks at the password, and forgives after a success.
    async fn try_sign_in(&self, user: &Key, password: &str) -> Result<bool, Refusal> {
        self.guard.attempt(user).await?;
        let right = password == "hunter2";
        if right {
            self.guard.succeeded(user).await?;
        }
        Ok(right)
    }

    async fn sign_in(&self, name: &str, user: &Key, password: &str) -> Option<Refusal> {
        match self.try_sign_in(user, password).await {
            Ok(true) => println!("   {name}: welcome"),
            Ok(false) => println!("   {name}: wrong password"),
            Err(refusal) => {
                let (status, context) = (refusal.code().http_status(), refusal.context());
                println!("   {name}: {status} {refusal} {context}");
                return Some(refusal);
            }
        }
        None
    }
}

/// A store that nobody can reach.
struct BrokenStore;

fn unreachable() -> StoreError {
    StoreError::unavailable(Charge::Impossible, "connection refused")
}

#[async_trait]
impl AbuseRepository for BrokenStore {
    async fn record(&self, _: &Key, _: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        Err(unreachable())
    }

    async fn status(&self, _: &Key, _: &AbusePolicy) -> Result<AbuseVerdict, StoreError> {
        Err(unreachable())
    }

    async fn forgive(&self, _: &Key, _: &AbusePolicy) -> Result<(), StoreError> {
        Err(unreachable())
    }

    async fn unblock(&self, _: &Key, _: &AbusePolicy) -> Result<Option<Block>, StoreError> {
        Err(unreachable())
    }
}

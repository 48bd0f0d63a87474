//! [`Bench`]: the stores on Redis beside plain INCR, on one server and one connection.

use std::sync::Arc;
use std::time::Duration;

use limiter_core::{Cost, Key, Plan, RateLimiterRepository};
use limiter_fred::FredStore;
use limiter_redis::{KeyLayout, RedisStore, redis};
use limiter_testkit::server::{Flavour, RedisServer, ensure_installed};

use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{BucketSize, RateLimit, RateLimiterBuilder, WindowSize};

use crate::turns::{Problem, Racer, Turns};

/// How long a racer's turn takes.
pub const TURN: Duration = Duration::from_millis(250);
/// How many keys the calls go to.
pub const KEYS: usize = 1000;
/// How many keys those of the sliding window go to: few, so that each has all its sub-buckets.
const WINDOW_KEYS: usize = 16;
/// Longer than any call takes: the deadline is not what is measured.
const PATIENT: Duration = Duration::from_secs(5);

type Store = Arc<dyn RateLimiterRepository>;

/// A server, and what is measured on it.
pub struct Bench {
    server: RedisServer,
    connection: redis::aio::MultiplexedConnection,
    store: Store,
    fred: Store,
}

impl Bench {
    /// Starts a server of its own, and connects.
    ///
    /// # Errors
    /// If there is no server to be had.
    pub async fn start() -> Result<Self, Problem> {
        ensure_installed(Flavour::Redis)?;
        let server = RedisServer::start(Flavour::Redis)?;
        let url = server.url();
        // As the stores connect by themselves: the deadline is theirs.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = redis::Client::open(url.as_str())?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let store = RedisStore::on(connection.clone()).with_deadline(PATIENT);
        let fred = FredStore::builder(url.parse()?)
            .with_layout(KeyLayout::new("fred")?)
            .with_deadline(PATIENT);
        Ok(Self {
            store: Arc::new(store.build()?),
            fred: Arc::new(fred.build()?),
            connection,
            server,
        })
    }

    /// Returns the server's address.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// INCR, on the same connection.
    #[must_use]
    pub fn incr(&self) -> Racer {
        let connection = self.connection.clone();
        Racer::new("INCR", move |nth| {
            let mut connection = connection.clone();
            async move {
                let mut command = redis::cmd("INCR");
                command.arg(format!("incr:{}", nth % KEYS));
                command.query_async::<i64>(&mut connection).await.map(drop)
            }
        })
    }

    /// A chain of so many token buckets, through redis-rs.
    ///
    /// # Errors
    /// None that is known.
    pub fn buckets(&self, name: &'static str, plans: usize) -> Result<Racer, Problem> {
        Ok(racer(name, &self.store, chain(plans)?, KEYS))
    }

    /// One token bucket, through fred.
    ///
    /// # Errors
    /// None that is known.
    pub fn fred(&self, name: &'static str) -> Result<Racer, Problem> {
        Ok(racer(name, &self.fred, chain(1)?, KEYS))
    }

    /// A sliding window with 100 sub-buckets that all count.
    ///
    /// # Errors
    /// None that is known.
    pub fn window(&self, name: &'static str) -> Result<Racer, Problem> {
        let plans = vec![Plan::new("window", "sliding 1000000000/s")?];
        Ok(racer(name, &self.store, plans, WINDOW_KEYS))
    }

    /// The absolute limiter of trypema on the same server, with a window of 10 seconds in 100 sub-buckets.
    ///
    /// # Errors
    /// If it does not connect.
    pub async fn trypema(&self, name: &'static str) -> Result<Racer, Problem> {
        let client = redis::Client::open(self.server.url())?;
        let config = redis::aio::ConnectionManagerConfig::new().set_response_timeout(None);
        let connection = client.get_connection_manager_with_config(config).await?;
        let provider = RedisRateLimiterProvider::builder(connection)
            .window_size(WindowSize::seconds(10)?)
            .bucket_size(BucketSize::milliseconds(100)?)
            .build()?;
        let limit = RateLimit::per_second(1_000_000.0)?;
        Ok(Racer::new(name, move |nth| {
            let (provider, limit) = (Arc::clone(&provider), limit);
            async move {
                let key = RedisKey::try_from(format!("user_{:06}", nth % KEYS))?;
                provider.absolute().inc(&key, &limit, 1).await?;
                Ok::<(), Problem>(())
            }
        }))
    }

    /// Returns the microseconds of the server's processor that each call of `racer` takes, by what the server says of EVALSHA
    /// or INCR. Several calls may share one command.
    ///
    /// # Errors
    /// What a call or the server says.
    pub async fn server_us(&self, racer: Racer, command: &str) -> Result<f64, Problem> {
        self.server.command(&["CONFIG", "RESETSTAT"])?;
        let racers = [racer];
        Turns::run(&racers, 64, 3, TURN).await?;
        let stats = self.server.info("commandstats")?;
        let stat = stats.get(&format!("cmdstat_{command}"));
        let us = stat.and_then(|stat| {
            stat.split(',')
                .find_map(|field| field.strip_prefix("usec="))
        });
        let us: f64 = us.ok_or("the server does not say")?.parse()?;
        let [racer] = racers;
        Ok(us / racer.calls() as f64)
    }

    /// Returns how many bytes the server takes for each of 100,000 identities with one token bucket.
    ///
    /// # Errors
    /// What a call or the server says.
    pub async fn bytes_per_identity(&self) -> Result<f64, Problem> {
        const IDENTITIES: usize = 100_000;
        self.server.flush_all()?;
        let before = self.used_memory()?;
        let plans = [Plan::new("gold", "1/min burst 10")?];
        for chunk in 0..IDENTITIES / 1000 {
            let calls = (0..1000).map(|nth| {
                let (store, plans) = (Arc::clone(&self.store), plans.clone());
                tokio::spawn(async move { spend(&store, &plans, chunk * 1000 + nth).await })
            });
            for call in calls.collect::<Vec<_>>() {
                call.await??;
            }
        }
        Ok((self.used_memory()? - before) / IDENTITIES as f64)
    }

    fn used_memory(&self) -> Result<f64, Problem> {
        let memory = self.server.info("memory")?;
        let used = memory.get("used_memory").ok_or("the server does not say")?;
        Ok(used.parse()?)
    }
}

pub(crate) fn chain(plans: usize) -> Result<Vec<Plan>, Problem> {
    let plan = |nth| Ok(Plan::new(format!("plan{nth}"), "1000/s burst 1000000")?);
    (0..plans).map(plan).collect()
}

pub(crate) fn racer(name: &'static str, store: &Store, plans: Vec<Plan>, keys: usize) -> Racer {
    let (store, plans) = (Arc::clone(store), Arc::<[Plan]>::from(plans));
    Racer::new(name, move |nth| {
        let (store, plans) = (Arc::clone(&store), Arc::clone(&plans));
        async move { spend(&store, &plans, nth % keys).await }
    })
}

async fn spend(store: &Store, plans: &[Plan], user: usize) -> Result<(), Problem> {
    let key = Key::new(format!("user:{user:06}"))?;
    let _ = store.try_acquire(&key, plans, Cost::ONE).await?;
    Ok(())
}

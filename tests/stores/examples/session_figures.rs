//! The figures of sessions on one connection to one Redis, beside plain commands on the same connection in the same run.
//!
//! `cargo xtask figures sessions` starts a server of its own and prints one line a figure: name, value, goal,
//! `ok` or `short`. Latencies are in milliseconds, one call at a time.

use std::error::Error;
use std::time::{Duration, Instant};

use limiter_core::Key;
use limiter_lua::SessionNames;
use limiter_redis::{KeyLayout, RedisStore, redis};
use limiter_sessions::{
    BotProbability, Country, Fingerprint, Nonce, Retention, SessionId, TagKey, Visit, VisitorIp,
};
use limiter_store_tests::Sessions;
use limiter_testkit::server::{Flavour, RedisServer};
use redis::aio::MultiplexedConnection;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SESSIONS: u32 = 1_000;
const ROUND: Duration = Duration::from_millis(300);
const ROUNDS: usize = 5;
const TASKS: usize = 32;
const CALLS: u32 = 1_000;

#[tokio::main]
async fn main() -> Outcome<()> {
    let bench = Bench::new().await?;
    bench.ratios().await?;
    bench.latencies().await?;
    bench.round_trips().await?;
    bench.memory().await
}

struct Bench {
    server: RedisServer,
    connection: MultiplexedConnection,
    store: Sessions,
    ids: Vec<SessionId>,
    names: Vec<Vec<u8>>,
}

/// What a figure should be.
#[derive(Clone, Copy)]
enum Goal {
    AtMost(f64),
    AtLeast(f64),
    None,
}

fn tell(name: &str, value: f64, goal: Goal) {
    let (goal, met) = match goal {
        Goal::AtMost(most) => (format!("<={most}"), value <= most),
        Goal::AtLeast(least) => (format!(">={least}"), value >= least),
        Goal::None => ("-".to_owned(), true),
    };
    let verdict = if met { "ok" } else { "short" };
    let decimals = if value < 10.0 { 3 } else { 1 };
    println!("{name}\t{value:.decimals$}\t{goal}\t{verdict}");
}

impl Bench {
    async fn new() -> Outcome<Self> {
        let server = RedisServer::start(Flavour::Redis)?;
        let client = redis::Client::open(server.url())?;
        let connection = client.get_multiplexed_async_connection().await?;
        let layout = KeyLayout::default();
        let store = RedisStore::on(connection.clone())
            .with_layout(layout.clone())
            .with_deadline(Duration::from_secs(5))
            .build_sessions(TagKey::new([7; 32])?)?;
        let (mut ids, mut names) = (Vec::new(), Vec::new());
        for nth in 0..SESSIONS {
            let id = store
                .observe(&visit(nth, nth)?, Retention::DAY)
                .await?
                .session
                .id;
            let [name, _] = SessionNames::new(&layout).session(&TagKey::locator(&id));
            ids.push(id);
            names.push(name);
        }
        Ok(Self {
            server,
            connection,
            store,
            ids,
            names,
        })
    }

    /// Reads of sessions a second, as a share of plain HGETALL of the same hashes.
    async fn ratios(&self) -> Outcome<()> {
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            plain.push(self.rate(Read::Hgetall).await?);
            ours.push(self.rate(Read::Get).await?);
        }
        let (plain, ours) = (median(&mut plain), median(&mut ours));
        tell("sessions.hgetall.per_second", plain, Goal::None);
        tell("sessions.get.per_second", ours, Goal::None);
        tell("sessions.get.of_hgetall", ours / plain, Goal::AtLeast(0.7));
        Ok(())
    }

    async fn rate(&self, read: Read) -> Outcome<f64> {
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let (store, mut connection) = (self.store.clone(), self.connection.clone());
                let (ids, names) = (self.ids.clone(), self.names.clone());
                tokio::spawn(async move {
                    let (began, mut done) = (Instant::now(), 0_u32);
                    let places = ids.iter().zip(&names).cycle().skip(task * 31);
                    for (id, name) in places {
                        if began.elapsed() >= ROUND {
                            break;
                        }
                        match read {
                            Read::Get => {
                                store.get(id).await?;
                            }
                            Read::Hgetall => {
                                hgetall(&mut connection, name).await?;
                            }
                        }
                        done += 1;
                    }
                    Ok::<u32, Box<dyn Error + Send + Sync>>(done)
                })
            })
            .collect();
        let mut total = 0.0;
        for task in tasks {
            total += f64::from(task.await??);
        }
        Ok(total / ROUND.as_secs_f64())
    }

    /// What single calls take, beside the targets that a session cache is given.
    async fn latencies(&self) -> Outcome<()> {
        let mut times: [Vec<f64>; 8] = Default::default();
        let scope = Key::new("form")?;
        for nth in 0..CALLS {
            let mut connection = self.connection.clone();
            let at = nth as usize % self.ids.len();
            let (Some(id), Some(name)) = (self.ids.get(at), self.names.get(at)) else {
                break;
            };
            let (key, nonce) = (format!("plain:{at}"), Nonce::new(&format!("n-{nth}"))?);
            let visit = visit(nth % SESSIONS, nth % SESSIONS)?;
            let mut nth_time = times.iter_mut();
            let mut note = |began: Instant| {
                if let Some(times) = nth_time.next() {
                    times.push(began.elapsed().as_secs_f64() * 1000.0);
                }
            };
            let began = Instant::now();
            let set = redis::cmd("SET")
                .arg(&key)
                .arg(&[b'x'; 100][..])
                .arg("EX")
                .arg(60)
                .to_owned();
            set.query_async::<()>(&mut connection).await?;
            note(began);
            let began = Instant::now();
            let get = redis::cmd("GET").arg(&key).to_owned();
            get.query_async::<Vec<u8>>(&mut connection).await?;
            note(began);
            let began = Instant::now();
            hgetall(&mut connection, name).await?;
            note(began);
            let began = Instant::now();
            let mut pipe = redis::pipe();
            for part in 0..5 {
                pipe.hset(format!("pipe:{at}"), part, "value").ignore();
            }
            pipe.query_async::<()>(&mut connection).await?;
            note(began);
            let began = Instant::now();
            self.store.get(id).await?;
            note(began);
            let began = Instant::now();
            let _ = self.store.observe(&visit, Retention::DAY).await?;
            note(began);
            let began = Instant::now();
            let _ = self
                .store
                .consume(&scope, &nonce, Retention::FIVE_MINUTES)
                .await?;
            note(began);
            let began = Instant::now();
            let burst = (0..5).map(|_| {
                let store = self.store.clone();
                tokio::spawn(async move { store.observe(&visit, Retention::DAY).await.map(drop) })
            });
            for observed in burst.collect::<Vec<_>>() {
                observed.await??;
            }
            note(began);
        }
        let goals = [
            ("sessions.plain_set", Goal::AtMost(1.0)),
            ("sessions.plain_get", Goal::AtMost(0.5)),
            ("sessions.plain_hgetall", Goal::AtMost(1.0)),
            ("sessions.plain_pipeline_of_5", Goal::AtMost(2.0)),
            ("sessions.get", Goal::AtMost(0.5)),
            ("sessions.observe", Goal::AtMost(2.0)),
            ("sessions.consume", Goal::AtMost(1.0)),
            ("sessions.five_observes_at_once", Goal::AtMost(2.0)),
        ];
        for (mut times, (name, goal)) in times.into_iter().zip(goals) {
            times.sort_by(f64::total_cmp);
            let at = |share: usize| times.get(times.len() * share / 100).copied();
            tell(&format!("{name}.p50_ms"), at(50).unwrap_or_default(), goal);
            tell(&format!("{name}.p99_ms"), at(99).unwrap_or_default(), goal);
        }
        Ok(())
    }

    /// How many commands the client sends for a visit with its signals.
    async fn round_trips(&self) -> Outcome<()> {
        let sent = || -> Outcome<u64> {
            Ok(self.server.calls_of("evalsha")? + self.server.calls_of("eval")?)
        };
        let before = sent()?;
        for nth in 0..100 {
            let seen = self
                .store
                .observe(&visit(nth, nth)?, Retention::DAY)
                .await?;
            assert!(seen.in_signals, "signals were missed");
        }
        let trips = f64::from(u32::try_from(sent()? - before)?) / 100.0;
        tell("sessions.observe.round_trips", trips, Goal::AtMost(1.0));
        Ok(())
    }

    /// What a session, an address and a nonce take.
    async fn memory(&self) -> Outcome<()> {
        const MANY: u32 = 10_000;
        let each = |before: f64, after: f64| (after - before) / f64::from(MANY);
        self.server.flush_all()?;
        let empty = self.used()?;
        self.observe_many(MANY, |nth| visit(nth, 1)).await?;
        let sessions = each(empty, self.used()?);
        tell("sessions.bytes_per_session", sessions, Goal::AtMost(600.0));
        self.server.flush_all()?;
        let empty = self.used()?;
        self.observe_many(MANY, |nth| visit(nth, nth)).await?;
        let addresses = each(empty, self.used()?) - sessions;
        tell("sessions.bytes_per_address", addresses, Goal::None);
        self.server.flush_all()?;
        let (empty, scope) = (self.used()?, Key::new("form")?);
        for nth in 0..MANY {
            let nonce = Nonce::new(&format!("7f3a-{nth}"))?;
            let _ = self
                .store
                .consume(&scope, &nonce, Retention::FIVE_MINUTES)
                .await?;
        }
        let nonces = each(empty, self.used()?);
        tell("sessions.bytes_per_nonce", nonces, Goal::AtMost(150.0));
        Ok(())
    }

    async fn observe_many(&self, many: u32, visit: impl Fn(u32) -> Outcome<Visit>) -> Outcome<()> {
        for nth in 0..many {
            let _ = self.store.observe(&visit(nth)?, Retention::DAY).await?;
        }
        Ok(())
    }

    fn used(&self) -> Outcome<f64> {
        let memory = self.server.info("memory")?;
        Ok(memory.get("used_memory").ok_or("no figure")?.parse()?)
    }
}

#[derive(Clone, Copy)]
enum Read {
    Get,
    Hgetall,
}

async fn hgetall(connection: &mut MultiplexedConnection, name: &[u8]) -> Outcome<redis::Value> {
    let command = redis::cmd("HGETALL").arg(name).to_owned();
    Ok(command.query_async(connection).await?)
}

fn visit(fingerprint: u32, ip: u32) -> Outcome<Visit> {
    let mut bytes = [0xab; 32];
    for (place, byte) in bytes.iter_mut().zip(fingerprint.to_be_bytes()) {
        *place = byte;
    }
    let ip = VisitorIp::new((0x0a00_0001 + ip).to_be_bytes().into())?;
    let country: Country = "US".parse()?;
    let visit = Visit::new(Fingerprint::from_bytes(bytes), ip).with_country(country);
    Ok(visit.with_bot_probability(BotProbability::from_ppm(750_000)?))
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

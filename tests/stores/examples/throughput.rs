//! Decisions per second on one connection, as multiples of plain INCR on the same connection.
//!
//! `cargo run --release --example throughput [redis://...]`: without an address it starts a server of its own.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use limiter_core::{Cost, Key, Plan};
use limiter_redis::{KeyLayout, RedisStore, redis};
use limiter_store_tests::{Client, Store};
use limiter_testkit::server::{Flavour, RedisServer};
use redis::aio::MultiplexedConnection;

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUND: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 4;
const KEYS: usize = 1000;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut address = std::env::args().nth(1);
    let mut own = None;
    if address.is_none() {
        let server = RedisServer::start(Flavour::Redis)?;
        address = Some(server.url());
        own = Some(server);
    }
    let address = address.unwrap_or_default();
    let client = redis::Client::open(address.as_str())?;
    let connection = client.get_multiplexed_async_connection().await?;
    let patient = Duration::from_secs(5);
    let store = RedisStore::on(connection.clone()).with_deadline(patient);
    let store: Store = Arc::new(store.build()?);
    let fred = Client::Fred.store(&address, &KeyLayout::new("fred")?, patient);
    let chain = |n: usize| -> Outcome<Vec<Plan>> {
        (0..n)
            .map(|nth| Ok(Plan::new(format!("plan{nth}"), "1000/s burst 1000000")?))
            .collect()
    };
    let window = vec![Plan::new("window", "sliding 1000000000/s")?];
    for tasks in task_counts() {
        let mut incr = Vec::new();
        let mut cases: Vec<(&str, &Store, Vec<Plan>, Vec<f64>)> = vec![
            ("one token bucket", &store, chain(1)?, vec![]),
            ("chain of three", &store, chain(3)?, vec![]),
            ("chain of eight", &store, chain(8)?, vec![]),
            (
                "sliding window, 100 sub-buckets",
                &store,
                window.clone(),
                vec![],
            ),
            ("one token bucket, fred", &fred, chain(1)?, vec![]),
        ];
        let cpu = || cpu_us(own.as_ref());
        for round in 0..ROUNDS {
            let before = cpu();
            let rate = incr_rate(&connection, tasks).await?;
            print_cpu(round, "INCR", rate, before, cpu());
            incr.push(rate);
            for (name, store, plans, rates) in &mut cases {
                let before = cpu();
                let rate = store_rate(store, plans, tasks).await?;
                print_cpu(round, name, rate, before, cpu());
                rates.push(rate);
            }
        }
        let base = median(&mut incr);
        println!("{tasks} tasks: INCR {base:.0}/s");
        for (name, _, _, rates) in &mut cases {
            let rate = median(rates);
            println!("  {name:32} {rate:8.0}/s  {:.2}x INCR", rate / base);
        }
    }
    if let Some(server) = &own {
        println!("{}", memory(server, &store).await?);
        for (command, stat) in server.info("commandstats")? {
            if command.contains("evalsha") {
                println!("{command}: {stat}");
            }
        }
    }
    Ok(())
}

/// Returns how many tasks to run with: those that `TASKS` names, or several counts.
fn task_counts() -> Vec<usize> {
    let named = std::env::var("TASKS").unwrap_or_default();
    let named: Vec<_> = named
        .split(',')
        .filter_map(|count| count.parse().ok())
        .collect();
    if named.is_empty() {
        vec![1, 16, 64, 256]
    } else {
        named
    }
}

async fn incr_rate(connection: &MultiplexedConnection, tasks: usize) -> Outcome<f64> {
    let work = (0..tasks).map(|task| {
        let mut connection = connection.clone();
        tokio::spawn(async move {
            let (started, mut done) = (Instant::now(), 0_u32);
            while started.elapsed() < ROUND {
                let key = format!("incr:{}", (task * 7919 + done as usize) % KEYS);
                let _: i64 = redis::cmd("INCR")
                    .arg(key)
                    .query_async(&mut connection)
                    .await?;
                done += 1;
            }
            Ok::<u32, redis::RedisError>(done)
        })
    });
    let mut total = 0.0;
    for task in work.collect::<Vec<_>>() {
        total += f64::from(task.await??);
    }
    Ok(total / ROUND.as_secs_f64())
}

async fn store_rate(store: &Store, plans: &[Plan], tasks: usize) -> Outcome<f64> {
    let keys = if plans.iter().any(|plan| plan.name().as_str() == "window") {
        16
    } else {
        KEYS
    };
    let work = (0..tasks).map(|task| {
        let (store, plans) = (store.clone(), plans.to_vec());
        tokio::spawn(async move {
            let (started, mut done) = (Instant::now(), 0_u32);
            while started.elapsed() < ROUND {
                let name = format!("user:{}", (task * 7919 + done as usize) % keys);
                let key = Key::new(name).unwrap_or_else(|_| unreachable!());
                let _ = store.try_acquire(&key, &plans, Cost::ONE).await?;
                done += 1;
            }
            Ok::<u32, limiter_core::StoreError>(done)
        })
    });
    let mut total = 0.0;
    for task in work.collect::<Vec<_>>() {
        total += f64::from(task.await??);
    }
    Ok(total / ROUND.as_secs_f64())
}

/// Returns the bytes that 100,000 identities with one token bucket take.
async fn memory(server: &RedisServer, store: &Store) -> Outcome<String> {
    const IDENTITIES: u32 = 100_000;
    server.flush_all()?;
    let used = || -> Outcome<f64> {
        Ok(server
            .info("memory")?
            .get("used_memory")
            .ok_or("no figure")?
            .parse()?)
    };
    let plan = Plan::new("gold", "1/min burst 10")?;
    let before = used()?;
    for chunk in 0..IDENTITIES / 1000 {
        let calls = (0..1000).map(|nth| {
            let (store, plan) = (store.clone(), plan.clone());
            tokio::spawn(async move {
                let key = Key::new(format!("user:{:06}", chunk * 1000 + nth))
                    .unwrap_or_else(|_| unreachable!());
                store
                    .try_acquire(&key, &[plan], Cost::ONE)
                    .await
                    .map(|_| ())
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await??;
        }
    }
    Ok(format!(
        "{:.0} bytes for each of {IDENTITIES} identities",
        (used()? - before) / f64::from(IDENTITIES)
    ))
}

/// Returns the microseconds of processor time that this process and the server have used.
fn cpu_us(server: Option<&RedisServer>) -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = stat
        .split(' ')
        .skip(13)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok());
    let server = server
        .and_then(|server| server.info("cpu").ok())
        .unwrap_or_default();
    let used = ["used_cpu_user", "used_cpu_sys"].iter();
    let used = used.filter_map(|name| server.get(*name)?.parse::<f64>().ok());
    (
        ticks.sum::<f64>() * 10_000.0,
        used.sum::<f64>() * 1_000_000.0,
    )
}

/// Prints what a decision took of each process, in the last round.
fn print_cpu(round: usize, name: &str, rate: f64, before: (f64, f64), after: (f64, f64)) {
    if round + 1 == ROUNDS {
        let calls = rate * ROUND.as_secs_f64();
        let (client, server) = ((after.0 - before.0) / calls, (after.1 - before.1) / calls);
        println!(
            "  {name:32} {client:6.1} us of the client's processor, {server:5.1} us of the server's"
        );
    }
}

fn median(rates: &mut [f64]) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

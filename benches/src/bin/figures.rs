//! Prints the goals of limiter and how they stand, one a line: name, value, goal, `ok` or `short`.
#![allow(
    clippy::cast_precision_loss,
    reason = "what is measured is not exact to 52 bits"
)]

use limiter_benches::contest::Contest;
use limiter_benches::figure::{Figure, Goal};
use limiter_benches::pause::Pauses;
use limiter_benches::web::{Web, WebContest};
use limiter_benches::workload::Workload;
use limiter_benches::{child, cluster_figures, resident, shared_figures};

const ROUNDS: usize = 9;
/// What depends on where in memory things lie differs from setup to setup.
const WEB_SETUPS: usize = 75;
/// Short turns, and many of them: what a host takes away meanwhile hits some of the rounds, not the median.
const WEB_ROUNDS: usize = 20;

/// Measures all areas, or those that are named: `memory`, `axum`, `redis`.
fn main() -> std::io::Result<()> {
    if child::run_if_child() {
        return Ok(());
    }
    let named: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |area: &str| named.is_empty() || named.iter().any(|name| name == area);
    if wanted("memory") {
        memory()?;
    }
    if wanted("axum") {
        web()?;
    }
    if wanted("redis") {
        shared()?;
    }
    Ok(())
}

fn tell(name: &'static str, value: f64, goal: Goal) {
    println!("{}", Figure { name, value, goal });
}

fn memory() -> std::io::Result<()> {
    eprintln!("100,000 keys, beside governor ...");
    let even = Contest::run(&Workload::even("100k", 100_000), ROUNDS);
    tell(
        "memory.100k.sync_vs_governor",
        even.sync_ratio,
        Goal::AtMost(0.35),
    );
    tell(
        "memory.100k.async_vs_governor",
        even.boxed_ratio,
        Goal::AtMost(0.7),
    );

    eprintln!("one hot key on two threads, beside governor ...");
    let hot = Contest::run(&Workload::hot("hot", 2), ROUNDS);
    tell(
        "memory.hot.2threads_vs_governor",
        hot.sync_ratio,
        Goal::AtMost(1.0),
    );

    eprintln!("ten million keys ...");
    let ours = resident::ours()?;
    tell(
        "memory.10m.bytes_per_key",
        ours.bytes_per_key,
        Goal::AtMost(64.0),
    );
    eprintln!("ten million keys in governor ...");
    let governor = resident::governor()?;
    tell(
        "memory.10m.bytes_per_key_governor",
        governor.bytes_per_key,
        Goal::None,
    );
    tell(
        "memory.idle.bytes_returned_share",
        ours.returned_share,
        Goal::AtLeast(0.8),
    );

    eprintln!("ten million keys through room for one million ...");
    let pauses = Pauses::measure("1000/s", 5);
    for (name, pause, goal) in [
        (
            "memory.capped.longest_pause_us_replayed",
            pauses.replayed,
            Goal::AtMost(1000.0),
        ),
        (
            "memory.capped.longest_pause_us",
            pauses.round,
            Goal::AtMost(1000.0),
        ),
        (
            "memory.idle_loop.longest_pause_us",
            pauses.idle_round,
            Goal::None,
        ),
    ] {
        tell(name, pause.as_nanos() as f64 / 1000.0, goal);
    }
    Ok(())
}

fn web() -> std::io::Result<()> {
    eprintln!("an empty axum handler, beside tower_governor ...");
    let web = WebContest::over_loopback(WEB_SETUPS, WEB_ROUNDS)?;
    for (name, per_second) in Web::ALL.iter().map(|web| web.name()).zip(web.per_second) {
        eprintln!("{name:<28} {:>8.2} us a request", 1e6 / per_second);
    }
    tell(
        "axum.throughput_vs_bare",
        web.ratio(Web::Ours, Web::Bare),
        Goal::None,
    );
    tell(
        "axum.throughput_vs_tower_governor",
        web.ratio(Web::OursWithoutFields, Web::Governor),
        Goal::AtLeast(1.0),
    );
    tell(
        "axum.throughput_vs_tower_governor_with_fields",
        web.ratio(Web::Ours, Web::GovernorWithFields),
        Goal::AtLeast(1.0),
    );
    Ok(())
}

fn shared() -> std::io::Result<()> {
    eprintln!("the stores on Redis, beside INCR and trypema ...");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let measured = runtime.block_on(async {
        shared_figures::measure(ROUNDS, tell).await?;
        eprintln!("a cluster, beside a client that sends each call by itself ...");
        cluster_figures::measure(ROUNDS, tell).await
    });
    measured.map_err(std::io::Error::other)
}

//! The memory store beside governor: `cargo bench -p limiter-benches --bench memory`.
//!
//! First a table: all contestants in turns, in one run, with ratios. Then criterion's view of each by itself.
#![allow(
    clippy::cast_precision_loss,
    reason = "what is measured is not exact to 52 bits"
)]

use criterion::{BenchmarkId, Criterion, Throughput};
use limiter_benches::contest::Contest;
use limiter_benches::contestant::{Boxed, Contestant, Governor, Ours};
use limiter_benches::pause::Pauses;
use limiter_benches::workload::Workload;
use limiter_benches::{child, resident};

const ROUNDS: usize = 15;

fn main() -> std::io::Result<()> {
    if child::run_if_child() {
        return Ok(());
    }
    let works = [
        Workload::hot("1 hot key, 1 thread", 1),
        Workload::hot("1 hot key, 2 threads", 2),
        Workload::even("100,000 keys, 1 thread", 100_000),
        Workload::zipf("1,000,000 keys (Zipf), 1 thread", 1_000_000, 1),
        Workload::zipf("1,000,000 keys (Zipf), 2 threads", 1_000_000, 2),
    ];
    println!("ns a decision: the median of {ROUNDS} rounds, in turns; x: as a part of governor's");
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>7} {:>7}",
        "", "sync", "async", "governor", "sync x", "async x"
    );
    for work in &works {
        let contest = Contest::run(work, ROUNDS);
        println!(
            "{:<34} {:>9.1} {:>9.1} {:>9.1} {:>7.2} {:>7.2}",
            work.name,
            contest.sync_ns,
            contest.boxed_ns,
            contest.governor_ns,
            contest.sync_ratio,
            contest.boxed_ratio
        );
    }
    print_memory()?;
    print_pauses();
    for work in works.iter().filter(|work| work.threads == 1) {
        run_criterion(work);
    }
    Ok(())
}

fn print_memory() -> std::io::Result<()> {
    let (ours, governor) = (resident::ours()?, resident::governor()?);
    println!("\n{} keys, each in a process of its own", resident::KEYS);
    println!(
        "bytes a key: {:.1} (governor {:.1}, x {:.2}); of these came back once idle: {:.0} %",
        ours.bytes_per_key,
        governor.bytes_per_key,
        ours.bytes_per_key / governor.bytes_per_key,
        100.0 * ours.returned_share
    );
    println!(
        "governor's clean-up (retain_recent, shrink_to_fit) keeps everybody waiting for {:.2} s",
        governor.clean_up_secs
    );
    Ok(())
}

fn print_pauses() {
    println!("\nlongest call while 10,000,000 keys pass through room for 1,000,000");
    for (limit, what) in [
        ("1000/s", "each makes room for the next"),
        ("1/h", "there is no room for nine in ten"),
    ] {
        let pauses = Pauses::measure(limit, 3);
        let us = |pause: std::time::Duration| pause.as_nanos() as f64 / 1000.0;
        let [store, round, idle] = [pauses.replayed, pauses.round, pauses.idle_round].map(us);
        println!(
            "{what}: {store:.0} us; with what the machine does: {round:.0} us (an idle loop: {idle:.0} us)"
        );
    }
    println!();
}

fn run_criterion(work: &Workload) {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group(work.name);
    group.throughput(Throughput::Elements(work.keys.len() as u64));
    group.sample_size(10);
    let contestants: [(&str, Box<dyn Contestant>); 3] = [
        ("sync", Box::new(Ours::new(work))),
        ("async", Box::new(Boxed::new(work))),
        ("governor", Box::new(Governor::new(work))),
    ];
    for (name, contestant) in contestants {
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter(|| contestant.decide_all());
        });
    }
    group.finish();
}

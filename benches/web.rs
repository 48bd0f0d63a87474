//! What a layer costs a request: an empty axum handler, called directly, bare and behind layers; then over loopback.

use criterion::Criterion;
use limiter_benches::web::{Web, WebContest, call};

fn main() -> std::io::Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut group = criterion.benchmark_group("web");
    for web in Web::ALL {
        let router = web.router();
        group.bench_function(web.name(), |bencher| {
            bencher.iter(|| runtime.block_on(call(router.clone())));
        });
    }
    group.finish();
    criterion.final_summary();

    println!(
        "\nrequests a second of the server's running time, over 16 connections on loopback, taking turns:"
    );
    let contest = WebContest::over_loopback(5, 15)?;
    for (web, per_second) in Web::ALL.iter().zip(contest.per_second) {
        let ratio = contest.ratio(*web, Web::Bare);
        println!("{:<28} {per_second:>9.0}  {ratio:.3} of bare", web.name());
    }
    Ok(())
}

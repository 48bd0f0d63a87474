//! What a layer costs a request, without a network: allocations, and instructions where `perf` counts them.
//!
//! ```sh
//! cargo run --release -p limiter-benches --bin layer_cost                     # allocations of one request
//! perf stat -e instructions:u target/release/layer_cost "limiter-axum" 1000000  # one of them, a million times
//! ```

use limiter_benches::web::{Web, call};

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut arguments = std::env::args().skip(1);
    let wanted = arguments.next();
    let count = arguments.next().and_then(|count| count.parse().ok());
    for web in Web::ALL {
        if wanted.as_ref().is_some_and(|wanted| wanted != web.name()) {
            continue;
        }
        let router = web.router();
        let requests = |count: u32| {
            for _ in 0..count {
                std::hint::black_box(runtime.block_on(call(router.clone())));
            }
        };
        requests(1);
        let used = allocation_counter::measure(|| requests(count.unwrap_or(1000)));
        let each = |total: u64| total / u64::from(count.unwrap_or(1000));
        println!(
            "{:<28} {:>4} allocations, {:>6} bytes a request",
            web.name(),
            each(used.count_total),
            each(used.bytes_total)
        );
    }
    Ok(())
}

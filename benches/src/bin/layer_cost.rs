//! What a layer costs a request, without a network: allocations, and instructions if run under what counts them.
//!
//! ```sh
//! cargo run --release -p limiter-benches --bin layer_cost                                # allocations of one request
//! valgrind --tool=callgrind target/release/layer_cost "limiter-axum" 22000               # one of them, so many times
//! ```
//!
//! What a request takes is the difference of two counts, divided by how many more requests there were.

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
                runtime.block_on(call(router.clone()));
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

//! [`block_on`]: runs what is async in a test that is not.

use std::future::Future;
use std::pin::{Pin, pin};

/// Runs `future` to its end on a runtime of its own, with four worker threads for what it spawns.
///
/// # Panics
/// If called from within a runtime, or if the system gives no threads.
#[expect(
    clippy::expect_used,
    reason = "the future has ended, or panicked, when it is no longer run"
)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut output = None;
    run(pin!(async { output = Some(future.await) }));
    output.expect("a future that ended")
}

/// The same for every future, so that the runtime is built here once, and not anew for every test.
fn run(future: Pin<&mut dyn Future<Output = ()>>) {
    runtime().block_on(future);
}

#[expect(
    clippy::expect_used,
    reason = "without a runtime there is no test to fail"
)]
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime starts")
}

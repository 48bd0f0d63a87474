//! [`block_on`]: runs what is async in a test that is not.

use std::future::Future;

/// Runs `future` to its end on a runtime of its own, with four worker threads for what it spawns.
///
/// # Panics
/// If called from within a runtime, or if the system gives no threads.
pub fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
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

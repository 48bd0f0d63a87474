//! Sessions, nonces, IP signals, anomalies and clusters on a server: scripts, names, calls, and the ports of
//! [`limiter_sessions`] on any client.

mod feed_call;
mod index_call;
mod names;
mod report;
mod script_call;
mod server_info;
mod session_runner;
mod signals_call;
mod stored_session;
mod visit_call;

use limiter_sessions::Retention;

pub use names::{SessionKey, SessionNames};
pub use server_info::ServerInfo;
pub use session_runner::SessionRunner;
pub use stored_session::read_session;

fn micros(retention: Retention) -> u64 {
    u64::try_from(retention.get().as_micros()).unwrap_or(u64::MAX)
}

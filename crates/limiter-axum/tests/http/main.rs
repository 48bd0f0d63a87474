//! The layer through a real server and real clients, and by itself where only that shows the rule.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a value that a test makes is good, or the test fails"
)]

mod abuse;
mod abuse_faults;
mod access;
mod bursts;
mod extractors;
mod fields;
mod forwarded;
mod grpc;
mod harness;
mod keys;
mod log;
mod outage;
mod refund_sources;
mod refunds;
mod routes;
mod scopes;
mod tower_rules;
mod undecided;

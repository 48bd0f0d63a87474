//! Measures limiter beside those who do the same, in one run, taking turns: only ratios survive a noisy machine.
//!
//! `cargo bench -p limiter-benches --bench memory` prints the long form; `cargo run --release -p limiter-benches --bin
//! figures` the goals, one a line.
#![allow(
    clippy::cast_precision_loss,
    reason = "what is measured is not exact to 52 bits"
)]

pub mod child;
pub mod cluster_figures;
pub mod contest;
pub mod contestant;
pub mod figure;
pub mod pause;
pub mod resident;
pub mod shared_figures;
pub mod shared_store;
pub mod turned_clock;
pub mod turns;
pub mod web;
pub mod workload;

use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::toxic::ToxicSet;

const CHUNK_BYTES: usize = 16 * 1024;
/// Bytes under way between the two ends, in chunks: bounds what a stalled connection holds.
pub(super) const CHUNKS_MAX: usize = 64;
/// A bandwidth is kept by pieces of this many to the second.
const PIECES_PER_SECOND: u32 = 50;

/// Bytes, and when they came.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) came_at: Instant,
}

/// Reads until the end of the stream, whatever the other end does with it.
pub(super) async fn receive(
    from: &mut ReadHalf<'_>,
    to: mpsc::Sender<Chunk>,
    mut inspect: impl FnMut(&[u8]),
) -> io::Result<()> {
    loop {
        let mut bytes = vec![0; CHUNK_BYTES];
        let length = from.read(&mut bytes).await?;
        bytes.truncate(length);
        inspect(&bytes);
        if length == 0
            || to
                .send(Chunk {
                    bytes,
                    came_at: Instant::now(),
                })
                .await
                .is_err()
        {
            return Ok(());
        }
    }
}

/// The far end of one direction: writes as the toxics of the moment say.
#[derive(Debug)]
pub(super) struct Outlet<'a> {
    to: WriteHalf<'a>,
    toxics: watch::Receiver<ToxicSet>,
    random: fastrand::Rng,
    /// Bytes have been thrown away: what follows would be out of step.
    silent: bool,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(to: WriteHalf<'a>, toxics: watch::Receiver<ToxicSet>, seed: u64) -> Self {
        Self {
            to,
            toxics,
            random: fastrand::Rng::with_seed(seed),
            silent: false,
        }
    }

    /// Waits for as long as bytes that came at `came_at` are under way.
    pub(super) async fn travel(&mut self, came_at: Instant) {
        let latency = self.toxics.borrow().latency;
        if let Some((delay, jitter)) = latency {
            sleep_until(came_at + delay + jitter.mul_f64(self.random.f64())).await;
        }
    }

    /// Writes `bytes`, or as much of them as the toxics let through.
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.toxics.wait_for(|toxics| !toxics.stall).await.is_err() {
                return Ok(());
            }
            let toxics = *self.toxics.borrow_and_update();
            self.silent |= toxics.blackhole;
            if self.silent {
                return Ok(());
            }
            let (piece, rest) = bytes.split_at(piece_length(&toxics).min(bytes.len()));
            if let Some(rate) = toxics.bandwidth {
                let share = u32::try_from(piece.len()).unwrap_or(u32::MAX);
                sleep(Duration::from_secs(1) * share / rate.get()).await;
            }
            self.to.write_all(piece).await?;
            if let Some((_, gap)) = toxics.slices {
                sleep(gap).await;
            }
            bytes = rest;
        }
        Ok(())
    }
}

fn piece_length(toxics: &ToxicSet) -> usize {
    let slice = toxics.slices.map_or(usize::MAX, |(size, _)| size.get());
    let share = toxics
        .bandwidth
        .and_then(|rate| usize::try_from(rate.get() / PIECES_PER_SECOND).ok());
    slice.min(share.map_or(usize::MAX, |share| share.max(NonZeroUsize::MIN.get())))
}

//! [`Attempts`]: what is tried again and again in the background, and how often.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Attempts at something that may fail: one at a time, each in a task of its own, and none sooner after the one before than a
/// [pause](LEAST_BETWEEN).
///
/// The pause counts from when an attempt began, however it ended. So a server that takes a connection and is of no use on it, because
/// it was demoted or closes at once, is called on as rarely as one that refuses it. What worked for longer is tried again at once.
#[derive(Debug)]
pub(super) struct Attempts<E> {
    under_way: Option<watch::Receiver<()>>,
    failed: Option<E>,
    next_at: Option<Instant>,
}

/// The least time between the beginnings of two attempts. Up to a fifth is added at random, so that nodes that lost a server at the
/// same moment do not come back all at once.
const LEAST_BETWEEN: Duration = Duration::from_millis(500);

impl<E> Default for Attempts<E> {
    fn default() -> Self {
        Self {
            under_way: None,
            failed: None,
            next_at: None,
        }
    }
}

impl<E: Clone> Attempts<E> {
    /// Returns what tells that the attempt under way is over, or has something to tell before that.
    /// If there is none, `begin` begins one; what it is given tells so when it is used or dropped.
    ///
    /// # Errors
    /// What went wrong last, if anything did, when it is too early for another attempt.
    pub(super) fn join(
        &mut self,
        begin: impl FnOnce(watch::Sender<()>),
    ) -> Result<watch::Receiver<()>, Option<E>> {
        if let Some(under_way) = &self.under_way {
            if under_way.has_changed().is_ok() {
                let mut under_way = under_way.clone();
                under_way.mark_unchanged();
                return Ok(under_way);
            }
            // One that is gone without a word never began: its runtime ended before.
            self.next_at = None;
        }
        let now = Instant::now();
        if self.next_at.is_some_and(|next_at| now < next_at) {
            return Err(self.failed.clone());
        }
        self.note_begun();
        let (done, under_way) = watch::channel(());
        self.under_way = Some(under_way.clone());
        begin(done);
        Ok(under_way)
    }

    /// Notes that the attempt under way begins anew: the pause counts from now.
    pub(super) fn note_begun(&mut self) {
        self.next_at = Some(Instant::now() + pause());
    }

    /// Notes that the attempt under way is over, for better or worse.
    pub(super) fn end(&mut self) {
        self.under_way = None;
    }

    /// Notes that an attempt succeeded.
    pub(super) fn note_success(&mut self) {
        self.failed = None;
    }

    /// Returns what went wrong last, if nothing has succeeded since; another attempt may be under way.
    pub(super) const fn failure(&self) -> Option<&E> {
        self.failed.as_ref()
    }

    /// Notes what went wrong: in an attempt, or with what an attempt had brought.
    pub(super) fn note_failure(&mut self, error: E) {
        self.failed = Some(error);
    }
}

fn pause() -> Duration {
    LEAST_BETWEEN.mul_f64(1.0 + fastrand::f64() / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins an attempt and ends it at once; returns what became of it.
    fn attempt(attempts: &mut Attempts<&'static str>, says: Option<&'static str>) -> bool {
        let begun = attempts.join(|done| done.send(()).unwrap_or_default());
        attempts.end();
        if let Some(error) = says {
            attempts.note_failure(error);
        }
        begun.is_ok()
    }

    #[test]
    fn one_attempt_is_under_way_at_a_time() {
        let (mut attempts, mut begun) = (Attempts::<&str>::default(), None);
        let first = attempts.join(|done| begun = Some(done));
        assert!(first.is_ok_and(|first| first.has_changed().is_ok()));
        let second = attempts.join(|_| unreachable!("one is under way"));
        assert!(second.is_ok());
        drop(begun.take());
        let third = attempts.join(|done| begun = Some(done));
        assert!(third.is_ok(), "the first was abandoned, not made");
    }

    #[test]
    fn pause_counts_from_when_the_attempt_last_began() {
        let (mut attempts, mut begun) = (Attempts::<&str>::default(), None);
        let _first = attempts.join(|done| begun = Some(done));
        attempts.next_at = Some(Instant::now());
        attempts.note_begun();
        attempts.end();
        let too_early = attempts.join(|_| unreachable!("it is too early"));
        assert!(too_early.is_err());
    }

    #[test]
    fn attempts_are_apart_whatever_became_of_the_one_before() {
        for says in [Some("refused"), None] {
            let mut attempts = Attempts::default();
            assert!(attempt(&mut attempts, says));
            let too_early = attempts.join(|_| unreachable!("it is too early"));
            assert_eq!(too_early.map(drop), Err(says));
            attempts.next_at = Some(Instant::now());
            assert!(attempt(&mut attempts, says), "it is time");
        }
        for _ in 0..100 {
            assert!((LEAST_BETWEEN..LEAST_BETWEEN * 6 / 5).contains(&pause()));
        }
    }
}

//! The attempts of one request: each is counted once, however many layers and handlers ask.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use limiter_core::{AbuseGuard, Key, Refusal, RefusalCode};

use super::settings::AbuseSettings;
use super::{AttemptOutcome, Counting};

/// The attempts of one request, shared by all the layers around its handler.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Page>);

#[derive(Default)]
struct Page {
    /// What the handler said of how it ended.
    word: Option<AttemptOutcome>,
    entries: Vec<Entry>,
}

/// An attempt of one key under one policy.
struct Entry {
    settings: Arc<AbuseSettings>,
    counting: Counting,
    guard: Arc<AbuseGuard>,
    key: Key,
    /// It was let pass, and how it ended is not told yet.
    open: bool,
}

impl Ledger {
    pub(super) fn say(&self, word: AttemptOutcome) {
        self.page().word = Some(word);
    }

    pub(super) fn word(&self) -> Option<AttemptOutcome> {
        self.page().word
    }

    /// Lets an attempt of `key` in, counted as `counting` says; one that this request has made already is not counted again.
    pub(super) async fn enter(
        &self,
        settings: &Arc<AbuseSettings>,
        counting: Counting,
        guard: &Arc<AbuseGuard>,
        key: &Key,
    ) -> Result<(), Refusal> {
        let Some(place) = self.note(settings, counting, guard, key) else {
            return guard.look(key).await;
        };
        match counting {
            Counting::Attempts => guard.attempt(key).await?,
            Counting::Failures => look_and_count_if_blocked(guard, key).await?,
        }
        if let Some(entry) = self.page().entries.get_mut(place) {
            entry.open = true;
        }
        Ok(())
    }

    /// Writes an attempt down and returns its place, unless it is there.
    fn note(
        &self,
        settings: &Arc<AbuseSettings>,
        counting: Counting,
        guard: &Arc<AbuseGuard>,
        key: &Key,
    ) -> Option<usize> {
        let mut page = self.page();
        let is_there = page
            .entries
            .iter()
            .any(|entry| entry.guard.policy().name() == guard.policy().name() && entry.key == *key);
        if is_there {
            return None;
        }
        page.entries.push(Entry {
            settings: Arc::clone(settings),
            counting,
            guard: Arc::clone(guard),
            key: key.clone(),
            open: false,
        });
        Some(page.entries.len() - 1)
    }

    /// Does what is due after `outcome` for the attempts that came in by `settings`, once each.
    ///
    /// # Cancel safety
    /// Of a dropped call, the attempt that was being settled may have been so; the others still can be.
    pub(super) async fn settle(&self, settings: &Arc<AbuseSettings>, outcome: AttemptOutcome) {
        while let Some((counting, guard, key)) = self.close_one(settings) {
            let told = match (outcome, counting) {
                (AttemptOutcome::Succeeded, _) if settings.forgives => guard.succeeded(&key).await,
                // Whether this very failure starts a block is told to the next request.
                (AttemptOutcome::Failed, Counting::Failures) => {
                    let _ = guard.attempt(&key).await;
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(refusal) = told {
                tracing::debug!(target: "limiter", "attempts are not forgiven: {refusal}");
            }
        }
    }

    /// Takes an attempt that came in by `settings` and is not settled yet.
    fn close_one(&self, settings: &Arc<AbuseSettings>) -> Option<(Counting, Arc<AbuseGuard>, Key)> {
        let mut page = self.page();
        let mut entries = page.entries.iter_mut();
        let entry = entries.find(|entry| entry.open && Arc::ptr_eq(&entry.settings, settings))?;
        entry.open = false;
        Some((entry.counting, Arc::clone(&entry.guard), entry.key.clone()))
    }

    fn page(&self) -> MutexGuard<'_, Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks whether a block is in force. To meet it is an attempt, which counts as the policy says.
async fn look_and_count_if_blocked(guard: &AbuseGuard, key: &Key) -> Result<(), Refusal> {
    let Err(refusal) = guard.look(key).await else {
        return Ok(());
    };
    match refusal.code() {
        RefusalCode::TooManyAttempts | RefusalCode::RateLimited => {
            guard.attempt(key).await.and(Err(refusal))
        }
        _ => Err(refusal),
    }
}

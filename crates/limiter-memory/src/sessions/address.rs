//! [`Address`]: what is known of an address.

use limiter_core::Timestamp;
use limiter_sessions::{BotProbability, IpSignal};

use super::uniques::Uniques;

/// What is known of an address: sums and counts that are only ever added to.
pub(super) struct Address {
    first_seen: Timestamp,
    last_seen: Timestamp,
    sessions: u64,
    bot_sum_ppm: u64,
    bot_count: u64,
    uniques: Uniques,
}

impl Address {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self {
            first_seen: now,
            last_seen: now,
            sessions: 0,
            bot_sum_ppm: 0,
            bot_count: 0,
            uniques: Uniques::new(),
        }
    }

    /// Counts a request that shows the fingerprint with this tag.
    pub(super) fn count(
        &mut self,
        is_new: bool,
        bot: Option<BotProbability>,
        fingerprint: u64,
        now: Timestamp,
    ) {
        self.last_seen = self.last_seen.max(now);
        self.sessions += u64::from(is_new);
        if let Some(bot) = bot {
            self.bot_sum_ppm = self.bot_sum_ppm.saturating_add(bot.ppm().into());
            self.bot_count += 1;
        }
        self.uniques.add(fingerprint);
    }

    pub(super) fn ends_at(&self) -> Timestamp {
        self.last_seen.saturating_add(IpSignal::RETENTION.get())
    }

    pub(super) fn signal(&self) -> IpSignal {
        IpSignal::new(
            (self.first_seen, self.last_seen),
            self.sessions,
            self.uniques.count(),
            BotProbability::mean(self.bot_sum_ppm, self.bot_count),
        )
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.uniques.heap_bytes()
    }
}

//! [`AbuseModel`]: what every store of attempts has to answer, worked out the slow and obvious way.
//!
//! Written from the description and not from the code that it checks: every attempt and every block that ever started is
//! kept, and each answer is worked out from all of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use limiter_core::{
    AbusePolicy, AbuseVerdict, Block, Key, PlanName, Source, Timestamp, WhileBlocked,
};

/// The reference that stores of attempts are compared with: all attempts and all blocks of all keys.
///
/// # Examples
/// ```
/// use limiter_core::{AbusePolicy, Key, Tier, Timestamp, minutes};
/// use limiter_testkit::abuse::AbuseModel;
///
/// let login = AbusePolicy::builder("login").tier(Tier::new("temp", 2, minutes(10))).build()?;
/// let (mut model, key, now) = (AbuseModel::default(), Key::new("ada")?, Timestamp::EPOCH);
/// assert!(model.record(&key, &login, now).block.is_none());
/// assert!(model.record(&key, &login, now).block.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AbuseModel {
    pasts: BTreeMap<(String, Vec<u8>), Past>,
}

/// All that ever happened to one key under one policy.
#[derive(Clone, Debug)]
struct Past {
    policy: AbusePolicy,
    /// The latest moment at which anything happened.
    latest_us: u64,
    attempts_us: Vec<u64>,
    /// How many attempts there ever were.
    recorded: u64,
    /// Unbroken stretches of blocks.
    stretches: Vec<Vec<PastBlock>>,
}

/// A block that started, whether or not it was ever the one in force.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PastBlock {
    /// The number of the attempt that started it.
    attempt: u64,
    tier: usize,
    scope: PlanName,
    since_us: u64,
    until_us: u64,
}

/// The most strikes that an escalation keeps.
const STRIKES_MAX: u64 = 32;

impl AbuseModel {
    /// Counts an attempt.
    pub fn record(&mut self, key: &Key, policy: &AbusePolicy, now: Timestamp) -> AbuseVerdict {
        let past = self.pasts.entry(name_of(key, policy)).or_insert(Past {
            policy: policy.clone(),
            latest_us: now.as_micros(),
            attempts_us: Vec::new(),
            recorded: 0,
            stretches: Vec::new(),
        });
        past.policy = policy.clone();
        let before = past.in_force(past.time_us(now)).cloned();
        if before.is_some() && policy.while_blocked() == WhileBlocked::Ignore {
            return past.answer(now);
        }
        past.latest_us = past.time_us(now);
        past.attempts_us.push(past.latest_us);
        past.recorded += 1;
        past.start_blocks(before.is_some());
        let after = past.in_force(past.latest_us);
        let started = after.is_some() && after != before.as_ref();
        AbuseVerdict {
            started,
            ..past.answer(now)
        }
    }

    /// Says how a key stands.
    pub fn status(&self, key: &Key, policy: &AbusePolicy, now: Timestamp) -> AbuseVerdict {
        let nothing = || Past {
            policy: policy.clone(),
            latest_us: 0,
            attempts_us: Vec::new(),
            recorded: 0,
            stretches: Vec::new(),
        };
        let past = self.pasts.get(&name_of(key, policy)).cloned();
        let mut past = past.unwrap_or_else(nothing);
        past.policy = policy.clone();
        past.answer(now)
    }

    /// Forgets the attempts of a key.
    pub fn forgive(&mut self, key: &Key, policy: &AbusePolicy, now: Timestamp) {
        let name = name_of(key, policy);
        if let Some(past) = self.pasts.get_mut(&name) {
            past.policy = policy.clone();
            past.latest_us = past.time_us(now);
            past.attempts_us.clear();
            if past.means_nothing(past.latest_us) {
                self.pasts.remove(&name);
            }
        }
    }

    /// Lifts the block of a key, with all that is known of the key.
    pub fn unblock(&mut self, key: &Key, policy: &AbusePolicy, now: Timestamp) -> Option<Block> {
        let block = self.status(key, policy, now).block?;
        self.pasts.remove(&name_of(key, policy));
        Some(block)
    }

    /// Counts the keys that anything is known of.
    #[must_use]
    pub fn tracked_keys(&self) -> usize {
        self.pasts.len()
    }

    /// Forgets the keys of which nothing has meant anything for more than a second.
    pub fn forget_outlived(&mut self, now: Timestamp) {
        let then = now.saturating_sub(Duration::from_secs(1));
        self.pasts
            .retain(|_, past| !past.means_nothing(then.as_micros()));
    }
}

fn name_of(key: &Key, policy: &AbusePolicy) -> (String, Vec<u8>) {
    let policy = policy.name().as_str().to_ascii_lowercase();
    (policy, key.as_bytes().to_vec())
}

impl Past {
    fn time_us(&self, now: Timestamp) -> u64 {
        self.latest_us.max(now.as_micros())
    }

    /// Of all blocks that run, the one that ends last; of those the one that was there first, of those the hardest.
    fn in_force(&self, time_us: u64) -> Option<&PastBlock> {
        let running = self.stretches.iter().flatten();
        let running = running.filter(|block| block.until_us > time_us);
        running.max_by_key(|block| (block.until_us, Reverse(block.attempt), block.tier))
    }

    fn count(&self, window_us: u64, time_us: u64) -> usize {
        let inside = |came_us: &&u64| time_us - **came_us < window_us;
        self.attempts_us.iter().filter(inside).count()
    }

    fn answer(&self, now: Timestamp) -> AbuseVerdict {
        let time_us = self.time_us(now);
        let most = usize::try_from(self.policy.largest_threshold()).unwrap_or(usize::MAX);
        let count = |window_us| u32::try_from(self.count(window_us, time_us).min(most));
        let tiers = self.policy.tiers().iter();
        AbuseVerdict {
            source: Source::Store,
            block: self.in_force(time_us).map(|block| Block {
                scope: block.scope.clone(),
                since: Timestamp::from_micros(block.since_us).unwrap_or(Timestamp::MAX),
                retry_after: Duration::from_micros(block.until_us - now.as_micros()),
            }),
            started: false,
            counts: tiers
                .map(|tier| count(tier.window_us()).unwrap_or(u32::MAX))
                .collect(),
        }
    }

    /// Starts the block of every tier that has its attempts, unless it has done so in this stretch.
    fn start_blocks(&mut self, blocked: bool) {
        let time_us = self.latest_us;
        let strikes = self.strikes_at(if blocked {
            self.stretches.len() - 1
        } else {
            self.stretches.len()
        });
        let mut stretch = match blocked {
            true => self.stretches.pop().unwrap_or_default(),
            false => Vec::new(),
        };
        for (nth, tier) in self.policy.tiers().iter().enumerate() {
            let enough = self.count(tier.window_us(), time_us) >= tier.threshold() as usize;
            if enough && stretch.iter().all(|block| block.tier != nth) {
                stretch.push(PastBlock {
                    attempt: self.recorded,
                    tier: nth,
                    scope: tier.name().clone(),
                    since_us: time_us,
                    until_us: time_us + self.block_us(tier.block_us(), strikes),
                });
            }
        }
        if !stretch.is_empty() {
            self.stretches.push(stretch);
        }
    }

    fn block_us(&self, plain_us: u64, strikes: u64) -> u64 {
        let Some(escalation) = self.policy.escalation() else {
            return plain_us;
        };
        let factor = u128::from(escalation.factor());
        let grown = (0..strikes).fold(u128::from(plain_us), |block, _| {
            block.saturating_mul(factor)
        });
        let at_most = escalation.at_most().as_micros();
        u64::try_from(grown.min(at_most)).unwrap_or(u64::MAX)
    }

    /// Returns the strikes that stood when the stretch number `nth` began, or would if it began at the latest moment.
    fn strikes_at(&self, nth: usize) -> u64 {
        let began = |stretch: &Vec<PastBlock>| stretch.first().map(|block| block.since_us);
        let begins_us = self
            .stretches
            .get(nth)
            .and_then(began)
            .unwrap_or(self.latest_us);
        self.standing_strikes(nth, begins_us)
    }

    /// Returns how many strikes of the first `stretches` stretches stand at `time_us`, which is after them.
    fn standing_strikes(&self, stretches: usize, time_us: u64) -> u64 {
        let Some(escalation) = self.policy.escalation() else {
            return 0;
        };
        let memory_us = u64::try_from(escalation.memory().as_micros()).unwrap_or(u64::MAX);
        let (mut strikes, mut ended_us) = (0_u64, 0_u64);
        for stretch in self.stretches.iter().take(stretches) {
            let began_us = stretch.first().map_or(0, |block| block.since_us);
            strikes = strikes.saturating_sub((began_us - ended_us) / memory_us);
            strikes = (strikes + 1).min(STRIKES_MAX);
            let ends_us = stretch.iter().map(|block| block.until_us).max();
            ended_us = ends_us.unwrap_or(0);
        }
        strikes.saturating_sub(time_us.saturating_sub(ended_us) / memory_us)
    }

    fn means_nothing(&self, time_us: u64) -> bool {
        let counts = self
            .attempts_us
            .iter()
            .any(|came_us| came_us + self.policy.longest_window_us() > time_us);
        !counts
            && self.in_force(time_us).is_none()
            && self.standing_strikes(self.stretches.len(), time_us) == 0
    }
}

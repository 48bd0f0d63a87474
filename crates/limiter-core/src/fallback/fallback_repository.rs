//! [`FallbackRepository`]: a local store that stands in while the shared one fails.

use std::sync::Arc;

use async_trait::async_trait;

use super::shares::Shares;
use super::{Share, ShareTooSmall};
use crate::{
    Cost, FailureLog, Key, NoObserver, Observer, Plan, RateLimiterRepository, Refund, Source,
    StoreError, Verdict,
};

/// A local store, and this node's share of each limit: what stands in while the shared store is away.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// # use limiter_core::{BreakerMode, CircuitBreaker, Cost, FallbackRepository, Key, LocalStore, Plan, Share};
/// # use limiter_core::RateLimiterRepository;
/// # use limiter_testkit::{ManualClock, ManualRandom, ModelStore, block_on};
/// # let (clock, random) = (Arc::new(ManualClock::new()), Arc::new(ManualRandom::default()));
/// # let shared = CircuitBreaker::new(Arc::new(ModelStore::new()), clock, random);
/// let local = LocalStore::new(Arc::new(ModelStore::new()), Share::of_nodes(4)?);
/// shared.set_mode(BreakerMode::ForcedOpen); // as if the shared store were down
/// let store = FallbackRepository::new(Arc::new(shared), local);
///
/// let verdict = block_on(store.try_acquire(&Key::new("ada")?, &[Plan::new("gold", "100/s")?], Cost::ONE))?;
/// assert_eq!(verdict.plans[0].remaining, 24); // of this node's quarter
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LocalStore {
    store: Arc<dyn RateLimiterRepository>,
    share: Share,
}

impl LocalStore {
    /// Lets `store`, which must not depend on the shared one, grant `share` of each limit.
    ///
    /// A plan of which the share is too small is denied while the shared store is away: [`for_plans`](Self::for_plans) tells.
    #[must_use]
    pub fn new(store: Arc<dyn RateLimiterRepository>, share: Share) -> Self {
        Self { store, share }
    }

    /// Does as [`new`](Self::new), for plans that are known: each of them has a share that admits.
    ///
    /// # Errors
    /// [`ShareTooSmall`] names the first of `plans` of which the share is less than one unit in 366 days.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// # use limiter_core::{LocalStore, Plan, RateLimiterRepository, Share};
    ///
    /// # fn local(store: Arc<dyn RateLimiterRepository>) -> Result<(), Box<dyn std::error::Error>> {
    /// let plans = [Plan::new("gold", "10/s")?, Plan::new("yearly", "100/366d")?];
    /// assert!(LocalStore::for_plans(Arc::clone(&store), Share::of_nodes(100)?, &plans).is_ok());
    /// assert!(LocalStore::for_plans(store, Share::of_nodes(101)?, &plans).is_err());
    /// # Ok(())
    /// # }
    /// # local(Arc::new(limiter_testkit::ModelStore::new())).unwrap();
    /// ```
    pub fn for_plans(
        store: Arc<dyn RateLimiterRepository>,
        share: Share,
        plans: &[Plan],
    ) -> Result<Self, ShareTooSmall> {
        plans.iter().try_for_each(|plan| share.of(plan).map(drop))?;
        Ok(Self::new(store, share))
    }

    /// Returns this node's share of each of `plans`.
    pub(crate) fn shares(&self, plans: &[Plan]) -> Shares {
        Shares::new(self.share, plans)
    }

    /// Decides by the local store alone; `shares` are the plans as [`LocalStore::shares`] gives them.
    pub(crate) async fn try_acquire(
        &self,
        key: &Key,
        shares: &Shares,
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let verdict = match shares.granting() {
            [] => Verdict::of_none(),
            granting if shares.deny() => {
                let standing = self.store.peek(key, granting, cost).await;
                standing.unwrap_or_else(|_| Verdict::denied_by_all(granting.len()))
            }
            granting => self.store.try_acquire(key, granting, cost).await?,
        };
        Ok(by_fallback(shares.complete(verdict)))
    }

    async fn peek(&self, key: &Key, shares: &Shares, cost: Cost) -> Result<Verdict, StoreError> {
        let verdict = match shares.granting() {
            [] => Verdict::of_none(),
            granting => self.store.peek(key, granting, cost).await?,
        };
        Ok(by_fallback(shares.complete(verdict)))
    }

    /// Gives back what the local store charged, under this node's share of each of `plans`.
    pub(crate) async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        let shares = self.shares(plans);
        let verdict = match shares.granting() {
            [] => Verdict::of_none(),
            granting => {
                let refund = shares.granted_of(refund);
                self.store.refund(key, granting, &refund).await?
            }
        };
        Ok(by_fallback(shares.complete(verdict)))
    }
}

fn by_fallback(verdict: Verdict) -> Verdict {
    Verdict {
        source: Source::Fallback,
        ..verdict
    }
}

/// A repository that asks a local store whenever the shared one is away, overloaded or full.
///
/// A shared store that is [misconfigured](StoreError::Misconfigured) is none of these: its error is passed on. A failure that the
/// local store answers for is seen by nobody further out, so it is logged here, as [`FailureLog`] says.
///
/// Nothing is copied between the two: when the shared store comes back, it knows what it knew. A request that costs more
/// than this node's share gets the shared store's error. The verdict says [`Source::Fallback`]. A plan of which the share is too
/// small ([`ShareTooSmall`]) is denied. A refund goes to the store that charged, whether the other one can be reached or not.
///
/// # Cancel safety
/// As the port says, in each of the two stores. A dropped `reset` may have reset the local one alone.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::{FallbackRepository, LocalStore, RateLimiterRepository, Share};
///
/// fn with_fallback(
///     shared: Arc<dyn RateLimiterRepository>, local: Arc<dyn RateLimiterRepository>,
/// ) -> Result<FallbackRepository, limiter_core::InvalidShare> {
///     Ok(FallbackRepository::new(shared, LocalStore::new(local, Share::of_nodes(8)?)))
/// }
/// ```
pub struct FallbackRepository {
    shared: Arc<dyn RateLimiterRepository>,
    local: LocalStore,
    observer: Arc<dyn Observer>,
    log: Arc<FailureLog>,
}

impl FallbackRepository {
    /// Puts `local` behind `shared`.
    #[must_use]
    pub fn new(shared: Arc<dyn RateLimiterRepository>, local: LocalStore) -> Self {
        Self {
            shared,
            local,
            observer: Arc::new(NoObserver),
            log: Arc::default(),
        }
    }

    /// Tells `observer` of every failure that the local store stands in for.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Writes failures of the shared store to `log`.
    #[must_use]
    pub fn with_failure_log(mut self, log: Arc<FailureLog>) -> Self {
        self.log = log;
        self
    }

    /// Keeps the shared store's error unless the local store has an answer.
    fn instead_of(
        &self,
        error: StoreError,
        local: Result<Verdict, StoreError>,
    ) -> Result<Verdict, StoreError> {
        self.log.failed(&error, CONSEQUENCE);
        match local {
            Ok(verdict) => {
                self.observer.store_failed(&error);
                Ok(verdict)
            }
            Err(local) => {
                if !matches!(local, StoreError::Request(_)) {
                    self.log.local_failed(&local);
                    self.observer.store_failed(&local);
                }
                Err(error)
            }
        }
    }

    /// Tells the log of an answer of the shared store.
    fn told<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if answer.is_ok() {
            self.log.answered();
        }
        answer
    }
}

const CONSEQUENCE: &str =
    "requests that need it are limited to this node's share by the local store (fallback)";

/// Says whether the local store stands in for a shared one that failed so.
const fn is_answered_for(error: &StoreError) -> bool {
    error.is_outage() || matches!(error, StoreError::Full { .. })
}

#[async_trait]
impl RateLimiterRepository for FallbackRepository {
    async fn try_acquire(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        match self.shared.try_acquire(key, plans, cost).await {
            Err(error) if is_answered_for(&error) => {
                let shares = self.local.shares(plans);
                let local = self.local.try_acquire(key, &shares, cost).await;
                self.instead_of(error, local)
            }
            answer => self.told(answer),
        }
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        match self.shared.peek(key, plans, cost).await {
            Err(error) if is_answered_for(&error) => {
                let shares = self.local.shares(plans);
                let local = self.local.peek(key, &shares, cost).await;
                self.instead_of(error, local)
            }
            answer => self.told(answer),
        }
    }

    async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        if refund.source == Source::Fallback {
            self.local.refund(key, plans, refund).await
        } else {
            self.told(self.shared.refund(key, plans, refund).await)
        }
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.local.store.reset(key, plans).await?;
        self.told(self.shared.reset(key, plans).await)
    }
}

//! [`FallbackRepository`]: a local store that stands in while the shared one fails.

use std::sync::Arc;

use async_trait::async_trait;

use super::shares::Shares;
use super::{Share, ShareTooSmall};
use crate::{Cost, Key, Plan, RateLimiterRepository, Source, StoreError, Verdict};

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

    async fn refund(&self, key: &Key, shares: &Shares, cost: Cost) -> Result<Verdict, StoreError> {
        let verdict = match shares.granting() {
            [] => Verdict::of_none(),
            granting => self.store.refund(key, granting, cost).await?,
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

/// A repository that asks a local store whenever the shared one gives no verdict.
///
/// Nothing is copied between the two: when the shared store comes back, it knows what it knew. A request that costs more
/// than this node's share gets the shared store's error. The verdict says [`Source::Fallback`]. A plan of which the share is too
/// small ([`ShareTooSmall`]) is denied.
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
}

impl FallbackRepository {
    /// Puts `local` behind `shared`.
    #[must_use]
    pub fn new(shared: Arc<dyn RateLimiterRepository>, local: LocalStore) -> Self {
        Self { shared, local }
    }
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
            Err(error) if !matches!(error, StoreError::Request(_)) => {
                let shares = self.local.shares(plans);
                let local = self.local.try_acquire(key, &shares, cost).await;
                local.map_err(|_| error)
            }
            answer => answer,
        }
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        match self.shared.peek(key, plans, cost).await {
            Err(error) if !matches!(error, StoreError::Request(_)) => {
                let shares = self.local.shares(plans);
                let local = self.local.peek(key, &shares, cost).await;
                local.map_err(|_| error)
            }
            answer => answer,
        }
    }

    async fn refund(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        match self.shared.refund(key, plans, cost).await {
            Err(error) if !matches!(error, StoreError::Request(_)) => {
                let shares = self.local.shares(plans);
                let local = self.local.refund(key, &shares, cost).await;
                local.map_err(|_| error)
            }
            answer => answer,
        }
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.local.store.reset(key, plans).await?;
        self.shared.reset(key, plans).await
    }
}

//! [`FallbackRepository`]: a local store that stands in while the shared one fails.

use std::sync::Arc;

use async_trait::async_trait;

use super::shares::Shares;
use super::{LocalFailure, Share, ShareTooSmall};
use crate::{
    Cost, FailureLog, Key, LogThrottle, NoObserver, Observer, Plan, RateLimiterRepository, Refund,
    Source, StoreError, Verdict, check_request,
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
    log: Arc<LogThrottle>,
}

impl LocalStore {
    /// Lets `store`, which must not depend on the shared one, grant `share` of each limit.
    ///
    /// A plan of which the share is too small, or below the cost of the request, denies while the
    /// shared store is away, and is told as used up. That is logged when it first happens, and then
    /// at most once a minute for each plan. [`for_plans`](Self::for_plans) tells of shares that are
    /// too small when the service starts.
    #[must_use]
    pub fn new(store: Arc<dyn RateLimiterRepository>, share: Share) -> Self {
        Self {
            store,
            share,
            log: Arc::default(),
        }
    }

    /// Does as [`new`](Self::new), for plans that are known: each of them has a share that admits.
    ///
    /// What replaces them later is not checked here. A share of it that denies is logged when it
    /// does.
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

    /// Returns this node's share of each of `plans`, for a request of `cost`.
    pub(crate) fn shares(&self, plans: &[Plan], cost: Cost) -> Shares {
        Shares::new(self.share, plans, cost)
    }

    /// Decides by the local store alone; `shares` are the plans as [`LocalStore::shares`] gives them.
    pub(crate) async fn try_acquire(
        &self,
        key: &Key,
        shares: &Shares,
        cost: Cost,
    ) -> Result<Verdict, StoreError> {
        let denies = shares.deny();
        if denies {
            shares.log_denials(&self.log);
        }
        let verdict = match shares.granting() {
            [] => Verdict::of_none(),
            granting if denies => self.store.peek(key, granting, cost).await?,
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
    ///
    /// A share that was below the charge was not charged, and says so: it gets nothing back. The
    /// standings are those for a request of one unit, so that no other share is left out.
    pub(crate) async fn refund(
        &self,
        key: &Key,
        plans: &[Plan],
        refund: &Refund,
    ) -> Result<Verdict, StoreError> {
        let shares = self.shares(plans, Cost::ONE);
        let verdict = match shares.granting() {
            [] => Verdict::of_none(),
            granting => {
                let refund = shares.granted_of(refund);
                self.store.refund(key, granting, &refund).await?
            }
        };
        Ok(by_fallback(shares.complete(verdict)))
    }

    /// Forgets `plans` of `key` in the local store.
    pub(crate) async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.store.reset(key, plans).await
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
/// A failure of the local store is logged here, too: a limiter further out would take it for one of
/// the shared store.
///
/// Nothing is copied between the two: when the shared store comes back, it knows what it knew. A
/// refund goes to the store that charged, whether the other one can be reached or not.
///
/// | while the shared store is away, overloaded or full | verdict |
/// |---|---|
/// | the local store decides | its own, which says [`Source::Fallback`] |
/// | a plan's share is [too small](ShareTooSmall), or below the cost | that plan denies |
/// | so is the share of a plan in shadow | that plan would deny, and denies nobody |
/// | the local store fails as well | turned away, which says [`Source::FailClosed`] |
///
/// So in all of these cases no failure policy of a limiter around it lets a request pass that the
/// local store has not admitted. A `peek` gets the shared store's error in the last one.
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

    /// Asks the local store instead of the shared one, which failed with `error`.
    async fn stand_in(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
        error: &StoreError,
    ) -> Result<Verdict, StoreError> {
        check_request(plans, Some(cost))?;
        self.failed(error);
        self.observer.store_failed(error);
        let shares = self.local.shares(plans, cost);
        match self.local.try_acquire(key, &shares, cost).await {
            Ok(verdict) => Ok(verdict),
            Err(local) => {
                self.local_failed(&local);
                Ok(Verdict::turned_away(plans.len()))
            }
        }
    }

    /// Looks at the local store instead of the shared one, which failed with `error`.
    async fn look_instead(
        &self,
        key: &Key,
        plans: &[Plan],
        cost: Cost,
        error: StoreError,
    ) -> Result<Verdict, StoreError> {
        check_request(plans, Some(cost))?;
        self.failed(&error);
        let shares = self.local.shares(plans, cost);
        match self.local.peek(key, &shares, cost).await {
            Ok(verdict) => {
                self.observer.store_failed(&error);
                Ok(verdict)
            }
            Err(local) => {
                self.local_failed(&local);
                Err(error)
            }
        }
    }

    fn failed(&self, error: &StoreError) {
        self.log.failed(error, CONSEQUENCE);
    }

    /// Tells of a local store that failed. A call that it refuses to look at is no failure.
    fn local_failed(&self, error: &StoreError) {
        if !matches!(error, StoreError::Request(_)) {
            self.log.local_failed(error);
            self.observer.store_failed(error);
        }
    }

    /// Tells the log of a failure of the local store that the caller is told of, too.
    fn told_by_local<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        answer.map_err(|error| {
            self.local_failed(&error);
            LocalFailure::mark(error)
        })
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
            Err(error) if is_answered_for(&error) => self.stand_in(key, plans, cost, &error).await,
            answer => self.told(answer),
        }
    }

    async fn peek(&self, key: &Key, plans: &[Plan], cost: Cost) -> Result<Verdict, StoreError> {
        match self.shared.peek(key, plans, cost).await {
            Err(error) if is_answered_for(&error) => {
                self.look_instead(key, plans, cost, error).await
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
            self.told_by_local(self.local.refund(key, plans, refund).await)
        } else {
            self.told(self.shared.refund(key, plans, refund).await)
        }
    }

    async fn reset(&self, key: &Key, plans: &[Plan]) -> Result<(), StoreError> {
        self.told_by_local(self.local.reset(key, plans).await)?;
        self.told(self.shared.reset(key, plans).await)
    }
}

//! [`IpLimit`]: how often an address may ask.

use std::sync::Arc;

use limiter_core::{CheckError, Cost, Decision, PlanName, RateLimiter};

use crate::{TagKey, VisitorIp};

/// Counts the requests of each address, of IPv6 of each /64, under a plan of a rate limiter, such as `fixed 100/min`. Addresses
/// are tagged first: the limiter's store sees none.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use limiter_core::{DefaultRateLimiter, InMemoryPlanRegistry, Plan, PlanName};
/// use limiter_memory::MemoryStore;
/// use limiter_sessions::{IpLimit, TagKey};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let plans = InMemoryPlanRegistry::new([Plan::new("per_ip", "fixed 2/min")?])?;
/// let limiter = Arc::new(DefaultRateLimiter::new(Arc::new(plans), Arc::new(MemoryStore::new())));
/// let limit = IpLimit::new(limiter, PlanName::new("per_ip")?, TagKey::new([7; 32])?);
/// let ip = "203.0.113.9".parse()?;
/// assert!(limit.check(ip).await?.is_allowed() && limit.check(ip).await?.is_allowed());
/// assert!(!limit.check(ip).await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct IpLimit {
    limiter: Arc<dyn RateLimiter>,
    plan: [PlanName; 1],
    tags: TagKey,
}

impl IpLimit {
    /// Counts under `plan` of `limiter`.
    #[must_use]
    pub fn new(limiter: Arc<dyn RateLimiter>, plan: PlanName, tags: TagKey) -> Self {
        Self {
            limiter,
            plan: [plan],
            tags,
        }
    }

    /// Counts a request of `ip`, and says whether it may go on and when the window ends.
    ///
    /// # Errors
    /// [`CheckError`] if the limiter does not know the plan.
    ///
    /// # Cancel safety
    /// A dropped call may still count, once.
    pub async fn check(&self, ip: VisitorIp) -> Result<Decision, CheckError> {
        let key = self.tags.rate_key(ip);
        self.limiter.check(&key, &self.plan, Cost::ONE).await
    }
}

impl std::fmt::Debug for IpLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IpLimit")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

//! [`verify`]: asks a limiter, and it the store, before the first request comes.

use crate::{CheckError, Cost, Key, PlanName, RateLimiter, StoreError};

/// How often a store is asked that gives no answer: a connection may take longer to be made than
/// one call may take.
pub(crate) const TRIES: u32 = 10;

/// Asks `limiter`, and it the store, for `cost` under `plans` in the name of nobody, and takes it
/// back: finds an unknown plan, a cost that a plan can never admit, and a store that is set up
/// wrongly, when a service starts and not at its first request.
///
/// All that a request needs is tried, also the right to write. So the observer sees a decision, and
/// the store has a key for a moment, which no caller's can be. A store that gives no answer is
/// asked up to ten times, which is half a second with the usual deadline; that it is away is no
/// mistake of the set-up, and the limiter logs it. What a limiter was told to tolerate may stay
/// hidden here, too.
///
/// # Errors
/// [`CheckError`] for a call that can never be answered; [`CheckError::Store`], with the cause, for
/// a store that does not know the password, grants too little or holds what this version does not
/// understand.
///
/// # Cancel safety
/// A dropped call may leave what nobody has spent, until it expires.
///
/// # Examples
/// ```
/// # use std::sync::Arc;
/// # use limiter_core::{Cost, DefaultRateLimiter, InMemoryPlanRegistry, Plan, PlanName};
/// # use limiter_testkit::{ModelStore, block_on};
/// let plans = InMemoryPlanRegistry::new([Plan::new("gold", "1/s burst 10")?])?;
/// let limiter = DefaultRateLimiter::new(Arc::new(plans), Arc::new(ModelStore::new()));
/// # block_on(async {
/// limiter_core::verify(&limiter, &[PlanName::new("gold")?], Cost::ONE).await?;
/// let unknown = limiter_core::verify(&limiter, &[PlanName::new("glod")?], Cost::ONE).await;
/// assert!(unknown.is_err_and(|error| error.to_string().contains("glod")));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn verify(
    limiter: &dyn RateLimiter,
    plans: &[PlanName],
    cost: Cost,
) -> Result<(), CheckError> {
    for _ in 0..TRIES {
        match spend_and_forget(limiter, plans, cost).await {
            Err(CheckError::Store(error)) if !is_misconfigured(&error) => {}
            answer => return answer,
        }
    }
    Ok(())
}

async fn spend_and_forget(
    limiter: &dyn RateLimiter,
    plans: &[PlanName],
    cost: Cost,
) -> Result<(), CheckError> {
    let nobody = nobody();
    // No failure policy answers for this one.
    let _would_be = limiter.peek(&nobody, plans, cost).await?;
    let _is = limiter.check(&nobody, plans, cost).await?;
    limiter.reset(&nobody, plans).await
}

/// The key of a check at the start, which nobody else has.
pub(crate) fn nobody() -> Key {
    Key::of_secret("check of a limiter at the start")
}

pub(crate) const fn is_misconfigured(error: &StoreError) -> bool {
    matches!(error, StoreError::Misconfigured { .. })
}

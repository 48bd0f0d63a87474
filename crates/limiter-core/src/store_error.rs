//! [`StoreError`]: why a store gave no verdict.

use std::error::Error;

use crate::InvalidRequest;

/// The cause of a [`StoreError`], as the store's client told it.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Says why a store gave no verdict, whether the cost may have been spent all the same, and what to do about it.
///
/// # Examples
/// ```
/// use limiter_core::{Charge, StoreError};
///
/// let error = StoreError::unavailable(Charge::Possible, "connection reset by peer");
/// assert!(error.may_have_charged() && error.is_outage());
/// assert!(error.to_string().starts_with("store is unavailable: see that it runs"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store was not reached, or did not answer in time. Trying later may help.
    #[error(
        "store is unavailable: see that it runs, can be reached and answers in time; later calls may succeed"
    )]
    Unavailable {
        /// Whether the cost may have been spent.
        charge: Charge,
        /// What the client said.
        #[source]
        cause: Cause,
    },
    /// The store is there but refuses for lack of room: memory, connections, keys. Trying later may help.
    #[error(
        "store is overloaded: give it the memory, disk, connections or replicas that it lacks; later calls may succeed"
    )]
    Overloaded {
        /// Whether the cost may have been spent.
        charge: Charge,
        /// What the client said.
        #[source]
        cause: Cause,
    },
    /// The store tracks as many keys as it may, and this one is new. Keys that it tracks are still limited exactly.
    #[error(
        "store is full: it tracks {max_keys} keys and this one is new; raise the cap or shorten the plans"
    )]
    Full {
        /// The most keys that it tracks.
        max_keys: usize,
    },
    /// The store is set up wrongly, or holds what this version does not understand. Trying again will not help.
    #[error("store is misconfigured: {advice}")]
    Misconfigured {
        /// What to do about it.
        advice: String,
        /// Whether the cost may have been spent: something after that was refused.
        charge: Charge,
        /// What the client said.
        #[source]
        cause: Cause,
    },
    /// The call itself can never be answered.
    #[error(transparent)]
    Request(#[from] InvalidRequest),
}

/// Whether a failed call may have spent its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Charge {
    /// The call did not run: nothing was spent, and it may be tried again.
    Impossible,
    /// The call may have run: trying again could charge twice.
    Possible,
}

impl StoreError {
    /// Says that the store was not reached or did not answer.
    #[must_use]
    pub fn unavailable(charge: Charge, cause: impl Into<Cause>) -> Self {
        Self::Unavailable {
            charge,
            cause: cause.into(),
        }
    }

    /// Says that the store refuses for lack of room.
    #[must_use]
    pub fn overloaded(charge: Charge, cause: impl Into<Cause>) -> Self {
        Self::Overloaded {
            charge,
            cause: cause.into(),
        }
    }

    /// Says that the store is set up wrongly, and what to do. Nothing was spent, unless
    /// [`with_charge`](Self::with_charge) says otherwise.
    #[must_use]
    pub fn misconfigured(advice: impl Into<String>, cause: impl Into<Cause>) -> Self {
        Self::Misconfigured {
            advice: advice.into(),
            charge: Charge::Impossible,
            cause: cause.into(),
        }
    }

    /// Returns the same error, saying of the cost what `charge` says. What can never have charged stays as it is.
    ///
    /// # Examples
    /// ```
    /// use limiter_core::{Charge, StoreError};
    ///
    /// let error = StoreError::unavailable(Charge::Possible, "connection reset by peer");
    /// assert!(!error.with_charge(Charge::Impossible).may_have_charged());
    /// ```
    #[must_use]
    pub fn with_charge(mut self, known: Charge) -> Self {
        match &mut self {
            Self::Unavailable { charge, .. }
            | Self::Overloaded { charge, .. }
            | Self::Misconfigured { charge, .. } => *charge = known,
            Self::Full { .. } | Self::Request(_) => {}
        }
        self
    }

    /// Returns the same error with the cause that `wrap` makes of its own, if it has one.
    #[must_use]
    pub(crate) fn with_cause(self, wrap: impl FnOnce(Cause) -> Cause) -> Self {
        match self {
            Self::Unavailable { charge, cause } => Self::Unavailable {
                charge,
                cause: wrap(cause),
            },
            Self::Overloaded { charge, cause } => Self::Overloaded {
                charge,
                cause: wrap(cause),
            },
            Self::Misconfigured {
                advice,
                charge,
                cause,
            } => Self::Misconfigured {
                advice,
                charge,
                cause: wrap(cause),
            },
            Self::Full { .. } | Self::Request(_) => self,
        }
    }

    /// Returns whether the cost may have been spent although there is no verdict.
    #[must_use]
    pub const fn may_have_charged(&self) -> bool {
        match self {
            Self::Unavailable { charge, .. }
            | Self::Overloaded { charge, .. }
            | Self::Misconfigured { charge, .. } => matches!(charge, Charge::Possible),
            Self::Full { .. } | Self::Request(_) => false,
        }
    }

    /// Returns whether the store as a whole is in trouble, so that a circuit breaker should count it.
    ///
    /// A wrong set-up, a full table or a bad call is none: to cut the store off would not help anybody.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Overloaded { .. })
    }

    /// Returns the name used in metrics and logs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "unavailable",
            Self::Overloaded { .. } => "overloaded",
            Self::Full { .. } => "full",
            Self::Misconfigured { .. } => "misconfigured",
            Self::Request(_) => "request",
        }
    }
}

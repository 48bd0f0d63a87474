//! What one request was charged, shared between the layer and the extractors inside of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, StatusCode};
use limiter_core::{Decision, Key};

use crate::headers;
use crate::rate_limit::CheckedLimit;
use crate::settings::Settings;

/// One request under one layer.
pub(crate) struct Scope {
    pub(crate) settings: Arc<Settings>,
    /// Nothing is charged to it.
    #[cfg_attr(
        not(feature = "axum"),
        expect(dead_code, reason = "read by the extractors")
    )]
    pub(crate) exempt: bool,
    pub(crate) grpc: bool,
    charges: Mutex<Vec<Charge>>,
}

/// What was charged, to whom, and how the plans stood then.
pub(crate) struct Charge {
    pub(crate) key: Key,
    pub(crate) limit: Arc<CheckedLimit>,
    pub(crate) decision: Decision,
    pub(crate) refunded: bool,
}

impl Scope {
    pub(crate) fn new(settings: Arc<Settings>, exempt: bool, grpc: bool) -> Self {
        Self {
            settings,
            exempt,
            grpc,
            charges: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn charges(&self) -> MutexGuard<'_, Vec<Charge>> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out all that was charged inside of the layer.
    pub(crate) fn take_charges(&self) -> Vec<Charge> {
        std::mem::take(&mut *self.charges())
    }
}

impl Charge {
    pub(crate) const fn new(key: Key, limit: Arc<CheckedLimit>, decision: Decision) -> Self {
        Self {
            key,
            limit,
            decision,
            refunded: false,
        }
    }

    pub(crate) fn is_due_back(&self) -> bool {
        self.limit.refund_failures && !self.refunded
    }

    /// Gives the cost back. A store that fails keeps it: the response is not held up by that.
    pub(crate) async fn give_back(&mut self, settings: &Settings) {
        let (plans, cost) = (&self.limit.plans, self.limit.cost);
        match settings.limiter.refund(&self.key, plans, cost).await {
            Ok(decision) => {
                self.decision = decision;
                self.refunded = true;
            }
            Err(error) => tracing::debug!(target: "limiter", "cost is not given back: {error}"),
        }
    }

    pub(crate) fn write(&self, settings: &Settings, status: StatusCode, headers: &mut HeaderMap) {
        headers::write(&settings.header_style, &self.decision, status, headers);
    }
}

//! What one request was charged, shared between the layer and the extractors inside of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, StatusCode};
use limiter_core::{Decision, Key};

use crate::rate_limit::CheckedLimit;
use crate::settings::Settings;

/// One request under one layer.
pub(crate) struct Scope {
    pub(crate) settings: Arc<Settings>,
    /// What the layer itself charges, and to whom.
    pub(crate) asked: Option<Asked>,
    /// That it may go on, and how the plans stand. It is kept here and not carried along: it is large.
    decision: Mutex<Option<Decision>>,
    /// Nothing is charged to it.
    #[cfg_attr(
        not(feature = "axum"),
        expect(dead_code, reason = "read by the extractors")
    )]
    pub(crate) exempt: bool,
    pub(crate) grpc: bool,
    /// Something was charged inside of the layer. Most requests have nothing, and need no lock to know it.
    charged_inside: AtomicBool,
    charges: Mutex<Vec<Charge>>,
}

/// A limit, and who is charged for it.
pub(crate) struct Asked {
    pub(crate) key: Key,
    pub(crate) limit: Arc<CheckedLimit>,
}

/// What was charged, to whom, and how the plans stood then.
pub(crate) struct Charge {
    pub(crate) key: Key,
    pub(crate) limit: Arc<CheckedLimit>,
    pub(crate) decision: Decision,
    pub(crate) refunded: bool,
}

impl Scope {
    pub(crate) fn new(
        settings: Arc<Settings>,
        asked: Option<Asked>,
        exempt: bool,
        grpc: bool,
    ) -> Self {
        Self {
            settings,
            asked,
            decision: Mutex::new(None),
            exempt,
            grpc,
            charged_inside: AtomicBool::new(false),
            charges: Mutex::default(),
        }
    }

    /// Adds what was charged inside of the layer, and returns its place.
    #[cfg_attr(
        not(feature = "axum"),
        expect(dead_code, reason = "called by the extractors")
    )]
    pub(crate) fn add(&self, charge: Charge) -> usize {
        let mut charges = self.charges();
        charges.push(charge);
        self.charged_inside.store(true, Ordering::Release);
        charges.len() - 1
    }

    pub(crate) fn charges(&self) -> MutexGuard<'_, Vec<Charge>> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The layer's own decision to let the request pass, once there is one.
    pub(crate) fn decision(&self) -> MutexGuard<'_, Option<Decision>> {
        self.decision.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_charged_inside(&self) -> bool {
        self.charged_inside.load(Ordering::Acquire)
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
        self.limit
            .write(&self.decision, &settings.header_style, status, headers);
    }
}

//! [`Receipt`]: what a handler charged.

use std::sync::Arc;

use limiter_core::{CheckError, Decision, Key, UnresolvedKey};

use crate::Rejection;
use crate::charges::Charge;
use crate::rate_limit::CheckedLimit;
use crate::scope::Scope;
use crate::settings::Gate;

/// What a handler charged. Dropped, it stays charged; [`refund`](Self::refund) gives it back.
#[derive(Clone)]
#[must_use = "hold on to it to give the cost back, or drop it aloud with `let _ =`"]
pub struct Receipt {
    scope: Arc<Scope>,
    /// Its place among the charges of the request, if anything was charged.
    place: Option<usize>,
}

impl Receipt {
    /// Charges whoever `key` found.
    pub(super) async fn charge(
        scope: &Arc<Scope>,
        key: Result<Key, UnresolvedKey>,
        limit: CheckedLimit,
    ) -> Result<Self, Rejection> {
        let receipt = |place| Self {
            scope: Arc::clone(scope),
            place,
        };
        if scope.exempt {
            return Ok(receipt(None));
        }
        let (settings, limit) = (&scope.settings, Arc::new(limit));
        let turned_away = |rejection: Rejection| {
            settings.complain(&rejection);
            rejection.answered_by(settings, scope.grpc)
        };
        let key = match settings.gate_of_key(key, &limit) {
            Gate::Charge(key, _) => key,
            Gate::Pass | Gate::Exempt => return Ok(receipt(None)),
            Gate::Reject(rejection) => return Err(turned_away(rejection)),
        };
        match settings.limiter.check(&key, &limit.plans, limit.cost).await {
            Ok(decision) if decision.is_allowed() => {
                let place = scope.add(Charge::new(key, limit, decision));
                Ok(receipt(Some(place)))
            }
            Ok(decision) => Err(turned_away(Rejection::by_decision(decision))),
            Err(error) => Err(turned_away(Rejection::by_charge_error(&error))),
        }
    }

    /// Returns how the plans stood after the charge; nothing if the request is exempt.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        let charges = self.scope.charges();
        let charge = charges.get(self.place?)?;
        Some(charge.decision.clone())
    }

    /// Gives the cost back, once; the response tells the client of it.
    ///
    /// # Errors
    /// [`CheckError`] if the store failed: the cost may then stay spent.
    pub async fn refund(&self) -> Result<(), CheckError> {
        let Some((place, key, limit)) = self.due_back() else {
            return Ok(());
        };
        let limiter = &self.scope.settings.limiter;
        let decision = limiter.refund(&key, &limit.plans, limit.cost).await?;
        if let Some(charge) = self.scope.charges().get_mut(place) {
            charge.decision = decision;
        }
        Ok(())
    }

    /// Marks the charge as given back, so that nobody else gives it back as well.
    fn due_back(&self) -> Option<(usize, Key, Arc<CheckedLimit>)> {
        let place = self.place?;
        let mut charges = self.scope.charges();
        let charge = charges.get_mut(place).filter(|charge| !charge.refunded)?;
        charge.refunded = true;
        Some((place, charge.key.clone(), Arc::clone(&charge.limit)))
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt")
            .field("decision", &self.decision())
            .finish_non_exhaustive()
    }
}

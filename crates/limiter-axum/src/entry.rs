//! [`Entry`]: what becomes of a request when it comes in.

use std::sync::Arc;

use http::request::Parts;
use limiter_core::{CheckError, Decision, Key};

use crate::charges::Own;
use crate::passage::Passage;
use crate::rate_limit::CheckedLimit;
use crate::response_future::Check;
use crate::settings::{Gate, Settings};
use crate::{Rejection, Undecided};

/// What becomes of a request when it comes in.
pub(crate) enum Entry {
    /// It goes on.
    Admitted(Passage, Own),
    /// It is turned away.
    Rejected(Rejection),
    /// The limiter has to wait for its store.
    Undecided(Check, Box<Asked>),
}

/// What the limiter was asked about a request.
pub(crate) struct Asked {
    settings: Arc<Settings>,
    limit: Arc<CheckedLimit>,
    /// Who is charged, if that is to be given back after a failure.
    key: Option<Key>,
    grpc: bool,
}

impl Settings {
    /// Lets a request in or turns it away; `only` is the limit that stands in for the table of routes.
    pub(crate) fn enter(
        self: &Arc<Self>,
        parts: &Parts,
        only: Option<&Arc<CheckedLimit>>,
    ) -> Entry {
        let grpc = is_grpc(parts);
        match self.gate(parts, only) {
            Gate::Charge(ref key, limit) => self.ask(key, limit, grpc),
            Gate::Reject(rejection) => Entry::Rejected(self.turned_away(rejection, grpc)),
            Gate::Exempt(what) => self.enter_uncharged(what, true, grpc),
            Gate::Pass(what) => self.enter_uncharged(what, false, grpc),
        }
    }

    /// Asks the limiter. With a store in process it answers at once, and the request goes on without a detour.
    #[inline]
    fn ask(self: &Arc<Self>, key: &Key, limit: &Arc<CheckedLimit>, grpc: bool) -> Entry {
        let answer = self.limiter.check_at_once(key, &limit.plans, limit.cost);
        // The commonest answer is looked at where it is: it is large.
        if let Some(Ok(decision)) = &answer
            && decision.is_allowed()
            && !limit.refund_failures
        {
            let own = Own::to_tell(self, limit, decision);
            return Entry::Admitted(Passage::new(Arc::clone(self), false, grpc), own);
        }
        self.settle(answer, key, limit, grpc)
    }

    /// Does what is left to do with an answer, or asks a limiter that has to wait for its store.
    #[inline(never)]
    fn settle(
        self: &Arc<Self>,
        answer: Option<Result<Decision, CheckError>>,
        key: &Key,
        limit: &Arc<CheckedLimit>,
        grpc: bool,
    ) -> Entry {
        let asked = Asked {
            settings: Arc::clone(self),
            limit: Arc::clone(limit),
            key: limit.refund_failures.then(|| key.clone()),
            grpc,
        };
        match answer.map(|answer| asked.answered(answer)) {
            Some(Ok((passage, own))) => Entry::Admitted(passage, own),
            Some(Err(rejection)) => Entry::Rejected(rejection),
            None => {
                let limiter = Arc::clone(&self.limiter);
                let check = limiter.check_detached(key.clone(), &limit.plans, limit.cost);
                Entry::Undecided(check, Box::new(asked))
            }
        }
    }

    #[cold]
    fn enter_uncharged(self: &Arc<Self>, what: Undecided, exempt: bool, grpc: bool) -> Entry {
        self.tell(what);
        Entry::Admitted(Passage::new(Arc::clone(self), exempt, grpc), Own::Nothing)
    }
}

impl Asked {
    /// Lets the request go on, or turns it away.
    pub(crate) fn answered(
        &self,
        answer: Result<Decision, CheckError>,
    ) -> Result<(Passage, Own), Rejection> {
        let rejection = match answer {
            Ok(decision) if decision.is_allowed() => {
                let own = match self.key.clone() {
                    Some(key) => Own::to_settle(key, &self.limit, decision),
                    None => Own::to_tell(&self.settings, &self.limit, &decision),
                };
                let settings = Arc::clone(&self.settings);
                return Ok((Passage::new(settings, false, self.grpc), own));
            }
            Ok(decision) => Rejection::by_decision(decision),
            Err(error) => Rejection::by_error(&error),
        };
        Err(self.settings.turned_away(rejection, self.grpc))
    }
}

#[cfg(feature = "tonic")]
pub(crate) fn is_grpc(parts: &Parts) -> bool {
    crate::rejection::is_grpc(&parts.headers)
}

#[cfg(not(feature = "tonic"))]
pub(crate) const fn is_grpc(_: &Parts) -> bool {
    false
}

//! [`Entry`]: what becomes of a request when it comes in.

use std::sync::Arc;

use limiter_core::{CheckError, Decision, Key};

use crate::charges::Own;
use crate::passage::Passage;
use crate::rate_limit::CheckedLimit;
use crate::response_future::Check;
use crate::settings::{Gate, Settings};
use crate::{HttpRequest, Rejection, Undecided};

/// What becomes of a request when it comes in. Small: what is not common is in a box.
pub(crate) enum Entry {
    /// It goes on, charged.
    Charged(Own),
    /// It goes on, and nothing was charged; if it is exempt, nothing will be.
    Uncharged { exempt: bool },
    /// It is turned away.
    Rejected(Rejection),
    /// The limiter has to wait for its store.
    Undecided(Box<Question>),
}

/// A question to the limiter that is under way.
pub(crate) struct Question {
    pub(crate) check: Check,
    pub(crate) asked: Asked,
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
    ///
    /// Without rules this is the short way of [`gate`](Self::gate), and must agree with it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        request: &HttpRequest<'_>,
        only: Option<&Arc<CheckedLimit>>,
        grpc: bool,
    ) -> Entry {
        if self.has_rules {
            return self.enter_by(self.gate(request, only), grpc);
        }
        let Some(limit) = only.or(self.first_limit.as_ref()) else {
            return self.enter_by(Gate::Pass(Undecided::Unlimited), grpc);
        };
        match &limit.resolver.resolve(request) {
            Ok(key) => self.ask(key, limit, grpc),
            Err(error) => self.enter_by(self.gate_of_nobody(error, limit), grpc),
        }
    }

    #[inline(never)]
    fn enter_by(self: &Arc<Self>, gate: Gate<'_>, grpc: bool) -> Entry {
        let (what, exempt) = match gate {
            Gate::Charge(ref key, limit) => return self.ask(key, limit, grpc),
            Gate::Reject(rejection) => return Entry::Rejected(self.turned_away(rejection, grpc)),
            Gate::Exempt(what) => (what, true),
            Gate::Pass(what) => (what, false),
        };
        self.tell(what);
        Entry::Uncharged { exempt }
    }

    /// Asks the limiter: first whether there is plenty, if nobody is to be told more than that.
    #[inline]
    fn ask(self: &Arc<Self>, key: &Key, limit: &Arc<CheckedLimit>, grpc: bool) -> Entry {
        if self.header_style.is_off()
            && !limit.refund_failures
            && self.limiter.spend_if_plenty(key, &limit.plans, limit.cost)
        {
            return Entry::Charged(Own::Nothing);
        }
        self.ask_in_full(key, limit, grpc)
    }

    /// Asks the limiter. With a store in process it answers at once, and the request goes on without a detour.
    #[inline(never)]
    fn ask_in_full(self: &Arc<Self>, key: &Key, limit: &Arc<CheckedLimit>, grpc: bool) -> Entry {
        let answer = self.limiter.check_at_once(key, &limit.plans, limit.cost);
        // The commonest answer is looked at where it is: it is large.
        if let Some(Ok(decision)) = &answer
            && decision.is_allowed()
            && !limit.refund_failures
        {
            return Entry::Charged(Own::to_tell(self, limit, decision));
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
            Some(Ok(own)) => Entry::Charged(own),
            Some(Err(rejection)) => Entry::Rejected(rejection),
            None => {
                let limiter = Arc::clone(&self.limiter);
                let check = limiter.check_detached(key.clone(), &limit.plans, limit.cost);
                Entry::Undecided(Box::new(Question { check, asked }))
            }
        }
    }
}

impl Asked {
    /// Lets the request go on, or turns it away.
    pub(crate) fn answered(&self, answer: Result<Decision, CheckError>) -> Result<Own, Rejection> {
        let rejection = match answer {
            Ok(decision) if decision.is_allowed() => {
                return Ok(match self.key.clone() {
                    Some(key) => Own::to_settle(key, &self.limit, decision),
                    None => Own::to_tell(&self.settings, &self.limit, &decision),
                });
            }
            Ok(decision) => Rejection::by_decision(decision),
            Err(error) => Rejection::by_error(&error),
        };
        Err(self.settings.turned_away(rejection, self.grpc))
    }

    pub(crate) fn passage(&self) -> Passage {
        Passage::new(Arc::clone(&self.settings), false, self.grpc)
    }
}

#[cfg(feature = "tonic")]
pub(crate) fn is_grpc(request: &HttpRequest<'_>) -> bool {
    crate::rejection::is_grpc(request.headers)
}

#[cfg(not(feature = "tonic"))]
pub(crate) const fn is_grpc(_: &HttpRequest<'_>) -> bool {
    false
}

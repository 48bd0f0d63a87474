//! What an abuse layer was told: shared by all its clones.

use std::sync::Arc;

use http::{Method, response};
use limiter_core::{AbuseGuard, Challenge, Key, KeyResolver, Refusal};

use super::AttemptOutcome;
use crate::complaints::Complaints;
use crate::settings::{OnRejection, OnUndecided, Skip};
use crate::{HttpRequest, MissingKey, Rejection, Undecided};

/// What counts as an attempt, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Counting {
    /// Each request is an attempt, counted before the handler runs; a success forgives. No burst gets past it, and nobody gets
    /// a free guess by hanging up: right for sign-in pages and codes.
    ///
    /// Requests by `GET`, `HEAD`, `OPTIONS` and `TRACE` are counted as [`Failures`](Self::Failures) are: to look at a form is no
    /// guess, and must not forgive one.
    #[default]
    Attempts,
    /// Only failures count, once they are known; requests meet blocks that are in force. Right around many routes, against who
    /// collects failures. Requests that are under way together when the block starts are all served.
    ///
    /// A response's status forgives nothing: any page that anybody may see would. The handler's word does, and so does a
    /// [judge](crate::AbuseLayerBuilder::judge) of your own.
    Failures,
}

impl Counting {
    /// Returns how a request by `method` is counted.
    pub(super) fn of(self, method: &Method) -> Self {
        if method.is_safe() {
            Self::Failures
        } else {
            self
        }
    }
}

pub(crate) type Judge = Arc<dyn Fn(&response::Parts) -> AttemptOutcome + Send + Sync>;

pub(crate) struct AbuseSettings {
    pub(crate) guard: Arc<AbuseGuard>,
    pub(crate) key: Option<Arc<dyn KeyResolver>>,
    pub(crate) counting: Counting,
    pub(crate) forgives: bool,
    /// [`AttemptOutcome::of_response`] if there is none.
    pub(crate) judge: Option<Judge>,
    pub(crate) missing_key: MissingKey,
    pub(crate) challenges: Vec<Challenge>,
    pub(crate) skip: Skip,
    pub(crate) on_rejection: Option<OnRejection>,
    pub(crate) on_undecided: Option<OnUndecided>,
    pub(crate) complaints: Complaints,
}

/// Whose attempt a request is.
pub(super) enum Whose {
    Of(Key),
    /// The layer has no key, or lets requests without one pass.
    Nobodys(Undecided),
    /// That cannot be told, and the request is turned away.
    Unclear(Rejection),
}

impl AbuseSettings {
    /// Judges by the response.
    pub(super) fn outcome_of(
        &self,
        response: &response::Parts,
        counting: Counting,
    ) -> AttemptOutcome {
        match &self.judge {
            Some(judge) => judge(response),
            None => match AttemptOutcome::of_response(response) {
                AttemptOutcome::Succeeded if counting == Counting::Failures => {
                    AttemptOutcome::Undecided
                }
                outcome => outcome,
            },
        }
    }

    /// Finds whose attempt a request is.
    pub(super) fn whose(&self, request: &HttpRequest<'_>) -> Whose {
        let Some(resolver) = &self.key else {
            return Whose::Nobodys(Undecided::Unlimited);
        };
        match resolver.resolve(request) {
            Ok(key) => Whose::Of(key),
            Err(error) => match Rejection::by_missing_key(&error, self.missing_key) {
                Some(rejection) => Whose::Unclear(rejection.asking_for(&self.challenges, resolver)),
                None => Whose::Nobodys(Undecided::PassedWithoutKey),
            },
        }
    }

    /// Tells who keeps count of the requests that no policy decided.
    pub(super) fn tell(&self, what: Undecided) {
        if let Some(tell) = &self.on_undecided {
            tell(what);
        }
    }

    /// Makes the answer to an attempt that `guard` refused.
    pub(super) fn refused(&self, guard: &AbuseGuard, refusal: Refusal, grpc: bool) -> Rejection {
        let policy = guard.policy().name().clone();
        self.turned_away(Rejection::by_refusal(refusal, policy), grpc)
    }

    /// Makes the answer to a request of which it is not known whose attempt it is.
    pub(super) fn unclear(&self, rejection: Rejection, grpc: bool) -> Rejection {
        if let Some(what) = Undecided::of(&rejection) {
            self.tell(what);
        }
        self.turned_away(rejection, grpc)
    }

    fn turned_away(&self, rejection: Rejection, grpc: bool) -> Rejection {
        self.complaints.about(&rejection);
        rejection.answered_with(self.on_rejection.as_ref(), grpc)
    }
}

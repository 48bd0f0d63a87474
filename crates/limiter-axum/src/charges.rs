//! [`Charges`]: all that a request was charged.

use std::sync::Arc;

use http::{HeaderMap, Response, StatusCode};
use limiter_core::{Decision, Key};

use crate::headers::Fields;
use crate::rate_limit::CheckedLimit;
use crate::settings::Settings;

/// What was charged, to whom, and how the plans stood then.
pub(crate) struct Charge {
    pub(crate) key: Key,
    pub(crate) limit: Arc<CheckedLimit>,
    pub(crate) decision: Decision,
    pub(crate) refunded: bool,
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

    fn is_due_back(&self) -> bool {
        self.limit.refund_failures && !self.refunded
    }

    /// Gives the cost back. A store that fails keeps it: the response is not held up by that.
    async fn give_back(&mut self, settings: &Settings) {
        let (plans, cost) = (&self.limit.plans, self.limit.cost);
        match settings.limiter.refund(&self.key, plans, cost).await {
            Ok(decision) => {
                self.decision = decision;
                self.refunded = true;
            }
            Err(error) => tracing::debug!(target: "limiter", "cost is not given back: {error}"),
        }
    }

    fn write(&self, settings: &Settings, status: StatusCode, headers: &mut HeaderMap) {
        let fields = self.limit.fields(&self.decision, &settings.header_style);
        if let Some(fields) = fields {
            fields.write(status, headers);
        }
    }
}

/// What is left to do of the layer's own charge once the request is answered.
#[derive(Default)]
pub(crate) enum Own {
    #[default]
    Nothing,
    /// The client is told of it.
    Told(Box<Fields>),
    /// It is given back if the request fails, and the client is told how it stands then.
    Kept(Box<Charge>),
}

impl Own {
    /// Writes down what the client is to be told.
    #[inline]
    pub(crate) fn to_tell(settings: &Settings, limit: &CheckedLimit, decision: &Decision) -> Self {
        let style = &settings.header_style;
        if style.is_off() {
            return Self::Nothing;
        }
        let fields = limit.fields(decision, style);
        fields.map_or(Self::Nothing, |fields| Self::Told(Box::new(fields)))
    }

    /// Keeps what may have to be given back.
    pub(crate) fn to_settle(key: Key, limit: &Arc<CheckedLimit>, decision: Decision) -> Self {
        Self::Kept(Box::new(Charge::new(key, Arc::clone(limit), decision)))
    }
}

/// All that a request was charged.
pub(crate) struct Charges {
    pub(crate) own: Own,
    pub(crate) inside: Vec<Charge>,
}

impl Charges {
    pub(crate) fn are_due_back(&mut self) -> bool {
        self.iter_mut().any(|charge| charge.is_due_back())
    }

    pub(crate) async fn give_back_what_is_due(mut self, settings: Arc<Settings>) -> Self {
        for charge in self.iter_mut().filter(|charge| charge.is_due_back()) {
            charge.give_back(&settings).await;
        }
        self
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Charge> {
        let own = match &mut self.own {
            Own::Kept(charge) => Some(&mut **charge),
            Own::Nothing | Own::Told(_) => None,
        };
        own.into_iter().chain(&mut self.inside)
    }

    /// Tells the client how it stands.
    pub(crate) fn write<R, E>(self, settings: &Settings, result: &mut Result<Response<R>, E>) {
        let Ok(response) = result else {
            return;
        };
        let (status, headers) = (response.status(), response.headers_mut());
        match self.own {
            Own::Nothing => {}
            Own::Told(fields) => fields.write(status, headers),
            Own::Kept(charge) => charge.write(settings, status, headers),
        }
        for charge in &self.inside {
            charge.write(settings, status, headers);
        }
    }
}

//! [`Charges`]: all that a request was charged.

use std::future::poll_fn;
use std::mem;
use std::sync::Arc;
use std::task::Poll;

use http::Response;
use limiter_core::{Decision, RateLimiter};

use crate::charge::Charge;
use crate::headers::Fields;
use crate::rate_limit::CheckedLimit;
use crate::settings::Settings;

/// What is left to do of the layer's own charge once the request is answered.
#[derive(Default)]
pub(crate) enum Own {
    #[default]
    Nothing,
    /// The client is told of it. In a box: what waits for a response is moved several times before it is polled.
    Told(Box<Fields>),
    /// It is given back if the request fails, and the client is told how it stands then.
    Kept(Arc<Charge>),
}

impl Own {
    /// Writes down what the client is to be told.
    #[inline]
    pub(crate) fn to_tell(settings: &Settings, limit: &CheckedLimit, decision: &Decision) -> Self {
        let fields = limit.fields(decision, &settings.header_style);
        fields.map_or(Self::Nothing, |fields| Self::Told(Box::new(fields)))
    }

    /// Keeps what may have to be given back.
    pub(crate) fn to_settle(limit: &Arc<CheckedLimit>, decision: Decision) -> Self {
        Self::Kept(Arc::new(Charge::new(Arc::clone(limit), decision)))
    }

    /// Says whether it may have to be given back.
    #[inline]
    pub(crate) const fn is_kept(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    /// Tells the client how it stands, if that is all there is to do.
    #[inline]
    pub(crate) fn tell<R, E>(&mut self, result: &mut Result<Response<R>, E>) {
        if let (Self::Told(fields), Ok(response)) = (mem::take(self), result) {
            fields.write(response.status(), response.headers_mut());
        }
    }
}

/// All that a request was charged.
pub(crate) struct Charges {
    pub(crate) own: Own,
    pub(crate) inside: Vec<Arc<Charge>>,
}

impl Charges {
    pub(crate) fn are_due_back(&self) -> bool {
        self.iter().any(Charge::is_due_back)
    }

    /// Gives back what is due, all at once: a store that hangs holds the response up for one deadline, not for one each.
    pub(crate) async fn give_back_what_is_due(self, limiter: Arc<dyn RateLimiter>) -> Self {
        let due = self.iter().filter(|charge| charge.is_due_back());
        join(due.map(|charge| give_back(charge, &limiter))).await;
        self
    }

    fn iter(&self) -> impl Iterator<Item = &Charge> {
        let own = match &self.own {
            Own::Kept(charge) => Some(charge),
            Own::Nothing | Own::Told(_) => None,
        };
        own.into_iter().chain(&self.inside).map(|charge| &**charge)
    }

    /// Tells the client how it stands.
    pub(crate) fn write<R, E>(self, settings: &Settings, result: &mut Result<Response<R>, E>) {
        let Ok(response) = result else {
            return;
        };
        let (status, headers) = (response.status(), response.headers_mut());
        let style = &settings.header_style;
        match self.own {
            Own::Nothing => {}
            Own::Told(fields) => fields.write(status, headers),
            Own::Kept(charge) => charge.write(style, status, headers),
        }
        for charge in &self.inside {
            charge.write(style, status, headers);
        }
    }
}

/// Gives a cost back. A store that fails keeps it: that does not change the response.
async fn give_back(charge: &Charge, limiter: &Arc<dyn RateLimiter>) {
    if let Err(error) = charge.give_back(limiter).await {
        tracing::debug!(target: "limiter", "cost is not given back: {error}");
    }
}

/// Waits for all of `futures` at once.
async fn join(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut under_way: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        under_way.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if under_way.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

//! [`Charge`]: what a request was charged once.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use http::{HeaderMap, StatusCode};
use limiter_core::{CheckError, Decision, RateLimiter, Receipt};

use crate::HeaderStyle;
use crate::rate_limit::CheckedLimit;

/// What was charged, and how the plans stood then. Shared by the layer and by whoever holds a receipt, so that either can give it
/// back, and neither a second time.
pub(crate) struct Charge {
    limit: Arc<CheckedLimit>,
    standing: Mutex<Standing>,
}

struct Standing {
    decision: Decision,
    back: Back,
}

/// How far the cost is on its way back.
enum Back {
    NotAsked(Receipt),
    /// Somebody asked, and stopped waiting. The store may be at it: the same call goes on when somebody asks again.
    LeftAlone(Call),
    /// Somebody waits for it.
    Awaited,
    /// Nothing was charged; or it is back; or the store may have given it back, and is not asked twice.
    Settled,
}

/// A refund under way. The receipt comes back with the answer.
type Call = Pin<Box<dyn Future<Output = (Receipt, Result<Decision, CheckError>)> + Send>>;

impl Charge {
    /// Keeps what `decision` charged. What the failure policy let pass was not charged, and cannot be given back.
    pub(crate) fn new(limit: Arc<CheckedLimit>, mut decision: Decision) -> Self {
        let back = decision
            .take_receipt()
            .map_or(Back::Settled, Back::NotAsked);
        Self {
            limit,
            standing: Mutex::new(Standing { decision, back }),
        }
    }

    /// Returns how the plans stood when it was charged, or given back.
    #[cfg(feature = "axum")]
    pub(crate) fn decision(&self) -> Decision {
        self.standing().decision.clone()
    }

    /// Says whether it is to be given back because the request failed.
    pub(crate) fn is_due_back(&self) -> bool {
        let open = || matches!(self.standing().back, Back::NotAsked(_) | Back::LeftAlone(_));
        self.limit.refund_failures && open()
    }

    /// Gives the cost back, unless it is back already or somebody else is at it.
    ///
    /// # Cancel safety
    /// The call of who stops waiting is kept, and goes on with the next one who asks.
    pub(crate) async fn give_back(&self, limiter: &Arc<dyn RateLimiter>) -> Result<(), CheckError> {
        let Some(call) = self.take_up(limiter) else {
            return Ok(());
        };
        let waiting = Waiting {
            charge: self,
            call: Some(call),
        };
        waiting.await
    }

    fn take_up(&self, limiter: &Arc<dyn RateLimiter>) -> Option<Call> {
        let mut standing = self.standing();
        match mem::replace(&mut standing.back, Back::Awaited) {
            Back::NotAsked(receipt) => Some(give_back(Arc::clone(limiter), receipt)),
            Back::LeftAlone(call) => Some(call),
            Back::Awaited => None,
            Back::Settled => {
                standing.back = Back::Settled;
                None
            }
        }
    }

    fn settle(
        &self,
        receipt: Receipt,
        answer: Result<Decision, CheckError>,
    ) -> Result<(), CheckError> {
        let mut standing = self.standing();
        standing.back = match &answer {
            Err(CheckError::Store(error)) if error.may_have_charged() => Back::Settled,
            Err(_) => Back::NotAsked(receipt),
            Ok(_) => Back::Settled,
        };
        standing.decision = answer?;
        Ok(())
    }

    /// Tells the client how it stands.
    pub(crate) fn write(&self, style: &HeaderStyle, status: StatusCode, headers: &mut HeaderMap) {
        if let Some(fields) = self.limit.fields(&self.standing().decision, style) {
            fields.write(status, headers);
        }
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a whole charge back.
fn give_back(limiter: Arc<dyn RateLimiter>, mut receipt: Receipt) -> Call {
    Box::pin(async move {
        let units = receipt.charged();
        let answer = limiter.refund(&mut receipt, units).await;
        (receipt, answer)
    })
}

/// Somebody waits for a cost to be given back.
struct Waiting<'a> {
    charge: &'a Charge,
    /// Nothing once it was answered.
    call: Option<Call>,
}

impl Future for Waiting<'_> {
    type Output = Result<(), CheckError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = &mut self.call else {
            return Poll::Pending;
        };
        let (receipt, answer) = ready!(call.as_mut().poll(context));
        self.call = None;
        Poll::Ready(self.charge.settle(receipt, answer))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call.take() {
            self.charge.standing().back = Back::LeftAlone(call);
        }
    }
}

//! [`Scope`]: one request under one layer.

use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::{Extensions, Response};

use crate::charge::Charge;
use crate::charges::Own;
use crate::settings::Settings;

/// One request under one layer, shared between the layer and the extractors inside of it.
pub(crate) struct Scope {
    pub(crate) settings: Arc<Settings>,
    /// Nothing is charged to it.
    #[cfg(feature = "axum")]
    pub(crate) exempt: bool,
    #[cfg(feature = "axum")]
    pub(crate) grpc: bool,
    /// What is left to do of the layer's own charge. Here, and not beside the response that is waited for: that is moved several
    /// times before it is polled.
    own: Own,
    /// What was charged inside of the layer. Most requests have nothing, and need no lock to know it.
    inside: OnceLock<Mutex<Vec<Arc<Charge>>>>,
}

/// Lets extractors find the scope of the request.
#[inline]
pub(crate) fn show(scope: &Arc<Scope>, extensions: &mut Extensions) {
    if cfg!(feature = "axum") {
        extensions.insert(Arc::clone(scope));
    }
}

impl Scope {
    #[inline]
    pub(crate) fn new(settings: Arc<Settings>, exempt: bool, grpc: bool, own: Own) -> Arc<Self> {
        // Only extractors ask for these.
        #[cfg(not(feature = "axum"))]
        let _ = (exempt, grpc);
        Arc::new(Self {
            settings,
            #[cfg(feature = "axum")]
            exempt,
            #[cfg(feature = "axum")]
            grpc,
            own,
            inside: OnceLock::new(),
        })
    }

    /// Adds what was charged inside of the layer. Once the request is answered nobody asks for it any more.
    #[cfg(feature = "axum")]
    pub(crate) fn add(&self, charge: Arc<Charge>) {
        let charges = self.inside.get_or_init(Mutex::default);
        let mut charges = charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.push(charge);
    }

    /// Says whether nothing is left to do once the request is answered but to tell the client of the layer's own decision.
    #[inline]
    pub(crate) fn has_only_to_tell(&self) -> bool {
        !matches!(self.own, Own::Kept(_)) && self.inside.get().is_none()
    }

    /// Tells the client how it stands after the layer's own decision.
    #[inline]
    pub(crate) fn tell<R, E>(self: &mut Arc<Self>, result: &mut Result<Response<R>, E>) {
        // Looked at first: to take it out needs the scope for itself, which is not for free.
        if matches!(self.own, Own::Told(_))
            && let Ok(response) = result
            && let Own::Told(fields) = self.take_own()
        {
            fields.write(response.status(), response.headers_mut());
        }
    }

    /// Takes out what is left to do of the layer's own charge, or a copy of it if somebody has kept the request's extensions.
    pub(crate) fn take_own(self: &mut Arc<Self>) -> Own {
        match Arc::get_mut(self) {
            Some(scope) => mem::take(&mut scope.own),
            None => self.own.clone(),
        }
    }

    /// Takes out what was charged inside of the layer.
    pub(crate) fn take_charges(&self) -> Vec<Arc<Charge>> {
        let take = |charges: &Mutex<_>| {
            mem::take(&mut *charges.lock().unwrap_or_else(PoisonError::into_inner))
        };
        self.inside.get().map(take).unwrap_or_default()
    }
}

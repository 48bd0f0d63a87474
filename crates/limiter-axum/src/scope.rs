//! [`Scope`]: one request under one layer.

use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::Extensions;

use crate::charge::Charge;
use crate::settings::Settings;

/// One request under one layer, shared between the layer and the extractors inside of it.
pub(crate) struct Scope {
    pub(crate) settings: Arc<Settings>,
    /// Nothing is charged to it.
    #[cfg(feature = "axum")]
    pub(crate) exempt: bool,
    #[cfg(feature = "axum")]
    pub(crate) grpc: bool,
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
    pub(crate) fn new(settings: Arc<Settings>, exempt: bool, grpc: bool) -> Arc<Self> {
        // Only extractors ask for these.
        #[cfg(not(feature = "axum"))]
        let _ = (exempt, grpc);
        Arc::new(Self {
            settings,
            #[cfg(feature = "axum")]
            exempt,
            #[cfg(feature = "axum")]
            grpc,
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

    /// Says whether anything was charged inside of the layer.
    #[inline]
    pub(crate) fn has_charges(&self) -> bool {
        self.inside.get().is_some()
    }

    /// Takes out what was charged inside of the layer.
    pub(crate) fn take_charges(&self) -> Vec<Arc<Charge>> {
        let take = |charges: &Mutex<_>| {
            mem::take(&mut *charges.lock().unwrap_or_else(PoisonError::into_inner))
        };
        self.inside.get().map(take).unwrap_or_default()
    }
}

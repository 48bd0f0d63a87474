//! [`Scope`]: one request under one layer.

use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use http::{Extensions, HeaderMap, StatusCode};

use crate::charge::Charge;
use crate::charges::{Charges, Own};
use crate::settings::Settings;

/// One request under one layer, shared between the layer and the extractors inside of it.
pub(crate) struct Scope {
    pub(crate) settings: Arc<Settings>,
    own: Mutex<Own>,
    /// Nothing is charged to it.
    #[cfg(feature = "axum")]
    pub(crate) exempt: bool,
    #[cfg(feature = "axum")]
    pub(crate) grpc: bool,
    left: Left,
    /// What was charged inside of the layer. Most requests have nothing, and need no lock to know it.
    inside: OnceLock<Mutex<Vec<Arc<Charge>>>>,
}

/// What is left to do of the layer's own charge: known without a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    ToTell,
    ToSettle,
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
    pub(crate) fn new(settings: Arc<Settings>, own: Own, exempt: bool, grpc: bool) -> Arc<Self> {
        // Only extractors ask for these.
        #[cfg(not(feature = "axum"))]
        let _ = (exempt, grpc);
        Arc::new(Self {
            settings,
            left: match own {
                Own::Nothing => Left::Nothing,
                Own::Told(_) => Left::ToTell,
                Own::Kept(_) => Left::ToSettle,
            },
            own: Mutex::new(own),
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

    /// Says whether there is more to do once the request is answered than to tell the client of the layer's own decision.
    #[inline]
    pub(crate) fn has_more_to_settle(&self) -> bool {
        self.left == Left::ToSettle || self.inside.get().is_some()
    }

    /// Tells the client how it stands after the layer's own decision.
    #[inline]
    pub(crate) fn tell(&self, status: StatusCode, headers: &mut HeaderMap) {
        if self.left == Left::ToTell
            && let Own::Told(fields) = self.take_own()
        {
            fields.write(status, headers);
        }
    }

    /// Takes out all that was charged.
    pub(crate) fn take_all(&self) -> Charges {
        let take = |charges: &Mutex<_>| {
            mem::take(&mut *charges.lock().unwrap_or_else(PoisonError::into_inner))
        };
        Charges {
            own: self.take_own(),
            inside: self.inside.get().map(take).unwrap_or_default(),
        }
    }

    fn take_own(&self) -> Own {
        mem::take(&mut *self.own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! [`Scope`]: what a layer and the extractors inside of it share of a request.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::charge::Charge;
use crate::settings::Settings;

/// One request under one layer, as the layer and the extractors inside of it share it.
pub(crate) struct Scope {
    pub(crate) settings: Arc<Settings>,
    /// Nothing is charged to it.
    pub(crate) exempt: bool,
    pub(crate) grpc: bool,
    charges: Mutex<Vec<Arc<Charge>>>,
}

impl Scope {
    pub(crate) fn new(settings: &Arc<Settings>, exempt: bool, grpc: bool) -> Arc<Self> {
        Arc::new(Self {
            settings: Arc::clone(settings),
            exempt,
            grpc,
            charges: Mutex::default(),
        })
    }

    /// Adds what an extractor has charged. Once the request is answered nobody asks for it any more.
    pub(crate) fn add(&self, charge: Arc<Charge>) {
        self.charges().push(charge);
    }

    /// Takes out what extractors have charged.
    pub(crate) fn take_charges(&self) -> Vec<Arc<Charge>> {
        mem::take(&mut *self.charges())
    }

    fn charges(&self) -> MutexGuard<'_, Vec<Arc<Charge>>> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! [`Visit`] and [`Scope`]: one request under one layer.

use std::cell::Cell;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::charge::Charge;
use crate::settings::Settings;

/// One request under one layer, as the layer has it.
///
/// Extractors find it on the thread that runs them, which is inside of the layer just then. So nothing is put into the request, and
/// requests that are charged nothing in their handler, nearly all of them, need no memory for what they do not share.
pub(crate) struct Visit {
    pub(crate) settings: Arc<Settings>,
    /// Nothing is charged to it.
    exempt: bool,
    grpc: bool,
    /// There is one once an extractor has asked for it.
    scope: Option<Arc<Scope>>,
}

/// One request under one layer, as the layer and the extractors inside of it share it.
pub(crate) struct Scope {
    pub(crate) settings: Arc<Settings>,
    pub(crate) exempt: bool,
    pub(crate) grpc: bool,
    charges: Mutex<Vec<Arc<Charge>>>,
}

thread_local! {
    /// The innermost visit that this thread is running.
    static HERE: Cell<Option<Visit>> = const { Cell::new(None) };
}

impl Visit {
    #[inline]
    pub(crate) const fn new(settings: Arc<Settings>, exempt: bool, grpc: bool) -> Self {
        Self {
            settings,
            exempt,
            grpc,
            scope: None,
        }
    }

    /// Runs what is inside of the layer: extractors find the visit meanwhile.
    #[inline]
    pub(crate) fn around<T>(visit: &mut Option<Self>, run: impl FnOnce() -> T) -> T {
        if cfg!(not(feature = "axum")) {
            return run();
        }
        let visit = Cell::from_mut(visit);
        trade_places(visit);
        let _back = Back(visit);
        run()
    }

    /// Says whether an extractor may have charged the request.
    #[inline]
    pub(crate) const fn is_shared(&self) -> bool {
        self.scope.is_some()
    }

    /// Takes out what extractors have charged.
    pub(crate) fn take_charges(&self) -> Vec<Arc<Charge>> {
        let take = |scope: &Arc<Scope>| mem::take(&mut *scope.charges());
        self.scope.as_ref().map(take).unwrap_or_default()
    }

    fn share(&mut self) -> Arc<Scope> {
        let scope = self.scope.get_or_insert_with(|| {
            Arc::new(Scope {
                settings: Arc::clone(&self.settings),
                exempt: self.exempt,
                grpc: self.grpc,
                charges: Mutex::default(),
            })
        });
        Arc::clone(scope)
    }
}

/// Gives a visit back to its layer, also if what is inside panics.
struct Back<'a>(&'a Cell<Option<Visit>>);

impl Drop for Back<'_> {
    #[inline]
    fn drop(&mut self) {
        trade_places(self.0);
    }
}

/// Puts a visit where extractors look, and what was there in its place. A thread that is ending has no such place.
#[inline]
fn trade_places(visit: &Cell<Option<Visit>>) {
    let _ = HERE.try_with(|here| here.swap(visit));
}

impl Scope {
    /// Finds the innermost layer around what runs here.
    pub(crate) fn here() -> Option<Arc<Self>> {
        let mut visit = None;
        trade_places(Cell::from_mut(&mut visit));
        let scope = visit.as_mut().map(Visit::share);
        trade_places(Cell::from_mut(&mut visit));
        scope
    }

    /// Adds what was charged inside of the layer. Once the request is answered nobody asks for it any more.
    pub(crate) fn add(&self, charge: Arc<Charge>) {
        self.charges().push(charge);
    }

    fn charges(&self) -> MutexGuard<'_, Vec<Arc<Charge>>> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

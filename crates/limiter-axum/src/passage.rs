//! [`Passage`]: one request on its way through one layer.

use std::cell::Cell;
use std::sync::Arc;

use crate::charge::Charge;
use crate::scope::Scope;
use crate::settings::Settings;

/// One request on its way through one layer, as the layer has it.
///
/// Extractors find it on the thread that runs them, which is inside of the layer just then. So nothing is put into the request, and
/// requests that are charged nothing in their handler, nearly all of them, need no memory for what they do not share.
pub(crate) enum Passage {
    /// No extractor has asked for it.
    Alone {
        settings: Arc<Settings>,
        /// Nothing is charged to it.
        exempt: bool,
        grpc: bool,
    },
    /// Extractors share it.
    Shared(Arc<Scope>),
}

thread_local! {
    /// The innermost passage that this thread is running.
    static HERE: Cell<Option<Passage>> = const { Cell::new(None) };
}

impl Passage {
    #[inline]
    pub(crate) const fn new(settings: Arc<Settings>, exempt: bool, grpc: bool) -> Self {
        Self::Alone {
            settings,
            exempt,
            grpc,
        }
    }

    /// Runs what is inside of the layer: extractors find the passage meanwhile.
    #[inline]
    pub(crate) fn around<T>(passage: &mut Option<Self>, run: impl FnOnce() -> T) -> T {
        if cfg!(not(feature = "axum")) {
            return run();
        }
        let passage = Cell::from_mut(passage);
        trade_places(passage);
        let _put_back = PutBack(passage);
        run()
    }

    /// Shares the passage that runs here, the innermost, with who asks.
    pub(crate) fn share_here() -> Option<Arc<Scope>> {
        let share = |here: &Cell<Option<Self>>| {
            let mut passage = here.take();
            let scope = passage.as_mut().map(Self::share);
            here.set(passage);
            scope
        };
        HERE.try_with(share).ok().flatten()
    }

    fn share(&mut self) -> Arc<Scope> {
        let scope = match self {
            Self::Shared(scope) => return Arc::clone(scope),
            Self::Alone {
                settings,
                exempt,
                grpc,
            } => Scope::new(settings, *exempt, *grpc),
        };
        *self = Self::Shared(Arc::clone(&scope));
        scope
    }

    /// Says whether an extractor may have charged the request.
    #[inline]
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        match self {
            Self::Alone { settings, .. } => settings,
            Self::Shared(scope) => &scope.settings,
        }
    }

    /// Takes out what extractors have charged.
    pub(crate) fn take_charges(&self) -> Vec<Arc<Charge>> {
        match self {
            Self::Alone { .. } => Vec::new(),
            Self::Shared(scope) => scope.take_charges(),
        }
    }
}

/// Gives a passage back to its layer, also if what is inside panics.
struct PutBack<'a>(&'a Cell<Option<Passage>>);

impl Drop for PutBack<'_> {
    #[inline]
    fn drop(&mut self) {
        trade_places(self.0);
    }
}

/// Puts a passage where extractors look, and what was there in its place. A thread that is ending has no such place.
#[inline]
fn trade_places(passage: &Cell<Option<Passage>>) {
    let _ = HERE.try_with(|here| here.swap(passage));
}

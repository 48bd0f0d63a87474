//! [`Passage`]: one request on its way through one layer.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

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

/// Whether anybody has ever looked for a passage: where nobody does, none is shown, which every request would pay for.
static LOOKED_FOR: AtomicBool = AtomicBool::new(false);

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

    /// Says whether extractors look for passages. Once they do it stays so.
    #[inline]
    pub(crate) fn is_looked_for() -> bool {
        cfg!(feature = "axum") && LOOKED_FOR.load(Ordering::Relaxed)
    }

    /// Runs what is inside of the layer: extractors find the passage meanwhile.
    #[inline]
    pub(crate) fn around<T>(passage: &mut Option<Self>, run: impl FnOnce() -> T) -> T {
        let passage = Cell::from_mut(passage);
        trade_places(passage);
        let _put_back = PutBack(passage);
        run()
    }

    /// Finds the passage that runs here, the innermost, and shares it with who asks.
    ///
    /// The first to ask finds none, and neither does who asks where there is no layer. They let go of the thread then, once, so that
    /// the layers around them, which are polled again, show theirs. One that has shown its passage and is found by mistake for another further in is not possible: a thread that has
    /// seen that they are looked for will see it again, further in.
    pub(crate) async fn find() -> Option<Arc<Scope>> {
        let found = Self::share_here();
        if found.is_some() {
            return found;
        }
        LOOKED_FOR.store(true, Ordering::Relaxed);
        let mut was_polled = false;
        poll_fn(|context| {
            if was_polled {
                return Poll::Ready(());
            }
            was_polled = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        Self::share_here()
    }

    /// Shares the passage that runs here, the innermost, with who asks.
    fn share_here() -> Option<Arc<Scope>> {
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

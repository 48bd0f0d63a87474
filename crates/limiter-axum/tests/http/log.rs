//! What an operator would read.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What was logged on this thread, which runs one test and its server, since the log was started.
pub(crate) struct Log;

thread_local! {
    static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Subscribers of one thread each would disturb each other: what is logged at all is known to the process, not to a thread.
static EVERYWHERE: Once = Once::new();

impl Log {
    pub(crate) fn start() -> Self {
        EVERYWHERE.call_once(|| tracing::subscriber::set_global_default(ToThread).unwrap());
        TEXT.take();
        Self
    }

    pub(crate) fn text(&self) -> String {
        TEXT.with_borrow(String::clone)
    }
}

/// Writes what our crates log down for the thread that logs it.
struct ToThread;

impl Subscriber for ToThread {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "limiter"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        TEXT.with_borrow_mut(|text| {
            let _ = write!(text, "{} ", event.metadata().level());
            event.record(&mut Fields(text));
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = writeln!(self.0, "{field}: {value:?}");
    }
}

//! [`CapturedLog`]: what an operator would read.

use std::cell::RefCell;
use std::fmt::{Debug, Write as _};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What our crates logged through `tracing` on the thread of a test, since the log was started there.
///
/// It sets the subscriber of the whole process, once: a test that uses it cannot have another.
///
/// # Examples
/// ```
/// use limiter_core::LogThrottle;
/// use limiter_testkit::CapturedLog;
///
/// let log = CapturedLog::start();
/// LogThrottle::new().error("quota", || "the quota is used up".to_owned());
/// assert_eq!(log.lines(), ["ERROR the quota is used up"]);
/// ```
#[derive(Debug)]
pub struct CapturedLog(());

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Subscribers of one thread each would disturb each other: what is logged at all is known to the process, not to a thread.
static EVERYWHERE: Once = Once::new();

impl CapturedLog {
    /// Starts the log of this thread anew.
    #[must_use]
    pub fn start() -> Self {
        EVERYWHERE.call_once(|| {
            // If the process has a subscriber of its own, no line is found here, and the test says so.
            let _ = tracing::subscriber::set_global_default(ToThread);
        });
        LINES.take();
        Self(())
    }

    /// Returns what was logged on this thread: the level and the message of each event.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        LINES.with_borrow(Clone::clone)
    }
}

/// Keeps what our crates log for the thread that logs it.
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
        let mut line = event.metadata().level().to_string();
        event.record(&mut Message(&mut line));
        LINES.with_borrow_mut(|lines| lines.push(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {value:?}");
    }
}

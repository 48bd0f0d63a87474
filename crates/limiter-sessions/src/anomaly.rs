//! [`Anomaly`]: something that somebody should look at.

use limiter_core::Timestamp;

use crate::{Label, SessionId, Severity};

/// Something that somebody should look at.
///
/// # Examples
/// ```
/// use limiter_sessions::{Anomaly, Label, Severity};
///
/// let anomaly = Anomaly::new(Severity::High, Label::new("replayed_nonce")?).with_note("checkout");
/// assert_eq!(anomaly.note(), "checkout");
/// # Ok::<(), limiter_sessions::InvalidLabel>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    severity: Severity,
    kind: Label,
    session: Option<SessionId>,
    note: Box<str>,
}

impl Anomaly {
    /// The longest note, in bytes.
    pub const NOTE_MAX_LEN: usize = 200;

    /// Makes an anomaly of which no more is told.
    #[must_use]
    pub fn new(severity: Severity, kind: Label) -> Self {
        Self {
            severity,
            kind,
            session: None,
            note: Box::default(),
        }
    }

    /// Names the session in which it was seen.
    #[must_use]
    pub const fn in_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Adds a word for who reads the feed, cut to 200 bytes. Leave addresses, names and secrets out of it.
    #[must_use]
    pub fn with_note(mut self, note: &str) -> Self {
        let end = note.floor_char_boundary(Self::NOTE_MAX_LEN);
        self.note = note.get(..end).unwrap_or_default().into();
        self
    }

    /// Returns how bad it is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns what kind of thing it is.
    #[must_use]
    pub const fn kind(&self) -> &Label {
        &self.kind
    }

    /// Returns the session in which it was seen.
    #[must_use]
    pub const fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Returns the note; empty if there is none.
    #[must_use]
    pub fn note(&self) -> &str {
        &self.note
    }
}

/// An anomaly in the feed, and when it was reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// When it was reported.
    pub at: Timestamp,
    /// What was reported.
    pub anomaly: Anomaly,
}

//! [`Job`]: one command, as a client sends it.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;

use crate::Script;

/// One command on one key, or on several, or on none: a script or a command of the server's. On a cluster the keys are of one slot.
///
/// # Examples
/// ```
/// use limiter_lua::Job;
///
/// let forget = Job::command("HDEL", b"rl:{ann}").arg(b"gold");
/// assert_eq!((forget.verb(false), forget.key_at(), forget.writes()), ("HDEL", 0, true));
/// ```
#[derive(Clone)]
pub struct Job<'a> {
    what: What,
    key: &'a [u8],
    keys: u16,
    args: SmallVec<[Cow<'a, [u8]>; 4]>,
    writes: bool,
    goes_alone: bool,
}

#[derive(Clone, Copy)]
pub(super) enum What {
    Script(Script),
    /// Several calls of the script as one, as `batch.lua` takes them.
    Batch(Script),
    Command(&'static str),
}

impl<'a> Job<'a> {
    /// Runs `script` on `key`.
    #[must_use]
    pub fn script(script: Script, key: &'a [u8]) -> Self {
        Self::new(What::Script(script), key)
    }

    /// Does the command called `verb` on `key`.
    #[must_use]
    pub fn command(verb: &'static str, key: &'a [u8]) -> Self {
        Self::new(What::Command(verb), key)
    }

    /// Does the command called `verb`, which is about no key. It goes to the server by itself.
    #[must_use]
    pub fn bare(verb: &'static str) -> Self {
        let job = Self::new(What::Command(verb), &[]).read_only().alone();
        job.with_keys(0)
    }

    /// Runs `script` for several calls, which have these keys.
    pub(super) fn batch(script: Script, keys: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut keys = keys;
        let job = Self::new(What::Batch(script), keys.next().unwrap_or_default());
        keys.fold(job, Self::also_on)
    }

    pub(super) fn new(what: What, key: &'a [u8]) -> Self {
        Self {
            what,
            key,
            keys: 1,
            args: SmallVec::new(),
            writes: true,
            goes_alone: false,
        }
    }

    /// Adds a key of the same slot. Keys come before all arguments.
    #[must_use]
    pub fn also_on(mut self, key: &'a [u8]) -> Self {
        self.keys = self.keys.saturating_add(1);
        self.arg(key)
    }

    /// Says how many of the keys and arguments are keys.
    pub(super) const fn with_keys(mut self, keys: u16) -> Self {
        self.keys = keys;
        self
    }

    /// Adds an argument after the key.
    #[must_use]
    pub fn arg(self, arg: &'a [u8]) -> Self {
        self.args([Cow::Borrowed(arg)])
    }

    /// Adds arguments after the key.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = Cow<'a, [u8]>>) -> Self {
        self.args.extend(args);
        self
    }

    /// Says that the job changes nothing: a failed one cannot have charged.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.writes = false;
        self
    }

    /// Says that the job goes to the server by itself: its reply may be long, and those of others would come with it.
    #[must_use]
    pub const fn alone(mut self) -> Self {
        self.goes_alone = true;
        self
    }

    /// Returns the name of the command; a script goes with its text if the server does not have it.
    #[must_use]
    pub const fn verb(&self, with_text: bool) -> &'static str {
        match self.what {
            What::Script(_) | What::Batch(_) if with_text => "EVAL",
            What::Script(_) | What::Batch(_) => "EVALSHA",
            What::Command(verb) => verb,
        }
    }

    /// Returns what stands before the number of keys if this is a script: its text or its SHA1.
    #[must_use]
    pub fn script_arg(&self, with_text: bool) -> Option<&'static str> {
        match self.what {
            What::Script(script) if with_text => Some(script.text()),
            What::Script(script) => Some(script.sha1()),
            What::Batch(script) if with_text => Some(script.batch_text()),
            What::Batch(script) => Some(script.batch_sha1()),
            What::Command(_) => None,
        }
    }

    pub(super) const fn what(&self) -> What {
        self.what
    }

    /// Returns how many arguments stand before the key.
    #[must_use]
    pub const fn key_at(&self) -> u8 {
        match self.what {
            What::Script(_) | What::Batch(_) => 2,
            What::Command(_) => 0,
        }
    }

    /// Returns how many keys the job touches; those after the first begin the [`rest`](Self::rest).
    #[must_use]
    pub const fn keys(&self) -> u16 {
        self.keys
    }

    /// Returns the first key that the job touches; nothing if it touches none.
    #[must_use]
    pub const fn key(&self) -> &'a [u8] {
        self.key
    }

    /// Returns what comes after the first key.
    pub fn rest(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.args.iter().map(AsRef::as_ref)
    }

    /// Returns whether the job changes what is stored, so that a failed one may have done so.
    #[must_use]
    pub const fn writes(&self) -> bool {
        self.writes
    }

    /// Returns whether the job is sent by itself, not with others that are ready at the same time.
    #[must_use]
    pub const fn goes_alone(&self) -> bool {
        self.goes_alone
    }
}

/// Keys and arguments are left out: they may name a visitor.
impl fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("verb", &self.verb(false))
            .field("keys", &self.keys)
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_names_no_key_and_no_argument() {
        let job = Job::command("HDEL", b"rl:{ann}").arg(b"gold");
        let said = format!("{job:?}");
        assert_eq!(said, r#"Job { verb: "HDEL", keys: 1, writes: true, .. }"#);
    }
}

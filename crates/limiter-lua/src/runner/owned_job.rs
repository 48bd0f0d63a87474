//! [`OwnedJob`]: a job that waits to be sent.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::Script;

use super::Job;
use super::job::What;

/// A job that waits to be sent: it borrows nothing of its caller. What it is sent with is in one piece.
pub(super) struct OwnedJob {
    what: What,
    keys: u16,
    with_text: bool,
    bytes: Vec<u8>,
    /// Where in `bytes` each key and each argument ends.
    ends: SmallVec<[usize; 6]>,
}

impl OwnedJob {
    /// Takes down `job`, which goes with the text of its script if so told.
    pub(super) fn of(job: &Job<'_>, with_text: bool) -> Self {
        let parts = || std::iter::once(job.key()).chain(job.rest());
        let mut bytes = Vec::with_capacity(parts().map(<[u8]>::len).sum());
        let ends = parts().map(|part| {
            bytes.extend_from_slice(part);
            bytes.len()
        });
        Self {
            what: job.what(),
            keys: job.keys(),
            with_text,
            ends: ends.collect(),
            bytes,
        }
    }

    /// Returns the job.
    pub(super) fn job(&self) -> Job<'_> {
        let mut parts = self.parts();
        let key = parts.next().unwrap_or_default();
        Job::new(self.what, key)
            .args(parts.map(Cow::Borrowed))
            .with_keys(self.keys)
    }

    pub(super) const fn is_with_text(&self) -> bool {
        self.with_text
    }

    /// Returns the script that is called by its name, with no more keys and arguments than `batch.lua` can count; if it is one.
    pub(super) fn script_to_batch(&self) -> Option<Script> {
        match self.what {
            What::Script(script) if !self.with_text && u8::try_from(self.ends.len()).is_ok() => {
                Some(script)
            }
            _ => None,
        }
    }

    pub(super) fn own_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().take(usize::from(self.keys))
    }

    pub(super) fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        self.parts().skip(usize::from(self.keys))
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let part = self.bytes.get(begin..*end).unwrap_or_default();
            begin = *end;
            part
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_same_job() {
        let job = Job::script(Script::Chain, b"first").also_on(b"");
        let job = job.arg(b"argument").arg(b"another");
        let owned = OwnedJob::of(&job, false);
        let again = owned.job();
        assert_eq!((again.key(), again.keys()), (&b"first"[..], 2));
        assert!(again.rest().eq(job.rest()));
        assert_eq!(again.script_arg(false), job.script_arg(false));
        assert!(owned.own_keys().eq([&b"first"[..], b""]));
        assert!(owned.arguments().eq([&b"argument"[..], b"another"]));
    }

    #[test]
    fn a_call_with_its_text_or_of_no_script_or_too_long_to_count_is_in_no_batch() {
        let script_to_batch =
            |job: Job<'_>, with_text| OwnedJob::of(&job, with_text).script_to_batch();
        let with = |arguments: usize| {
            let arguments = vec![Cow::Borrowed(&b"argument"[..]); arguments];
            Job::script(Script::Chain, b"key").args(arguments)
        };
        assert_eq!(script_to_batch(with(254), false), Some(Script::Chain));
        assert_eq!(script_to_batch(with(255), false), None);
        assert_eq!(script_to_batch(with(1), true), None);
        assert_eq!(script_to_batch(Job::command("GET", b"key"), false), None);
    }
}

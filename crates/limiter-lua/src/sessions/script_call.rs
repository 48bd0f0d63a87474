//! [`ScriptCall`]: one call of a script about sessions.

use std::borrow::Cow;

use limiter_core::Timestamp;

use crate::manual_time::ManualTime;
use crate::{Job, Script};

/// One call of a script about sessions: on which keys, with which arguments.
#[derive(Clone)]
pub(super) struct ScriptCall {
    script: Script,
    keys: Vec<Vec<u8>>,
    args: Vec<Vec<u8>>,
    clock: Option<ManualTime>,
    writes: bool,
    lists: bool,
}

impl ScriptCall {
    pub(super) fn new(
        script: Script,
        keys: impl IntoIterator<Item = Vec<u8>>,
        args: impl IntoIterator<Item = Vec<u8>>,
    ) -> Self {
        Self {
            script,
            keys: keys.into_iter().collect(),
            args: args.into_iter().collect(),
            clock: None,
            writes: true,
            lists: false,
        }
    }

    /// Says that the call changes nothing.
    pub(super) const fn read_only(mut self) -> Self {
        self.writes = false;
        self
    }

    /// Says that the call changes nothing, and that its reply is a list, which may be long.
    pub(super) const fn listing(mut self) -> Self {
        self.lists = true;
        self.read_only()
    }

    /// Returns the same call, decided at `now` if there is one, and else at the server's time.
    pub(super) fn at(mut self, now: Option<Timestamp>) -> Self {
        self.clock = now.map(ManualTime::new);
        self
    }

    pub(super) fn job(&self) -> Job<'_> {
        let (first, others) = match self.keys.split_first() {
            Some((first, others)) => (first.as_slice(), others),
            None => (&[][..], &[][..]),
        };
        let mut job = Job::script(self.script, first);
        for key in others {
            job = job.also_on(key);
        }
        let clock = self.clock.iter().flat_map(ManualTime::args);
        let args = self.args.iter().map(Vec::as_slice).chain(clock);
        let job = job.args(args.map(Cow::Borrowed));
        let job = if self.writes { job } else { job.read_only() };
        if self.lists { job.alone() } else { job }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_goes_alone_and_changes_nothing() {
        let call = ScriptCall::new(Script::Signals, [b"key".to_vec()], []);
        for (call, said) in [
            (call.clone(), (true, false)),
            (call.clone().read_only(), (false, false)),
            (call.listing(), (false, true)),
        ] {
            let job = call.job();
            assert_eq!((job.writes(), job.goes_alone()), said);
        }
    }
}

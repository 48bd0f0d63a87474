//! [`Message`]: what a server is sent for one job, or for several.

use std::borrow::Cow;
use std::iter;

use crate::Script;

use super::owned_job::OwnedJob;
use super::waiting::MOST;
use super::{Driver, Job, Reply};

/// So many calls of a script are sent as one, if there are as many. Of fewer a server makes shorter work one by one.
const FEWEST: usize = 4;

/// A batch counts its calls by bytes.
const _: () = assert!(MOST <= u8::MAX as usize);

/// What a server is sent for the job at a place among several, or for those at some places.
pub(super) enum Message<'a> {
    /// One job, as it is.
    Alone(usize, &'a OwnedJob),
    /// Calls of one script, as one call of `batch.lua`.
    Batch(ScriptBatch<'a>),
}

/// Calls of one script, and where among all jobs they stand.
pub(super) struct ScriptBatch<'a> {
    script: Script,
    calls: Vec<(usize, &'a OwnedJob)>,
}

/// Puts jobs together that can be sent as one, if the server takes batches.
pub(super) fn messages(jobs: &[OwnedJob], takes_batches: bool) -> Vec<Message<'_>> {
    let mut messages = Vec::new();
    let mut batches: Vec<ScriptBatch<'_>> = Vec::new();
    for (place, job) in jobs.iter().enumerate() {
        let Some(script) = job.script_to_batch().filter(|_| takes_batches) else {
            messages.push(Message::Alone(place, job));
            continue;
        };
        let of_script = batches.iter_mut().find(|batch| batch.script == script);
        match of_script {
            Some(batch) => batch.calls.push((place, job)),
            None => batches.push(ScriptBatch {
                script,
                calls: vec![(place, job)],
            }),
        }
    }
    for batch in batches {
        if batch.calls.len() < FEWEST {
            messages.extend(batch.one_by_one());
        } else {
            messages.push(Message::Batch(batch));
        }
    }
    messages
}

impl Message<'_> {
    pub(super) fn command<D: Driver>(&self) -> D::Command {
        match self {
            Self::Alone(_, job) => D::command(&job.job(), job.is_with_text()),
            Self::Batch(batch) => batch.command::<D>(false),
        }
    }
}

impl<'a> ScriptBatch<'a> {
    /// Returns the places of the calls.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        self.calls.iter().map(|(place, _)| *place)
    }

    /// Leaves out the calls that are not to be kept.
    pub(super) fn keep(&mut self, kept: &[bool]) {
        let mut kept = kept.iter();
        self.calls.retain(|_| kept.next() == Some(&true));
    }

    /// Returns the calls as messages of their own.
    pub(super) fn one_by_one(self) -> impl Iterator<Item = Message<'a>> {
        let calls = self.calls.into_iter();
        calls.map(|(place, job)| Message::Alone(place, job))
    }

    /// Returns the one call, with the text of the script if so told.
    pub(super) fn command<D: Driver>(&self, with_text: bool) -> D::Command {
        D::command(&self.job(), with_text)
    }

    fn job(&self) -> Job<'_> {
        let jobs = || self.calls.iter().map(|(_, job)| *job);
        let mut lists: Vec<&OwnedJob> = Vec::new();
        let mut sizes = Vec::with_capacity(2 * self.calls.len());
        for job in jobs() {
            let is_same = |known: &&OwnedJob| known.arguments().eq(job.arguments());
            let list = lists.iter().position(is_same).unwrap_or_else(|| {
                lists.push(job);
                lists.len() - 1
            });
            sizes.extend([byte(job.own_keys().count()), byte(list + 1)]);
        }
        let lengths = lists.iter().map(|list| byte(list.arguments().count()));
        let arguments = lists.iter().flat_map(|list| list.arguments());
        let arguments = arguments.map(Cow::Borrowed).collect::<Vec<_>>();
        Job::batch(self.script, jobs().flat_map(OwnedJob::own_keys))
            .args([Cow::Owned(sizes), Cow::Owned(lengths.collect())])
            .args(arguments)
    }

    /// Takes the reply to all apart into those to each.
    pub(super) fn replies<D: Driver>(
        &self,
        reply: Result<D::Reply, D::Error>,
    ) -> Vec<Result<D::Reply, D::Error>> {
        match reply.map(D::reply) {
            Ok(Reply::List(replies)) if replies.len() == self.calls.len() + 1 => {
                replies_to_each::<D>(replies)
            }
            // Nobody knows whose is whose.
            Ok(_) => self.told_to_all::<D>(&D::lost()),
            Err(error) => self.told_to_all::<D>(&error),
        }
    }

    fn told_to_all<D: Driver>(&self, error: &D::Error) -> Vec<Result<D::Reply, D::Error>> {
        let all = iter::repeat_with(|| Err(error.clone()));
        all.take(self.calls.len()).collect()
    }
}

/// Returns a number as a byte: calls, keys and arguments are fewer.
fn byte(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Reads the reply to each call: after them `batch.lua` says which of them failed.
fn replies_to_each<D: Driver>(mut replies: Vec<Reply>) -> Vec<Result<D::Reply, D::Error>> {
    let failed = replies.pop();
    let failed = failed.as_ref().and_then(Reply::bytes).unwrap_or_default();
    let numbers = (1..=u8::MAX).zip(replies);
    let replies = numbers.map(|(number, reply)| match reply {
        Reply::Bytes(words) if failed.contains(&number) => {
            Err(D::error_reply(&String::from_utf8_lossy(&words)))
        }
        Reply::Bytes(bytes) => Ok(D::reply_of_bytes(bytes)),
        _ => Err(D::lost()),
    });
    replies.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tenfold::{Lost, Tenfold};
    use super::*;

    fn call(script: Script, key: &str, argument: &str) -> OwnedJob {
        let job = Job::script(script, key.as_bytes()).also_on(b"second");
        OwnedJob::of(&job.arg(argument.as_bytes()).arg(b"gold"), false)
    }

    /// The places that go alone, and those that go as one.
    fn places(jobs: &[OwnedJob]) -> (Vec<usize>, Vec<Vec<usize>>) {
        let (mut alone, mut batches) = (Vec::new(), Vec::new());
        for message in messages(jobs, true) {
            match message {
                Message::Alone(place, _) => alone.push(place),
                Message::Batch(batch) => batches.push(batch.places().collect()),
            }
        }
        (alone, batches)
    }

    #[test]
    fn calls_of_one_script_go_as_one_if_they_are_some() {
        let mut jobs = vec![OwnedJob::of(&Job::command("GET", b"key"), false)];
        for (nth, script) in [Script::Chain, Script::Chain, Script::Abuse, Script::Chain]
            .into_iter()
            .enumerate()
        {
            jobs.push(call(script, &nth.to_string(), ""));
        }
        assert_eq!(places(&jobs), (vec![0, 1, 2, 4, 3], vec![]));
        jobs.push(call(Script::Chain, "5", ""));
        assert_eq!(places(&jobs), (vec![0, 3], vec![vec![1, 2, 4, 5]]));
    }

    #[test]
    fn reply_that_cannot_be_taken_apart_is_lost_to_all() {
        let jobs = ["1", "2", "3", "4"].map(|key| call(Script::Chain, key, ""));
        let messages = messages(&jobs, true);
        let [Message::Batch(batch)] = &messages[..] else {
            panic!("four calls are a batch")
        };
        assert_eq!(batch.replies::<Tenfold>(Ok(10)), [const { Err(Lost) }; 4]);
        assert_eq!(
            batch.replies::<Tenfold>(Err(Lost)),
            [const { Err(Lost) }; 4]
        );
    }

    #[test]
    fn arguments_that_are_the_same_are_sent_once() {
        let jobs =
            ["10", "20", "10", "10", "20"].map(|argument| call(Script::Chain, argument, argument));
        let messages = messages(&jobs, true);
        let [Message::Batch(batch)] = &messages[..] else {
            panic!("five calls are a batch")
        };
        let job = batch.job();
        assert_eq!((job.key(), job.keys()), (&b"10"[..], 10));
        assert_eq!(job.verb(false), "EVALSHA");
        assert_eq!(job.script_arg(false), Some(Script::Chain.batch_sha1()));
        assert_eq!(job.script_arg(true), Some(Script::Chain.batch_text()));
        let rest: Vec<&[u8]> = job.rest().skip(9).collect();
        let (sizes, lengths) = ([2, 1, 2, 2, 2, 1, 2, 1, 2, 2], [2, 2]);
        let expected: [&[u8]; 6] = [&sizes, &lengths, b"10", b"gold", b"20", b"gold"];
        assert_eq!(rest, expected);
    }
}

//! [`Batch`]: several calls of a script as one. fred writes every call of a script to the socket by itself, which is most of
//! what a call costs it.

use fred::error::{Error, ErrorKind};
use fred::types::{ClusterHash, CustomCommand, Value};
use limiter_lua::Script;

use crate::connection::Command;

/// Several calls of a script as one, as `batch.lua` takes them.
pub(crate) struct Batch {
    script: Script,
    calls: Vec<Command>,
}

/// Those of several commands that call one script, or none, and where among all they stand.
pub(crate) struct Group {
    pub(crate) script: Option<Script>,
    pub(crate) places: Vec<usize>,
    pub(crate) commands: Vec<Command>,
}

/// Puts the calls of each script together.
pub(crate) fn grouped(commands: Vec<Command>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (place, command) in commands.into_iter().enumerate() {
        let script = size(&command).and(command.script).map(|(script, _)| script);
        if let Some(group) = groups.iter_mut().find(|group| group.script == script) {
            group.places.push(place);
            group.commands.push(command);
        } else {
            groups.push(Group {
                script,
                places: vec![place],
                commands: vec![command],
            });
        }
    }
    groups
}

/// What a call begins with, and a batch says once for all: the name of the script and the number of keys.
const HEAD: usize = 2;

/// Returns how many keys and how many arguments a call has; `None` if a byte cannot count them, as `batch.lua` has it.
fn size(call: &Command) -> Option<[u8; 2]> {
    let (_, keys) = call.script?;
    let arguments = call.args.len().checked_sub(HEAD + usize::from(keys))?;
    Some([keys, u8::try_from(arguments).ok()?])
}

impl Batch {
    /// Makes one call of `commands`, all of which call `script`. A lone one, and what is no call of a script, stays as it is.
    pub(crate) fn of(script: Option<Script>, commands: Vec<Command>) -> Result<Self, Vec<Command>> {
        match script {
            Some(script) if commands.len() > 1 => Ok(Self {
                script,
                calls: commands,
            }),
            _ => Err(commands),
        }
    }

    /// Returns the calls, each by itself.
    pub(crate) fn into_calls(self) -> Vec<Command> {
        self.calls
    }

    /// Returns the one call, with the text of the script if so told.
    pub(crate) fn command(&self, with_text: bool) -> Command {
        let (verb, script) = if with_text {
            ("EVAL", self.script.batch_text())
        } else {
            ("EVALSHA", self.script.batch_sha1())
        };
        let sizes: Vec<[u8; 2]> = self.calls.iter().filter_map(size).collect();
        let count = sizes.iter().map(|[keys, _]| i64::from(*keys)).sum::<i64>();
        let mut args = vec![Value::from_static_str(script), count.into()];
        for (call, [keys, _]) in self.calls.iter().zip(&sizes) {
            let own = call.args.iter().skip(HEAD).take(usize::from(*keys));
            args.extend(own.cloned());
        }
        args.push(Value::Bytes(sizes.concat().into()));
        for (call, [keys, _]) in self.calls.iter().zip(&sizes) {
            let own = call.args.iter().skip(HEAD + usize::from(*keys));
            args.extend(own.cloned());
        }
        Command {
            verb: CustomCommand::new_static(verb, ClusterHash::Offset(2), false),
            args,
            script: None,
        }
    }

    /// Returns the reply to each call; what went wrong with all is said of each.
    pub(crate) fn replies(&self, reply: Result<Value, Error>) -> Vec<Result<Value, Error>> {
        match reply {
            Ok(Value::Array(replies)) => replies.iter().map(reply_to_one).collect(),
            Ok(_) => Vec::new(),
            Err(error) => vec![Err(error); self.calls.len()],
        }
    }
}

/// Reads the reply to one call, as `batch.lua` marks it.
fn reply_to_one(marked: &Value) -> Result<Value, Error> {
    match marked.as_bytes() {
        Some([b'+', reply @ ..]) => Ok(Value::Bytes(reply.to_vec().into())),
        Some([b'-', words @ ..]) => {
            let words = String::from_utf8_lossy(words).into_owned();
            Err(Error::new(ErrorKind::Unknown, words))
        }
        _ => Err(Error::new(
            ErrorKind::Protocol,
            "a reply that is not the script's",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::command;
    use limiter_lua::Job;

    fn call(arguments: usize) -> Command {
        let arguments = vec![std::borrow::Cow::Borrowed(&b"argument"[..]); arguments];
        let job = Job::script(Script::Chain, b"first").also_on(b"second");
        command(&job.args(arguments), false)
    }

    #[test]
    fn call_with_more_arguments_than_a_byte_counts_stays_out_of_batches() {
        let groups = grouped(vec![call(1), call(255), call(256), call(300), call(0)]);
        let told = groups.iter().map(|group| (group.script, &group.places[..]));
        let told: Vec<_> = told.collect();
        let batch = (Some(Script::Chain), &[0, 1, 4][..]);
        assert_eq!(told, [batch, (None, &[2, 3][..])]);
    }

    #[test]
    fn batch_says_of_each_call_how_many_keys_and_arguments_it_has() {
        let batch = Batch::of(Some(Script::Chain), vec![call(1), call(0), call(255)]);
        let Ok(batch) = batch else {
            panic!("three calls are a batch")
        };
        let args = batch.command(false).args;
        assert_eq!(args.len(), 2 + 6 + 1 + 256);
        assert_eq!(args[1], Value::Integer(6));
        let sizes = args[8].as_bytes().expect("the sizes");
        assert_eq!(sizes, [2, 1, 2, 0, 2, 255]);
        assert_eq!(batch.into_calls().len(), 3);
    }
}

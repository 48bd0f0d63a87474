//! [`Batch`]: several calls of a script as one. fred writes every call of a script to the socket by itself, which is most of
//! what a call costs it.

use fred::error::{Error, ErrorKind};
use fred::types::{ClusterHash, CustomCommand, Value};
use limiter_lua::Script;

use crate::connection::Command;

/// Several calls of a script as one, as `batch.lua` takes them.
pub(crate) struct Batch {
    script: Script,
    keys: Vec<Value>,
    sizes: Vec<u8>,
    args: Vec<Value>,
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
        let script = command.script.map(|(script, _)| script);
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

impl Batch {
    /// Makes one call of `commands`, all of which call `script`. A lone one, and what is no call of a script, stays as it is.
    pub(crate) fn of(script: Option<Script>, commands: Vec<Command>) -> Result<Self, Vec<Command>> {
        let Some(script) = script.filter(|_| commands.len() > 1) else {
            return Err(commands);
        };
        let mut batch = Self {
            script,
            keys: Vec::new(),
            sizes: Vec::new(),
            args: Vec::new(),
        };
        for Command { args, script, .. } in commands {
            batch.add(script.map_or(0, |(_, keys)| keys), args);
        }
        Ok(batch)
    }

    fn add(&mut self, keys: u8, args: Vec<Value>) {
        // The name of the script and the number of keys are said once for all.
        let mut args = args.into_iter().skip(2);
        self.keys.extend(args.by_ref().take(usize::from(keys)));
        let before = self.args.len();
        self.args.extend(args);
        // A script is told of a few plans: far fewer than a byte can count.
        let count = u8::try_from(self.args.len() - before).unwrap_or(u8::MAX);
        self.sizes.extend([keys, count]);
    }

    /// Returns the one call, with the text of the script if so told.
    pub(crate) fn command(&self, with_text: bool) -> Command {
        let (verb, script) = if with_text {
            ("EVAL", self.script.batch_text())
        } else {
            ("EVALSHA", self.script.batch_sha1())
        };
        let keys = i64::try_from(self.keys.len()).unwrap_or(i64::MAX);
        let mut args = vec![Value::from_static_str(script), keys.into()];
        args.extend(self.keys.iter().cloned());
        args.push(Value::Bytes(self.sizes.clone().into()));
        args.extend(self.args.iter().cloned());
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
            Err(error) => vec![Err(error); self.sizes.len() / 2],
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

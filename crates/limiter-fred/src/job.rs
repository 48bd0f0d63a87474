//! [`Job`]: what a store asks of a server.

use fred::types::{ClusterHash, CustomCommand, Value};
use limiter_core::Plan;
use limiter_lua::{Call, field};

/// What a store asks of a server: to run a script, or to forget plans of a key.
pub(crate) enum Job<'a> {
    Run(Call<'a>),
    Forget { name: Vec<u8>, plans: &'a [Plan] },
}

impl Job<'_> {
    /// Returns the command of this job and its arguments; with the whole text of the script if the server does not have
    /// it.
    pub(crate) fn command(&self, with_text: bool) -> (CustomCommand, Vec<Value>) {
        match self {
            Self::Run(call) => {
                let (command, script) = if with_text {
                    ("EVAL", call.script().text())
                } else {
                    ("EVALSHA", call.script().sha1())
                };
                let command = CustomCommand::new_static(command, ClusterHash::Offset(2), false);
                let mut args = vec![Value::from_static_str(script), 1.into(), bytes(call.name())];
                args.extend(call.args().map(|arg| bytes(&arg)));
                (command, args)
            }
            Self::Forget { name, plans } => {
                let command = CustomCommand::new_static("HDEL", ClusterHash::Offset(0), false);
                let mut args = vec![bytes(name)];
                args.extend(plans.iter().map(|plan| bytes(&field(plan.name()))));
                (command, args)
            }
        }
    }

    /// Returns whether the job changes what is stored, so that a failed one may have done so.
    pub(crate) const fn writes(&self) -> bool {
        match self {
            Self::Run(call) => call.writes(),
            Self::Forget { .. } => true,
        }
    }
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.to_vec().into())
}

//! [`Job`]: what a store asks of a server.

use fred::types::{ClusterHash, CustomCommand, Value};
use limiter_core::Plan;
use limiter_lua::{AbuseCall, Call, Script, field};

/// What a store asks of a server: to run a script on plans or on attempts, or to forget plans of a key.
pub(crate) enum Job<'a> {
    Run(Call<'a>),
    Attempt(AbuseCall<'a>),
    Forget { name: Vec<u8>, plans: &'a [Plan] },
}

impl Job<'_> {
    /// Returns the command of this job and its arguments; with the whole text of the script if the server does not have
    /// it.
    pub(crate) fn command(&self, with_text: bool) -> (CustomCommand, Vec<Value>) {
        match self {
            Self::Run(call) => {
                let (command, mut args) = begin(call.script(), call.name(), with_text);
                args.extend(call.args().map(|arg| bytes(&arg)));
                (command, args)
            }
            Self::Attempt(call) => {
                let (command, mut args) = begin(call.script(), call.name(), with_text);
                args.extend(call.args().map(bytes));
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
            Self::Attempt(call) => call.writes(),
            Self::Forget { .. } => true,
        }
    }
}

/// Returns the command that runs a script on one key, and its first arguments.
fn begin(script: Script, name: &[u8], with_text: bool) -> (CustomCommand, Vec<Value>) {
    let (command, script) = if with_text {
        ("EVAL", script.text())
    } else {
        ("EVALSHA", script.sha1())
    };
    let command = CustomCommand::new_static(command, ClusterHash::Offset(2), false);
    let args = vec![Value::from_static_str(script), 1.into(), bytes(name)];
    (command, args)
}

fn bytes(bytes: &[u8]) -> Value {
    Value::Bytes(bytes.to_vec().into())
}

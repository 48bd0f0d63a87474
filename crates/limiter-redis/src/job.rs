//! [`Job`]: what a store asks of a server.

use limiter_core::Plan;
use limiter_lua::{AbuseCall, Call, Script, field};
use redis::Cmd;

/// What a store asks of a server: to run a script on plans or on attempts, or to forget plans of a key.
pub(crate) enum Job<'a> {
    Run(Call<'a>),
    Attempt(AbuseCall<'a>),
    Forget { name: Vec<u8>, plans: &'a [Plan] },
}

impl Job<'_> {
    /// Returns the command of this job; with the whole text of the script if the server does not have it.
    pub(crate) fn command(&self, with_text: bool) -> Cmd {
        let mut command = Cmd::new();
        match self {
            Self::Run(call) => {
                begin(&mut command, call.script(), with_text);
                command.arg(1).arg(call.name());
                for arg in call.args() {
                    command.arg(arg.as_ref());
                }
            }
            Self::Attempt(call) => {
                begin(&mut command, call.script(), with_text);
                command.arg(1).arg(call.name());
                for arg in call.args() {
                    command.arg(arg);
                }
            }
            Self::Forget { name, plans } => {
                command.arg("HDEL").arg(name);
                for plan in *plans {
                    command.arg(field(plan.name()).as_ref());
                }
            }
        }
        command
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

fn begin(command: &mut Cmd, script: Script, with_text: bool) {
    if with_text {
        command.arg("EVAL").arg(script.text());
    } else {
        command.arg("EVALSHA").arg(script.sha1());
    }
}

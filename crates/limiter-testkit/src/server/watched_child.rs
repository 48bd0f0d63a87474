use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::ServerError;

/// Waits for a line before it becomes the server: the watchdog is there first. No line: the test process is gone.
const GATE: &str = r#"read -r _ || exit 1; exec "$@" </dev/null"#;

/// Holds the reading end of a pipe that the test process never writes to: it wakes up when that process ends.
const WATCHDOG: &str =
    r#"trap '' INT TERM HUP; read -r _; kill -9 "$1" 2>/dev/null; rm -rf -- "$2""#;

/// A child process that dies with its handle, and with this process even if that is killed.
///
/// Not `PR_SET_PDEATHSIG`: that fires when the *thread* that spawned the child ends, and test threads end before
/// servers that several tests share.
#[derive(Debug)]
pub(super) struct WatchedChild {
    child: Child,
    watchdog: Child,
}

impl WatchedChild {
    /// Runs `program` in `dir`, its output appended to `log`. The watchdog removes `dir` if it has to step in.
    pub(super) fn spawn(
        program: &Path,
        args: &[String],
        dir: &Path,
        log: &Path,
    ) -> Result<Self, ServerError> {
        let io = |what: &str| ServerError::io(format!("{what} for {}", program.display()));
        let stdout = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .map_err(io("open the log"))?;
        let stderr = stdout.try_clone().map_err(io("open the log"))?;
        let mut child = shell(GATE)
            .arg(program)
            .args(args)
            .current_dir(dir)
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .map_err(io("start a shell"))?;
        let watchdog = shell(WATCHDOG)
            .arg(child.id().to_string())
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(io("start the watchdog"))?;
        let gate = child.stdin.take();
        let watched = Self { child, watchdog };
        if let Some(mut gate) = gate {
            gate.write_all(b"go\n").map_err(io("open the gate"))?;
        }
        Ok(watched)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has not ended. A stopped process runs in this sense.
    pub(super) fn is_running(&mut self) -> bool {
        let running = matches!(self.child.try_wait(), Ok(None));
        if !running {
            // The process id is free for others from here on.
            let _ = self.watchdog.kill();
        }
        running
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), ServerError> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|errno| ServerError::io(format!("send {signal:?}"))(errno.into()))
    }
}

impl Drop for WatchedChild {
    fn drop(&mut self) {
        // This order leaves no moment without a watch, and none in which the watchdog could hit a reused process id:
        // a killed child keeps its id until it is waited for.
        let _ = self.child.kill();
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.wait();
    }
}

/// A shell in its own process group, so that an interrupt at the terminal reaches only the test process.
fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script, "sh"])
        .stdin(Stdio::piped())
        .process_group(0);
    command
}

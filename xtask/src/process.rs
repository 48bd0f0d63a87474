//! Starting other programs.

use std::{
    env,
    ffi::OsString,
    io::{self, Read},
    process::{Command, ExitStatus, Stdio},
};

use crate::problem::Problem;

/// The cargo that runs this program.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments);
    // What this program was started with: build scripts that read them would run again, and all that needs them be built anew.
    let of_this_package = |name: &str| {
        ["CARGO_MANIFEST_", "CARGO_PKG_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(of_this_package) {
            command.env_remove(name);
        }
    }
    command
}

/// Shows the command on standard error, then runs it with its output going straight through.
pub(crate) fn run(command: &mut Command) -> Result<(), Problem> {
    eprintln!("$ {}", display(command));
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|source| not_started(command, source))?;
    if status.success() {
        return Ok(());
    }
    Err(Problem::Failed {
        command: display(command),
        status,
    })
}

/// Runs a command and returns what it printed on its standard output.
pub(crate) fn read(command: &mut Command) -> Result<String, Problem> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output();
    let output = output.map_err(|source| not_started(command, source))?;
    if !output.status.success() {
        return Err(Problem::Failed {
            command: display(command),
            status: output.status,
        });
    }
    String::from_utf8(output.stdout).map_err(|error| Problem::NotUnderstood {
        command: display(command),
        reason: error.to_string(),
    })
}

/// Runs a command and returns all that it printed, on both of its outputs, and how it ended.
pub(crate) fn read_all(command: &mut Command) -> Result<(String, ExitStatus), Problem> {
    let run = |command: &mut Command| {
        let (mut printed, writer) = io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        let mut child = command.stdin(Stdio::null()).spawn()?;
        // They hold an end of the pipe to write to: while they do, there may be more to read.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut bytes = Vec::new();
        printed.read_to_end(&mut bytes)?;
        Ok((String::from_utf8_lossy(&bytes).into_owned(), child.wait()?))
    };
    run(command).map_err(|source| not_started(command, source))
}

/// Whether a command can be started and succeeds; prints nothing.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as one would type it, with the variables set for it.
pub(crate) fn display(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        let (name, value) = (name.to_string_lossy(), value?.to_string_lossy());
        Some(format!("{name}=\"{value}\""))
    });
    let program = std::path::Path::new(command.get_program());
    let program = program.file_stem().unwrap_or(command.get_program());
    let arguments = command.get_args().map(|word| word.to_string_lossy().into());
    variables
        .chain([program.to_string_lossy().into()])
        .chain(arguments)
        .collect::<Vec<String>>()
        .join(" ")
}

fn not_started(command: &Command, source: io::Error) -> Problem {
    Problem::NotStarted {
        command: display(command),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/opt/rust/bin/cargo");
        command
            .args(["doc", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(
            display(&command),
            "RUSTDOCFLAGS=\"-D warnings\" cargo doc --no-deps"
        );
    }

    #[test]
    fn all_that_is_printed_is_read_in_order_with_the_code() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let (printed, status) = read_all(&mut command).unwrap();
        assert_eq!(printed, "one\ntwo\nthree\n");
        assert_eq!(status.code(), Some(3));
    }
}

//! Starting other programs.

use std::{
    env,
    ffi::OsString,
    process::{Command, Stdio},
};

use crate::problem::Problem;

/// The cargo that runs this program.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments);
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

fn not_started(command: &Command, source: std::io::Error) -> Problem {
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
}

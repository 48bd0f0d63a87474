//! Measurements that need a process of their own: the program starts itself again, with a task as its argument.

use std::io;
use std::process::Command;

use crate::resident;

const FLAG: &str = "--measure-in-child";

/// Runs the task that the command line names, if it names one; `main` then ends.
#[must_use]
pub fn run_if_child() -> bool {
    let mut args = std::env::args().skip_while(|arg| arg != FLAG).skip(1);
    let Some(task) = args.next() else {
        return false;
    };
    for value in resident::run(&task) {
        println!("{value}");
    }
    true
}

/// Runs `task` in a child and returns the numbers that it prints.
///
/// # Errors
/// If the child cannot be started.
pub fn ask(task: &str) -> io::Result<Vec<f64>> {
    let output = Command::new(std::env::current_exe()?)
        .args([FLAG, task])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
}

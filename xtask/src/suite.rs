//! `cargo xtask test`: the steps, one after the other and beside each other, and their sum.

use std::{
    env,
    panic::resume_unwind,
    path::Path,
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

use crate::{
    checks::{self, Check},
    problem::Problem,
    process::{display, read_all},
    workspace::Workspace,
};

/// One thing that must hold. A step that cannot run fails.
struct Step {
    name: &'static str,
    title: &'static str,
    turn: Turn,
    check: Check,
}

/// When a step runs, if all do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// Before the tests.
    Before,
    /// While others compile: it waits for servers more than it computes.
    Tests,
    /// Beside the tests, with what they leave of the machine: it computes, and nothing in it has a deadline.
    Beside,
    /// As well, beside all of these: it compiles one thing at a time, in a target folder of its own, as cargo lets only one at a time
    /// build in one.
    Elsewhere,
}

/// The cheap ones first. The first of those beside the tests does not build where they look for what is built, so that they do not
/// wait for it.
#[rustfmt::skip]
const STEPS: &[Step] = &[
    Step { name: "fmt", title: "stock formatting", turn: Turn::Before, check: checks::formatting },
    Step { name: "source", title: "nothing unfinished, ignored or unsafe in the source", turn: Turn::Before, check: checks::source },
    Step { name: "arrows", title: "dependencies point inwards, the core stays pure", turn: Turn::Before, check: checks::arrows },
    Step { name: "package", title: "published crates hold all that they need", turn: Turn::Before, check: checks::package },
    Step { name: "build", title: "all tests and examples build", turn: Turn::Before, check: checks::build },
    Step { name: "servers", title: "every version of Redis and Valkey to test on is there", turn: Turn::Before, check: checks::servers },
    Step { name: "examples", title: "every example runs", turn: Turn::Tests, check: checks::examples },
    Step { name: "tests", title: "all tests: unit, property, law, doc", turn: Turn::Tests, check: checks::tests },
    Step { name: "interleavings", title: "the memory store under a controlled scheduler", turn: Turn::Beside, check: checks::interleavings },
    Step { name: "features", title: "every combination of features of every crate", turn: Turn::Elsewhere, check: checks::features },
    Step { name: "msrv", title: "the oldest supported compiler", turn: Turn::Elsewhere, check: checks::msrv },
    Step { name: "clippy", title: "no lint, all targets and features", turn: Turn::Beside, check: checks::clippy },
    Step { name: "docs", title: "documentation without a warning", turn: Turn::Beside, check: checks::documentation },
];

/// Prints the names of all steps.
pub(crate) fn list() {
    for step in STEPS {
        println!("{:<14} {}", step.name, step.title);
    }
}

/// Runs the steps named by `only`, or all of them; the code is a failure if any of them failed.
pub(crate) fn run(only: &[String]) -> Result<ExitCode, Problem> {
    let steps = select(only)?;
    let workspace = Workspace::load()?;
    let started = Instant::now();
    let here = |step: &Step| (step.check)(&workspace);
    let failed = if steps.iter().any(|step| step.turn == Turn::Tests) {
        let mut failed = run_those(&steps, &[Turn::Before], here);
        let beside = |step: &Step| run_apart(step, &workspace.target_directory);
        let folder = workspace.target_directory.join("elsewhere");
        let elsewhere = |step: &Step| run_apart(step, &folder);
        thread::scope(|scope| {
            let lanes = [
                scope.spawn(|| run_those(&steps, &[Turn::Beside], beside)),
                scope.spawn(|| run_those(&steps, &[Turn::Elsewhere], elsewhere)),
            ];
            failed.extend(run_those(&steps, &[Turn::Tests], here));
            for lane in lanes {
                failed.extend(lane.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        });
        failed
    } else {
        run_those(&steps, &[Turn::Before, Turn::Beside, Turn::Elsewhere], here)
    };
    println!("\ntook {}", seconds(started.elapsed()));
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    println!("{}", summary(steps.len(), failed.len()));
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs those of `steps` whose turn it is, one after the other, and returns the names of those that failed.
fn run_those(
    steps: &[&'static Step],
    turns: &[Turn],
    run: impl Fn(&Step) -> Result<(), Problem>,
) -> Vec<&'static str> {
    let mut failed = Vec::new();
    for (number, step) in (1..).zip(steps) {
        if !turns.contains(&step.turn) {
            continue;
        }
        let heading = format!("[{number}/{}] {}", steps.len(), step.name);
        println!("\n{heading}: {}", step.title);
        let started = Instant::now();
        let result = run(step);
        let took = seconds(started.elapsed());
        match result {
            Ok(()) => println!("{heading}: ok ({took})"),
            Err(problem) => {
                println!("{heading}: FAILED ({took}): {problem}");
                failed.push(step.name);
            }
        }
    }
    failed
}

/// Runs a step in a process of its own that gives way to others and builds in `target`. What it prints is shown if it fails, and then
/// all at once.
fn run_apart(step: &Step, target: &Path) -> Result<(), Problem> {
    let mut command = Command::new("nice");
    let this_program = env::current_exe().map_err(|error| {
        Problem::CannotRun(format!("this program does not find itself: {error}"))
    })?;
    command
        .arg(this_program)
        .args(["test", "--only", step.name])
        .env("CARGO_TARGET_DIR", target);
    let (printed, status) = read_all(&mut command)?;
    if status.success() {
        return Ok(());
    }
    print!("{printed}");
    Err(Problem::Failed {
        command: display(&command),
        status,
    })
}

fn select(only: &[String]) -> Result<Vec<&'static Step>, Problem> {
    if let Some(unknown) = only
        .iter()
        .find(|name| STEPS.iter().all(|step| step.name != **name))
    {
        return Err(Problem::CannotRun(format!(
            "there is no step `{unknown}`; `cargo xtask test --list` names them"
        )));
    }
    let chosen = |step: &&Step| only.is_empty() || only.iter().any(|name| name == step.name);
    Ok(STEPS.iter().filter(chosen).collect())
}

fn summary(steps: usize, failed: usize) -> String {
    format!("{} passed, {failed} failed", steps - failed)
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Result<Vec<&'static str>, Problem> {
        let only: Vec<String> = only.iter().map(ToString::to_string).collect();
        Ok(select(&only)?.iter().map(|step| step.name).collect())
    }

    #[test]
    fn all_steps_run_unless_some_are_named() {
        assert_eq!(names(&[]).unwrap().len(), STEPS.len());
        assert_eq!(names(&["docs", "fmt"]).unwrap(), ["fmt", "docs"]);
        assert!(names(&["fmt", "nonsense"]).is_err());
    }

    #[test]
    fn only_those_whose_turn_it_is_run_and_failures_are_named() {
        let steps: Vec<_> = STEPS.iter().collect();
        let only_examples_pass = |step: &Step| match step.name {
            "examples" => Ok(()),
            name => Err(Problem::CannotRun(name.to_owned())),
        };
        let failed = |turn| run_those(&steps, &[turn], only_examples_pass);
        assert_eq!(failed(Turn::Tests), ["tests"]);
        assert_eq!(failed(Turn::Beside), ["interleavings", "clippy", "docs"]);
        assert_eq!(failed(Turn::Elsewhere), ["features", "msrv"]);
    }

    #[test]
    fn step_names_are_unique() {
        let names: std::collections::BTreeSet<_> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), STEPS.len());
    }

    #[test]
    fn the_summary_counts_steps() {
        assert_eq!(summary(11, 0), "11 passed, 0 failed");
        assert_eq!(summary(11, 2), "9 passed, 2 failed");
    }
}

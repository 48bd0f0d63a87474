//! `cargo xtask test`: the steps, one after the other, and their sum.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    checks::{self, Check},
    problem::Problem,
    workspace::Workspace,
};

/// One thing that must hold. A step that cannot run fails.
struct Step {
    name: &'static str,
    title: &'static str,
    check: Check,
}

/// The cheap ones first, and those that share build results beside each other.
#[rustfmt::skip]
const STEPS: &[Step] = &[
    Step { name: "fmt", title: "stock formatting", check: checks::formatting },
    Step { name: "source", title: "nothing unfinished, ignored or unsafe in the source", check: checks::source },
    Step { name: "arrows", title: "dependencies point inwards, the core stays pure", check: checks::arrows },
    Step { name: "package", title: "published crates hold all that they need", check: checks::package },
    Step { name: "clippy", title: "no lint, all targets and features", check: checks::clippy },
    Step { name: "features", title: "every combination of features of every crate", check: checks::features },
    Step { name: "msrv", title: "the oldest supported compiler", check: checks::msrv },
    Step { name: "docs", title: "documentation without a warning", check: checks::documentation },
    Step { name: "servers", title: "every version of Redis and Valkey to test on is there", check: checks::servers },
    Step { name: "tests", title: "all tests: unit, property, law, doc", check: checks::tests },
    Step { name: "examples", title: "every example runs", check: checks::examples },
    Step { name: "interleavings", title: "the memory store under a controlled scheduler", check: checks::interleavings },
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
    let mut failed = Vec::new();
    for (number, step) in (1..).zip(&steps) {
        let heading = format!("[{number}/{}] {}", steps.len(), step.name);
        println!("\n{heading}: {}", step.title);
        let step_started = Instant::now();
        let result = (step.check)(&workspace);
        let took = seconds(step_started.elapsed());
        match result {
            Ok(()) => println!("{heading}: ok ({took})"),
            Err(problem) => {
                println!("{heading}: FAILED ({took}): {problem}");
                failed.push(step.name);
            }
        }
    }
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

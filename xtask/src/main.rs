//! The workspace's own commands; `cargo xtask --help` lists them.

mod arguments;
mod benches;
mod checks;
mod deny;
mod problem;
mod process;
mod rust_source;
mod rust_version;
mod suite;
mod workspace;

use std::process::ExitCode;

use arguments::{HELP, Invocation};
use problem::Problem;

fn main() -> ExitCode {
    match Invocation::parse(std::env::args().skip(1)).and_then(execute) {
        Ok(code) => code,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn execute(invocation: Invocation) -> Result<ExitCode, Problem> {
    match invocation {
        Invocation::Help => println!("{HELP}"),
        Invocation::ListSteps => suite::list(),
        Invocation::Test { only } => return suite::run(&only),
        Invocation::Figures { options } => benches::figures(&options)?,
        Invocation::Bench { name } => benches::bench(name.as_deref())?,
        Invocation::Deny => deny::check()?,
    }
    Ok(ExitCode::SUCCESS)
}

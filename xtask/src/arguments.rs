//! What was asked for on the command line.

use crate::problem::Problem;

/// Printed by `cargo xtask --help`.
pub(crate) const HELP: &str = "\
The workspace's own commands.

  cargo xtask test                 everything that must hold before a change lands; what CI runs
  cargo xtask test --list          the names of its steps, in order
  cargo xtask test --only <step>   only this step; may be repeated
  cargo xtask figures [area]...    measures the goals: name, value, goal, `ok` or `short`, tab-separated;
                                   a goal that falls short is not a failure;
                                   memory, axum, redis, sessions, limitador, or all of them
  cargo xtask bench [name]         criterion benchmarks, all of them or one
  cargo xtask deny                 licences, bans, sources and advisories of all dependencies
                                   (installs cargo-deny if it is missing: some minutes)";

/// One command with its options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    Help,
    ListSteps,
    /// Every step if `only` is empty.
    Test {
        only: Vec<String>,
    },
    Figures {
        options: Vec<String>,
    },
    Bench {
        name: Option<String>,
    },
    Deny,
}

impl Invocation {
    /// Reads the arguments that follow `cargo xtask`.
    ///
    /// # Errors
    /// [`Problem::Usage`] for a command or an option that does not exist.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Problem> {
        let arguments: Vec<String> = arguments.collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
            return Ok(Self::Help);
        }
        match words.as_slice() {
            [] | ["help"] => Ok(Self::Help),
            ["test", "--list"] => Ok(Self::ListSteps),
            ["test", options @ ..] => Ok(Self::Test {
                only: parse_only(options)?,
            }),
            ["figures", options @ ..] => Ok(Self::Figures {
                options: options.iter().map(ToString::to_string).collect(),
            }),
            ["bench"] => Ok(Self::Bench { name: None }),
            ["bench", name] if !name.starts_with('-') => Ok(Self::Bench {
                name: Some((*name).to_owned()),
            }),
            ["deny"] => Ok(Self::Deny),
            unknown => Err(Problem::Usage(unknown.join(" "))),
        }
    }
}

fn parse_only(mut options: &[&str]) -> Result<Vec<String>, Problem> {
    let mut only = Vec::new();
    while !options.is_empty() {
        let ["--only", step, rest @ ..] = options else {
            return Err(Problem::Usage(format!("test {}", options.join(" "))));
        };
        only.push((*step).to_owned());
        options = rest;
    }
    Ok(only)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Invocation, Problem> {
        Invocation::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn no_argument_and_any_help_flag_teach() {
        for line in ["", "help", "--help", "test --help", "bench -h"] {
            assert_eq!(parse(line).unwrap(), Invocation::Help, "{line}");
        }
    }

    #[test]
    fn steps_can_be_picked_and_listed() {
        let only = |steps: &[&str]| Invocation::Test {
            only: steps.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(parse("test").unwrap(), only(&[]));
        assert_eq!(
            parse("test --only fmt --only docs").unwrap(),
            only(&["fmt", "docs"])
        );
        assert_eq!(parse("test --list").unwrap(), Invocation::ListSteps);
    }

    #[test]
    fn bench_takes_at_most_one_name() {
        let named = Invocation::Bench {
            name: Some("memory".to_owned()),
        };
        assert_eq!(parse("bench memory").unwrap(), named);
        assert!(parse("bench memory core").is_err());
    }

    #[test]
    fn unknown_words_are_refused() {
        for line in ["tset", "test fmt", "test --only", "deny now", "bench --all"] {
            assert!(matches!(parse(line), Err(Problem::Usage(_))), "{line}");
        }
    }
}

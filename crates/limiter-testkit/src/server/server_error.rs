use std::io;
use std::time::Duration;

/// Why a test server could not be found, started or asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The program is nowhere to be found. The message says how to get it.
    #[error(
        "{program} was not found: set {variable} to its path, put it on PATH, or install it with \
         `cargo run -p limiter-testkit --features servers --example install_servers`"
    )]
    NotFound {
        /// Name of the program.
        program: &'static str,
        /// The environment variable that may hold its path.
        variable: &'static str,
    },
    /// The installer failed.
    #[error("{program} could not be installed: {reason}")]
    Install {
        /// Name of the program.
        program: &'static str,
        /// What failed, and what to do by hand instead.
        reason: String,
    },
    /// The server ended before it answered.
    #[error("{program} did not start; its log ends with:\n{log}")]
    Start {
        /// Path of the program.
        program: String,
        /// The last lines that it wrote.
        log: String,
    },
    /// The operating system refused something, or the connection to the server broke.
    #[error("failed to {doing}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The server answered with an error.
    #[error("server refused {command}: {message}")]
    Refused {
        /// The first two words of the command.
        command: String,
        /// The server's words; the first one is the error code.
        message: String,
    },
    /// The server answered something that this client does not expect.
    #[error("reply to {command} is not understood: {reply}")]
    Protocol {
        /// The first two words of the command.
        command: String,
        /// What came.
        reply: String,
    },
    /// A state that was waited for did not come.
    #[error("waited {limit:?} in vain for {what}; last seen: {seen}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// The last thing seen instead.
        seen: String,
    },
}

impl ServerError {
    /// Wraps an [`io::Error`] with what was being done; for `map_err`.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

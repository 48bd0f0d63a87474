//! [`Fault`]: what an error reply of a server means.

use limiter_core::{Cause, Charge, StoreError};

/// What a server's error reply means for a call. Told by the reply's code, never by its wording.
///
/// The scripts read first, a server that refuses the write refuses it whole, and a script that may write but not expire takes
/// back what it wrote. What fails after that bears the code `LIMITERPART`, before the code of what went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server does not have the script. It did not run: load it and call again at once.
    NoScript,
    /// The key is served elsewhere, for good. It did not run: call again there.
    Moved,
    /// The key is being moved and may be elsewhere. It did not run: ask there, this once.
    Ask,
    /// The server cannot take the call at this moment. It did not run: call again a little later, if there is time.
    NotNow,
    /// The server was demoted. It did not run: find the new primary and call again.
    Demoted,
    /// The server lacks room. It did not run.
    Overloaded,
    /// The keys of the call are in several slots of a cluster. It did not run.
    SeveralSlots,
    /// The server is set up wrongly, or holds what it should not. It did not run.
    Misconfigured(&'static str),
    /// The server is set up wrongly, and refused a part of what the script does. The call took effect, if not all of it.
    Partly(&'static str),
    /// The server gave an error of no known kind.
    Unknown,
}

impl Fault {
    /// Tells what an error reply means.
    ///
    /// `code` is its first word, `detail` the rest. Redis 6.2 wraps an error inside a script in one of its own
    /// (`ERR Error running script (call to f_...): @user_script:7: -OOM ...`): then the inner code counts.
    ///
    /// # Examples
    /// ```
    /// use limiter_lua::Fault;
    ///
    /// assert_eq!(Fault::of("NOSCRIPT", "No matching script."), Fault::NoScript);
    /// assert_eq!(Fault::of("ERR", "Error running script (call to f_1): @user_script:7: -OOM command"), Fault::Overloaded);
    /// ```
    #[must_use]
    pub fn of(code: &str, detail: &str) -> Self {
        let code = match code {
            "ERR" => inner_code(detail).unwrap_or(code),
            PLACE => after_the_place(detail).map_or(code, first_word),
            _ => code,
        };
        match code {
            "LIMITERPART" => Self::after_a_part(detail),
            _ if is_refused_inside_a_script(detail) => Self::Misconfigured(GRANT),
            "NOSCRIPT" => Self::NoScript,
            "MOVED" => Self::Moved,
            "ASK" => Self::Ask,
            "TRYAGAIN" | "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" => Self::NotNow,
            "READONLY" => Self::Demoted,
            "OOM" | "NOREPLICAS" | "MISCONF" => Self::Overloaded,
            "ERR" if detail.contains("max number of clients") => Self::Overloaded,
            "NOPERM" => Self::Misconfigured(GRANT),
            "NOAUTH" | "WRONGPASS" => {
                Self::Misconfigured("give the user and password that the server knows")
            }
            "WRONGTYPE" => Self::Misconfigured("take a prefix that nothing else uses"),
            "CROSSSLOT" => Self::SeveralSlots,
            "LIMITERSTATE" => Self::Misconfigured(
                "let nothing but the limiter write under its prefix, then reset the key",
            ),
            "ERR" if detail.contains("cluster support disabled") => {
                Self::Misconfigured("name a server that is in no cluster by `redis://`")
            }
            "ERR" if is_missing_feature(detail) => Self::Misconfigured(
                "use Redis 6.2 or later, or Valkey, with scripting, and a database that exists",
            ),
            _ => Self::Unknown,
        }
    }

    /// Tells what an error means that came after a part was written.
    fn after_a_part(detail: &str) -> Self {
        let inner = inside_a_script(detail).unwrap_or(detail);
        let (code, rest) = inner.split_once(' ').unwrap_or((inner, ""));
        match Self::of(code, rest) {
            Self::Misconfigured(advice) => Self::Partly(advice),
            _ if is_refused_inside_a_script(inner) => Self::Partly(GRANT),
            _ => Self::Unknown,
        }
    }

    /// Returns whether a call that got this reply did not run and may be tried again inside its deadline.
    #[must_use]
    pub const fn is_retried(self) -> bool {
        matches!(
            self,
            Self::NoScript | Self::Moved | Self::Ask | Self::NotNow | Self::Demoted
        )
    }

    /// Makes the error of a call that ends with this reply; `cause` is what the client said.
    #[must_use]
    pub fn into_error(self, cause: impl Into<Cause>) -> StoreError {
        let cause = without_arguments(cause.into());
        match self {
            Self::NoScript | Self::Moved | Self::Ask | Self::NotNow | Self::Demoted => {
                StoreError::unavailable(Charge::Impossible, cause)
            }
            Self::Overloaded => StoreError::overloaded(Charge::Impossible, cause),
            Self::SeveralSlots => StoreError::misconfigured(
                "connect to a Redis Cluster as such, not through a proxy that regroups keys",
                cause,
            ),
            Self::Misconfigured(advice) => StoreError::misconfigured(advice, cause),
            Self::Partly(advice) => {
                StoreError::misconfigured(advice, cause).with_charge(Charge::Possible)
            }
            Self::Unknown => StoreError::unavailable(Charge::Possible, cause),
        }
    }
}

/// Takes out of what a server said the arguments of the command that it does not know: one of them
/// is the name of a key.
fn without_arguments(cause: Cause) -> Cause {
    let said = cause.to_string();
    match said.split_once(", with args beginning with") {
        Some((said, _)) => said.into(),
        None => cause,
    }
}

pub(crate) const GRANT: &str = "grant the user what the README's ACL line lists";

/// What Redis 6.2 begins the place with at which it says that an error inside a script is.
const PLACE: &str = "@user_script:";

/// Returns the code of an error inside a script, which Redis 6.2 wraps; a dash stands before it or not.
fn inner_code(detail: &str) -> Option<&str> {
    let wrapped = detail.strip_prefix("Error running script")?;
    inside_a_script(wrapped).map(first_word)
}

/// Returns an error inside a script without the place at which Redis 6.2 says it is.
fn inside_a_script(detail: &str) -> Option<&str> {
    let (_, place) = detail.rsplit_once(PLACE)?;
    after_the_place(place)
}

fn after_the_place(place: &str) -> Option<&str> {
    let (_, inner) = place.split_once(": ")?;
    Some(inner.trim_start_matches('-'))
}

fn first_word(words: &str) -> &str {
    words.split_ascii_whitespace().next().unwrap_or_default()
}

/// What a user may not do inside a script has no code of its own, only words: those of Redis 6.2 to 7.0, and of later ones
/// and Valkey.
fn is_refused_inside_a_script(detail: &str) -> bool {
    detail.contains("user executing the script can't") || detail.contains("ACL failure in script")
}

fn is_missing_feature(detail: &str) -> bool {
    [
        "unknown command",
        "DB index is out of range",
        "invalid DB index",
    ]
    .iter()
    .any(|start| detail.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_meaning() {
        for (code, fault) in [
            ("NOSCRIPT", Fault::NoScript),
            ("MOVED", Fault::Moved),
            ("ASK", Fault::Ask),
            ("TRYAGAIN", Fault::NotNow),
            ("LOADING", Fault::NotNow),
            ("BUSY", Fault::NotNow),
            ("READONLY", Fault::Demoted),
            ("OOM", Fault::Overloaded),
            ("NOREPLICAS", Fault::Overloaded),
            ("SOMETHING", Fault::Unknown),
            ("ERR", Fault::Unknown),
        ] {
            assert_eq!(Fault::of(code, "words"), fault, "{code}");
        }
        for code in [
            "NOPERM",
            "NOAUTH",
            "WRONGPASS",
            "WRONGTYPE",
            "CROSSSLOT",
            "LIMITERSTATE",
        ] {
            let error = Fault::of(code, "words").into_error("words");
            assert!(!error.is_outage() && !error.may_have_charged(), "{code}");
        }
    }

    #[test]
    fn errors_wrapped_by_redis_6_are_unwrapped() {
        let readonly = "Error running script (call to f_1): @user_script:2: @user_script: 2: -READONLY You can't";
        assert_eq!(Fault::of("ERR", readonly), Fault::Demoted);
        let wrong_type = "Error running script (call to f_1): @user_script:16: WRONGTYPE Operation";
        let refused = "43: The user executing the script can't run this command or subcommand";
        for (code, detail) in [("ERR", wrong_type), ("@user_script:", refused)] {
            let fault = Fault::of(code, detail);
            assert!(
                matches!(fault, Fault::Misconfigured(_)),
                "{detail}: {fault:?}"
            );
        }
        assert_eq!(
            Fault::of("@user_script:", "49: -OOM command not allowed"),
            Fault::Overloaded
        );
        let at_fault =
            "Error running script (in a batch): @user_script: 0: user_script:24: attempt";
        assert_eq!(Fault::of("ERR", at_fault), Fault::Unknown);
        assert_eq!(
            Fault::of("ERR", "max number of clients reached"),
            Fault::Overloaded
        );
    }

    #[test]
    fn what_failed_after_a_part_may_have_charged() {
        for detail in [
            "WRONGTYPE Operation against a key",
            "NOPERM ACL failure in script: user 'x' has no permissions to run the 'zadd' command",
            "@user_script:16: WRONGTYPE Operation against a key",
            "@user_script: 7: -NOPERM ACL failure in script: no permissions",
            "ERR The user executing the script can't run this command or subcommand",
        ] {
            let error = Fault::of("LIMITERPART", detail).into_error("words");
            assert!(!error.is_outage() && error.may_have_charged(), "{detail}");
        }
        assert_eq!(Fault::of("LIMITERPART", ""), Fault::Unknown);
        assert_eq!(Fault::of("LIMITERPART", "NOSCRIPT none"), Fault::Unknown);
    }

    #[test]
    fn what_a_server_repeats_of_a_call_is_left_out() {
        let said =
            "ERR unknown command 'EVALSHA', with args beginning with: 'f00' '1' 'rl:1:{ann}'";
        for fault in [Fault::of("ERR", &said[4..]), Fault::Unknown] {
            let error = fault.into_error(said);
            let told = format!("{error:?}");
            assert!(told.contains("EVALSHA") && !told.contains("ann"), "{told}");
        }
    }

    #[test]
    fn only_definite_non_execution_is_tried_again() {
        for fault in [
            Fault::Overloaded,
            Fault::Misconfigured(""),
            Fault::Partly(""),
            Fault::Unknown,
        ] {
            assert!(!fault.is_retried());
        }
        assert!(Fault::Unknown.into_error("words").may_have_charged());
        assert!(!Fault::NotNow.into_error("words").may_have_charged());
    }
}

//! [`BadReply`]: why a reply makes no verdict.

use limiter_core::{Charge, StoreError};

/// Says why the reply to a [`Call`](crate::Call) makes no verdict.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReply {
    /// The reply is not of the form that the scripts write.
    #[error("reply of {len} bytes is not of the form that the script writes")]
    Malformed {
        /// How long the reply was.
        len: usize,
    },
    /// The state of a plan is marked with a version that is not the layout's. No release writes such a one under this name.
    #[error("unknown version {version} of the state of plan {plan}")]
    UnknownVersion {
        /// The version that it is marked with.
        version: u8,
        /// The plan.
        plan: String,
    },
    /// The state of a plan is damaged.
    #[error("corrupt state of plan {plan}")]
    Corrupt {
        /// The plan.
        plan: String,
    },
    /// The script and the library came to different decisions: one of the two has a bug.
    #[error("script and library disagree on whether the request is admitted")]
    Disagrees,
}

impl BadReply {
    /// Returns whether the reply may be one to another call: the replies on its connection are out of step then.
    #[must_use]
    pub const fn is_out_of_step(&self) -> bool {
        matches!(self, Self::Malformed { .. } | Self::Disagrees)
    }
}

impl From<BadReply> for StoreError {
    fn from(bad: BadReply) -> Self {
        match bad {
            BadReply::Malformed { .. } | BadReply::Disagrees => {
                Self::unavailable(Charge::Possible, bad)
            }
            // Each release has keys of its own: what is of another version under this one's is none that a release has written.
            BadReply::UnknownVersion { .. } | BadReply::Corrupt { .. } => Self::misconfigured(
                "let nothing but the limiter write under its prefix, then reset the key",
                bad,
            ),
        }
    }
}

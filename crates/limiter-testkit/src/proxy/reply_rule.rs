use std::time::Duration;

/// How a connection ends, or fails to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// In order: the client reads the end of the stream.
    Close,
    /// Abruptly: the client gets a reset (RST).
    Reset,
    /// Not at all: the connection stays up, and no further reply comes through it. Requests still reach the server.
    Hang,
}

/// What happens to a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyFault {
    /// The server has done the work, the reply never arrives, and the connection ends so.
    Lost(Ending),
    /// So many bytes of the reply arrive, then the connection is reset. A shorter reply arrives whole before that.
    CutAfter {
        /// Length of the part that arrives.
        bytes: usize,
    },
    /// These bytes arrive in its place. Replies after it are left as they are.
    Garbage(Vec<u8>),
    /// It arrives so much later, and so does what comes after it on the same connection.
    Late(Duration),
}

/// Which replies a [`ReplyFault`] hits: the next so many, of any command or of one. Pushes of RESP3 are no replies.
///
/// Replies are matched with requests by their order, so a connection that subscribes to channels cannot be matched.
#[derive(Clone, Debug)]
#[must_use = "a rule does nothing until it is added to a proxy"]
pub struct ReplyRule {
    left: u32,
    command: Option<String>,
    fault: ReplyFault,
}

impl ReplyRule {
    /// Hits the next `count` replies on whichever connections they come.
    pub fn next(count: u32, fault: ReplyFault) -> Self {
        Self {
            left: count,
            command: None,
            fault,
        }
    }

    /// Hits only replies to this command, by its first word in any case.
    pub fn to_command(mut self, command: &str) -> Self {
        self.command = Some(command.to_ascii_uppercase());
        self
    }

    /// The fault for a reply to `command`, if the rule hits it. Uses up one of its hits.
    pub(super) fn hit(&mut self, command: Option<&str>) -> Option<ReplyFault> {
        let meant = self.command.is_none() || self.command.as_deref() == command;
        if !meant || self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(self.fault.clone())
    }

    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }
}

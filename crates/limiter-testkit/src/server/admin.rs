use std::io::{self, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Reply, ServerError};

/// Name and password of a user that every test server has, so that tests may do to the default user what they like.
pub(super) const ADMIN_USER: &str = "testkit-admin";
pub(super) const ADMIN_PASSWORD: &str = "testkit-admin";

const CONNECT_LIMIT: Duration = Duration::from_secs(1);
const REPLY_LIMIT: Duration = Duration::from_secs(5);

/// A blocking connection for administration. Kept open, so that a server out of clients still obeys.
#[derive(Debug)]
pub(super) struct Admin {
    stream: BufReader<TcpStream>,
}

impl Admin {
    /// Connects; logs in as the administrator unless the server has no such user (a sentinel).
    pub(super) fn connect(addr: SocketAddr, log_in: bool) -> Result<Self, ServerError> {
        let io = || ServerError::io(format!("connect to {addr}"));
        let stream = TcpStream::connect_timeout(&addr, CONNECT_LIMIT).map_err(io())?;
        stream.set_nodelay(true).map_err(io())?;
        stream.set_read_timeout(Some(REPLY_LIMIT)).map_err(io())?;
        stream.set_write_timeout(Some(REPLY_LIMIT)).map_err(io())?;
        let mut admin = Self {
            stream: BufReader::new(stream),
        };
        if log_in {
            admin.call(&["AUTH", ADMIN_USER, ADMIN_PASSWORD])?;
        }
        Ok(admin)
    }

    /// Whether the server has neither closed the connection nor left something unread in it.
    pub(super) fn is_open(&self) -> bool {
        let stream = self.stream.get_ref();
        let silent = |stream: &TcpStream| -> io::Result<bool> {
            stream.set_nonblocking(true)?;
            let peeked = stream.peek(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok(peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock))
        };
        silent(stream).unwrap_or(false)
    }

    /// Sends a command and waits for its reply. An error reply is an `Err`.
    pub(super) fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Result<Reply, ServerError> {
        let command = name_of(args);
        let io = || ServerError::io(format!("ask the server for {command}"));
        self.stream
            .get_mut()
            .write_all(&encode(args))
            .map_err(io())?;
        match Reply::read(&mut self.stream).map_err(io())? {
            Reply::Error(message) => Err(ServerError::Refused { command, message }),
            reply => Ok(reply),
        }
    }
}

fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut wire = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args.iter().map(AsRef::as_ref) {
        wire.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        wire.extend_from_slice(arg);
        wire.extend_from_slice(b"\r\n");
    }
    wire
}

/// The first two words: enough to know the command, too few to show a password.
fn name_of<A: AsRef<[u8]>>(args: &[A]) -> String {
    let words = args
        .iter()
        .take(2)
        .map(|arg| String::from_utf8_lossy(arg.as_ref()).into_owned());
    words.collect::<Vec<_>>().join(" ")
}

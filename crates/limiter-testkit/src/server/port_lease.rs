use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tokio::net::TcpSocket;

use super::ServerError;

/// Cluster nodes talk to each other on their port plus this.
const BUS_OFFSET: u16 = 10_000;
/// Both a port and its bus port lie below 32768, where the kernel's own choices begin: while a server is down, no
/// outgoing connection takes its port.
const FIRST: u16 = 11_000;
const LAST: u16 = 20_999;

/// A loopback port that nothing listens on, kept from every other lease on this machine until it is dropped.
///
/// The port plus 10000 belongs to it too, for a cluster bus. The lease is a lock on a file in the temporary directory,
/// so it ends with the process however that dies.
#[derive(Debug)]
pub struct PortLease {
    port: u16,
    path: PathBuf,
    _lock: File,
}

impl PortLease {
    /// Leases a free port.
    ///
    /// # Errors
    /// [`ServerError::Io`] if no lock file can be made or no port is free.
    pub fn acquire() -> Result<Self, ServerError> {
        let uid = rustix::process::getuid().as_raw();
        let dir = std::env::temp_dir().join(format!("limiter-testkit-ports-{uid}"));
        fs::create_dir_all(&dir).map_err(ServerError::io("make the directory of port leases"))?;
        for _ in 0..1000 {
            let lease = Self::try_port(&dir, fastrand::u16(FIRST..=LAST));
            if let Some(lease) = lease.map_err(ServerError::io("lock a port lease"))? {
                return Ok(lease);
            }
        }
        let none = io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("every port tried in {FIRST}..={LAST} is taken"),
        );
        Err(ServerError::io("find a free port")(none))
    }

    /// The leased port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The leased port on 127.0.0.1.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        loopback(self.port)
    }

    fn try_port(dir: &Path, port: u16) -> io::Result<Option<Self>> {
        let path = dir.join(port.to_string());
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        // An ending lease removes its file: a lock on a file that is no longer at `path` keeps nobody out.
        if fs::metadata(&path).map(|meta| meta.ino()).ok() != Some(lock.metadata()?.ino()) {
            return Ok(None);
        }
        let lease = Self {
            port,
            path,
            _lock: lock,
        };
        let free = [port, port + BUS_OFFSET]
            .into_iter()
            .all(|port| probe(port).is_ok());
        Ok(free.then_some(lease))
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes a port, unless something listens on it, and does not listen itself: a server that another thread starts at this moment
/// inherits the socket until it runs its own program, and a port that is listened on cannot be listened on again.
fn probe(port: u16) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(loopback(port))?;
    Ok(socket)
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn leased_port_is_not_leased_again_until_dropped() {
        let lease = PortLease::acquire().unwrap();
        let dir = lease.path.parent().unwrap().to_path_buf();
        let port = lease.port();
        assert!(PortLease::try_port(&dir, port).unwrap().is_none());
        drop(lease);
        assert!(PortLease::try_port(&dir, port).unwrap().is_some());
    }

    #[test]
    fn port_that_someone_listens_on_is_not_leased() {
        let lease = PortLease::acquire().unwrap();
        let _listener = TcpListener::bind(lease.addr()).unwrap();
        let (dir, port) = (lease.path.parent().unwrap().to_path_buf(), lease.port());
        drop(lease);
        assert!(PortLease::try_port(&dir, port).unwrap().is_none());
    }

    #[test]
    fn port_can_be_listened_on_while_a_child_still_has_what_it_was_tried_with() {
        let lease = PortLease::acquire().unwrap();
        let _inherited = probe(lease.port()).unwrap();
        TcpListener::bind(lease.addr()).unwrap();
    }
}

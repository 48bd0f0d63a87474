//! [`BlackHole`]: an address at which nobody answers, not even to say no.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// An address at which the kernel drops every attempt to connect, as a host that has lost its power or a firewall does.
///
/// It is a listener that accepts nothing and whose queue is full.
pub struct BlackHole {
    addr: SocketAddr,
    listener: TcpListener,
    queue: Vec<TcpStream>,
}

impl BlackHole {
    pub async fn open() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind("127.0.0.1:0".parse().expect("an address"))
            .expect("a port");
        let listener = socket.listen(1).expect("listens");
        let addr = listener.local_addr().expect("an address");
        let mut queue = Vec::new();
        while let Ok(connected) =
            timeout(Duration::from_millis(200), TcpStream::connect(addr)).await
        {
            queue.push(connected.expect("the queue takes it"));
        }
        Self {
            addr,
            listener,
            queue,
        }
    }

    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Comes back: from now on, who connects is connected to `server`. Attempts of before are lost, until their kernel repeats them.
    pub fn come_back(self, server: SocketAddr) {
        drop(self.queue);
        tokio::spawn(async move {
            while let Ok((mut client, _)) = self.listener.accept().await {
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(server).await.expect("a server");
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
    }
}

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::ReadHalf;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::fault_proxy::Shared;
use super::proxy_counts::Tally;
use super::pump::{CHUNKS_MAX, Outlet, receive};
use super::reply_filter::{ReplyFilter, Step};
use super::reply_rule::Ending;
use super::resp_framer::RespFramer;

/// How long a server may take to read what a client sent before it hung up.
const DRAIN_LIMIT: Duration = Duration::from_secs(1);

/// Requests under way, oldest first, by command: the next reply belongs to the first.
type Pending = Mutex<VecDeque<String>>;

/// Runs one connection until either side ends it, a fault does, or `cut` does.
pub(super) async fn serve(
    mut client: TcpStream,
    number: u64,
    shared: Arc<Shared>,
    mut cut: watch::Receiver<Option<Ending>>,
) {
    let connected = tokio::select! {
        connected = TcpStream::connect(shared.upstream) => connected.ok(),
        _ = cut_off(&mut cut) => None,
    };
    let Some(mut server) = connected else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let open = OpenConnection::new(&shared.tally);
    let requests = Pending::default();
    let seed = shared.seed ^ number.rotate_left(32);
    let (mut from_client, to_client) = client.split();
    let (mut from_server, to_server) = server.split();
    let mut inbound = Outlet::new(to_server, shared.request_toxics.subscribe(), seed);
    let mut outbound = Outlet::new(to_client, shared.reply_toxics.subscribe(), !seed);
    let ending = tokio::select! {
        () = carry_requests(&mut from_client, &mut inbound, &shared, &requests) => None,
        ending = carry_replies(&mut from_server, &mut outbound, &shared, &requests) => Some(ending),
        ending = cut_off(&mut cut) => Some(ending),
    };
    match ending {
        Some(Ending::Reset) => drop(client.set_zero_linger()),
        Some(Ending::Close | Ending::Hang) => drop(client.shutdown().await),
        None => {}
    }
    drop((open, client, cut));
    if ending.is_none() {
        // The client hung up. Closed with replies unread, the server's side would be reset and requests be lost.
        let _ = timeout(DRAIN_LIMIT, drain(&mut server)).await;
    }
}

/// Returns when the client has hung up and all that it sent is delivered.
async fn carry_requests(
    from: &mut ReadHalf<'_>,
    to: &mut Outlet<'_>,
    shared: &Shared,
    requests: &Pending,
) {
    let (sender, mut chunks) = mpsc::channel(CHUNKS_MAX);
    let mut framer = RespFramer::default();
    let reading = receive(from, sender, |mut bytes| {
        let mut tally = lock(&shared.tally);
        tally.counts.request_bytes += u64::try_from(bytes.len()).unwrap_or(0);
        while !bytes.is_empty() {
            let segment = framer.take(bytes);
            bytes = bytes.get(segment.length..).unwrap_or_default();
            if segment.ends {
                tally.request(framer.name());
                lock(requests).push_back(framer.name().to_owned());
            }
        }
    });
    let writing = async {
        while let Some(chunk) = chunks.recv().await {
            to.travel(chunk.came_at).await;
            // A server that has gone shows on the way back, after the replies that it still sent.
            if to.write(&chunk.bytes).await.is_err() {
                pending::<()>().await;
            }
        }
    };
    let _ = tokio::join!(reading, writing);
}

/// Returns when the connection is to end, and how.
async fn carry_replies(
    from: &mut ReadHalf<'_>,
    to: &mut Outlet<'_>,
    shared: &Shared,
    requests: &Pending,
) -> Ending {
    let (sender, mut chunks) = mpsc::channel(CHUNKS_MAX);
    let reading = async {
        let count = |bytes: &[u8]| {
            lock(&shared.tally).counts.reply_bytes += u64::try_from(bytes.len()).unwrap_or(0);
        };
        // The writing side tells what the end of the stream means: it may have replies to deliver yet.
        let _ = receive(from, sender, count).await;
        pending::<Ending>().await
    };
    let writing = async {
        let mut filter = ReplyFilter::default();
        while let Some(chunk) = chunks.recv().await {
            to.travel(chunk.came_at).await;
            let fault_for = || shared.fault_for(lock(requests).pop_front().as_deref());
            let steps = filter.pass(&chunk.bytes, fault_for, || {
                lock(&shared.tally).counts.replies += 1
            });
            match perform(steps, to).await {
                Ok(None) => {}
                Ok(Some(Ending::Hang)) => return pending().await,
                Ok(Some(ending)) => return ending,
                Err(_) => return Ending::Close,
            }
        }
        Ending::Close
    };
    tokio::select! {
        ending = reading => ending,
        ending = writing => ending,
    }
}

async fn perform(steps: Vec<Step>, to: &mut Outlet<'_>) -> io::Result<Option<Ending>> {
    for step in steps {
        match step {
            Step::Write(bytes) => to.write(&bytes).await?,
            Step::Wait(time) => sleep(time).await,
            Step::End(ending) => return Ok(Some(ending)),
        }
    }
    Ok(None)
}

async fn cut_off(cut: &mut watch::Receiver<Option<Ending>>) -> Ending {
    match cut.wait_for(Option::is_some).await {
        Ok(ending) => ending.unwrap_or(Ending::Close),
        Err(_) => Ending::Close,
    }
}

async fn drain(server: &mut TcpStream) -> io::Result<()> {
    server.shutdown().await?;
    let mut rest = [0; 1024];
    while server.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Counts a connection as open for as long as it lives.
struct OpenConnection<'a>(&'a Mutex<Tally>);

impl<'a> OpenConnection<'a> {
    fn new(tally: &'a Mutex<Tally>) -> Self {
        lock(tally).counts.open += 1;
        Self(tally)
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        lock(self.0).counts.open -= 1;
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Each fault of the proxy does what it says, between a plain client and a real server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail as tests do"
)]

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use limiter_testkit::proxy::{Direction, Ending, FaultProxy, ReplyFault, ReplyRule, Toxic};
use limiter_testkit::server::{Flavour, RedisCluster, RedisServer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"+PONG\r\n";
const INCR: &[u8] = b"*2\r\n$4\r\nincr\r\n$1\r\nn\r\n";
/// Longer than any reply takes that nothing holds up.
const SILENCE: Duration = Duration::from_millis(150);
/// For what must happen.
const LIMIT: Duration = Duration::from_secs(10);

async fn set_up() -> (RedisServer, FaultProxy) {
    let server = RedisServer::start(Flavour::Redis).unwrap();
    let proxy = FaultProxy::start(server.addr()).await.unwrap();
    (server, proxy)
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(ask(&mut client, PING, PONG.len()).await.unwrap(), PONG);
    client
}

/// Sends `request` and reads `length` bytes.
async fn ask(client: &mut TcpStream, request: &[u8], length: usize) -> io::Result<Vec<u8>> {
    client.write_all(request).await?;
    let mut reply = vec![0; length];
    timeout(LIMIT, client.read_exact(&mut reply))
        .await
        .expect("a reply or an end")?;
    Ok(reply)
}

/// What comes until the connection ends, and whether it ended in order.
async fn read_to_end(client: &mut TcpStream) -> (Vec<u8>, io::Result<()>) {
    let mut bytes = Vec::new();
    let ended = timeout(LIMIT, client.read_to_end(&mut bytes))
        .await
        .expect("an end");
    (bytes, ended.map(drop))
}

async fn is_silent(client: &mut TcpStream) -> bool {
    timeout(SILENCE, client.read_u8()).await.is_err()
}

fn is_reset(ended: &io::Result<()>) -> bool {
    ended
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

async fn is_refused(addr: SocketAddr) -> bool {
    TcpStream::connect(addr)
        .await
        .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Value of the counter that `INCR` counts up.
fn counter(server: &RedisServer) -> i64 {
    server.command(&["GET", "n"]).unwrap().int().unwrap_or(0)
}

async fn eventually(mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_faults_everything_passes_and_is_counted() {
    let (server, proxy) = set_up().await;
    assert_eq!(
        server.url_at(proxy.addr()),
        format!("redis://{}", proxy.addr())
    );
    let mut client = connect(&proxy).await;
    assert_eq!(
        ask(&mut client, &INCR.repeat(3), 12).await.unwrap(),
        b":1\r\n:2\r\n:3\r\n"
    );
    let big = "x".repeat(300_000);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n${}\r\n{big}\r\n", big.len());
    assert_eq!(
        ask(&mut client, set.as_bytes(), 5).await.unwrap(),
        b"+OK\r\n"
    );
    let get = ask(
        &mut client,
        b"*2\r\n$3\r\nGET\r\n$1\r\nb\r\n",
        big.len() + 11,
    )
    .await
    .unwrap();
    assert!(get.ends_with(format!("{big}\r\n").as_bytes()));

    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.open), (1, 1));
    assert_eq!((counts.requests, counts.replies), (6, 6));
    assert_eq!(
        counts.request_bytes,
        (PING.len() + 3 * INCR.len() + set.len() + 20) as u64
    );
    assert_eq!(counts.reply_bytes, (PONG.len() + 12 + 5 + get.len()) as u64);
    assert_eq!(
        (proxy.requests_of("INCR"), proxy.requests_of("eval")),
        (3, 0)
    );
    drop(client);
    eventually(|| proxy.counts().open == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_of_a_client_that_hangs_up_still_reaches_the_server() {
    let (server, proxy) = set_up().await;
    let mut client = connect(&proxy).await;
    client.write_all(&INCR.repeat(100)).await.unwrap();
    drop(client);
    eventually(|| counter(&server) == 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn latency_delays_each_way_and_does_not_add_up_in_a_pipeline() {
    let (_server, proxy) = set_up().await;
    let mut client = connect(&proxy).await;
    let (delay, jitter) = (Duration::from_millis(60), Duration::from_millis(20));
    proxy.add(Direction::Both, Toxic::Latency { delay, jitter });
    let started = Instant::now();
    for _ in 0..20 {
        client.write_all(PING).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    ask(&mut client, b"", 20 * PONG.len()).await.unwrap();
    let took = started.elapsed();
    assert!(took >= 2 * delay, "{took:?}");
    assert!(took < 20 * delay, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bandwidth_bounds_the_bytes_of_a_second() {
    let (_server, proxy) = set_up().await;
    let mut client = connect(&proxy).await;
    let bytes_per_second = NonZeroU32::new(1000).unwrap();
    proxy.add(Direction::Replies, Toxic::Bandwidth { bytes_per_second });
    let started = Instant::now();
    ask(&mut client, &PING.repeat(30), 210).await.unwrap();
    assert!(
        started.elapsed() >= Duration::from_millis(205),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_arrive_one_by_one_and_whole() {
    let (_server, proxy) = set_up().await;
    let mut client = connect(&proxy).await;
    let gap = Duration::from_millis(50);
    proxy.add(
        Direction::Replies,
        Toxic::Slices {
            size: 1.try_into().unwrap(),
            gap,
        },
    );
    client.write_all(PING).await.unwrap();
    let (mut reply, mut pieces) = (Vec::new(), 0);
    while reply.len() < PONG.len() {
        client.read_buf(&mut reply).await.unwrap();
        pieces += 1;
    }
    assert_eq!(reply, PONG);
    assert!(pieces > 1, "a busy machine may join some pieces, not all");
    proxy.heal();
    proxy.add(Direction::Both, Toxic::ONE_BYTE_SLICES);
    assert_eq!(
        ask(&mut client, &PING.repeat(9), 63).await.unwrap(),
        PONG.repeat(9)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_bytes_arrive_after_healing_whichever_way_was_stalled() {
    let (server, proxy) = set_up().await;
    let mut client = connect(&proxy).await;
    for (direction, reached) in [(Direction::Requests, 0), (Direction::Replies, 2)] {
        proxy.add(direction, Toxic::Stall);
        let mut newcomer = TcpStream::connect(proxy.addr()).await.unwrap();
        newcomer.write_all(PING).await.unwrap();
        client.write_all(INCR).await.unwrap();
        assert!(is_silent(&mut client).await && is_silent(&mut newcomer).await);
        assert_eq!(counter(&server), reached, "{direction:?}");
        proxy.heal();
        assert_eq!(ask(&mut newcomer, b"", PONG.len()).await.unwrap(), PONG);
        ask(&mut client, b"", 4).await.unwrap();
    }
    assert_eq!(counter(&server), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_that_lost_bytes_to_a_black_hole_stays_silent() {
    let (server, proxy) = set_up().await;
    let (mut lost, mut idle) = (connect(&proxy).await, connect(&proxy).await);
    proxy.add(Direction::Replies, Toxic::Blackhole);
    lost.write_all(INCR).await.unwrap();
    assert!(is_silent(&mut lost).await);
    assert_eq!(counter(&server), 1);
    proxy.heal();
    lost.write_all(PING).await.unwrap();
    assert!(is_silent(&mut lost).await);
    assert_eq!(ask(&mut idle, PING, PONG.len()).await.unwrap(), PONG);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_reply_belongs_to_a_request_that_ran_once() {
    let (server, proxy) = set_up().await;
    for (runs, ending) in [(1, Ending::Close), (2, Ending::Reset), (3, Ending::Hang)] {
        proxy.add_rule(ReplyRule::next(1, ReplyFault::Lost(ending)).to_command("INCR"));
        let mut client = connect(&proxy).await;
        client.write_all(INCR).await.unwrap();
        if ending == Ending::Hang {
            assert!(is_silent(&mut client).await);
            client.write_all(PING).await.unwrap();
            assert!(is_silent(&mut client).await);
        } else {
            let (bytes, ended) = read_to_end(&mut client).await;
            assert!(bytes.is_empty());
            assert_eq!(is_reset(&ended), ending == Ending::Reset, "{ended:?}");
        }
        assert_eq!(counter(&server), runs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_hits_as_many_replies_as_it_says_and_only_of_its_command() {
    let (_server, proxy) = set_up().await;
    let mut client = connect(&proxy).await;
    proxy.add_rule(ReplyRule::next(2, ReplyFault::Garbage(b"?".to_vec())).to_command("incr"));
    let requests = [INCR, PING, INCR, INCR, PING].concat();
    let replies = b"?+PONG\r\n?:3\r\n+PONG\r\n";
    assert_eq!(
        ask(&mut client, &requests, replies.len()).await.unwrap(),
        replies
    );
    proxy.add_rule(ReplyRule::next(1, ReplyFault::Garbage(b"\0\xff".to_vec())));
    assert_eq!(ask(&mut client, PING, 2).await.unwrap(), b"\0\xff");
    assert_eq!(ask(&mut client, PING, PONG.len()).await.unwrap(), PONG);
}

#[tokio::test(flavor = "multi_thread")]
async fn reply_is_cut_by_a_reset() {
    let (_server, proxy) = set_up().await;
    let mut client = connect(&proxy).await;
    proxy.add_rule(ReplyRule::next(1, ReplyFault::CutAfter { bytes: 3 }));
    client.write_all(PING).await.unwrap();
    let (bytes, ended) = read_to_end(&mut client).await;
    // A reset may overtake bytes that were not read yet.
    assert!(
        PONG[..3].starts_with(&bytes) && is_reset(&ended),
        "{bytes:?} {ended:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn late_reply_comes_late_and_whole() {
    let (_server, proxy) = set_up().await;
    let mut client = connect(&proxy).await;
    let by = Duration::from_millis(80);
    proxy.add_rule(ReplyRule::next(1, ReplyFault::Late(by)).to_command("ping"));
    let started = Instant::now();
    assert_eq!(ask(&mut client, PING, PONG.len()).await.unwrap(), PONG);
    assert!(started.elapsed() >= by);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_can_be_closed_reset_and_refused() {
    let (server, proxy) = set_up().await;
    let (mut first, mut second) = (connect(&proxy).await, connect(&proxy).await);
    proxy.close_connections().await;
    assert_eq!(proxy.counts().open, 0);
    for client in [&mut first, &mut second] {
        assert!(read_to_end(client).await.1.is_ok());
    }
    let mut third = connect(&proxy).await;
    proxy.reset_connections().await;
    assert!(is_reset(&read_to_end(&mut third).await.1));

    let mut kept = connect(&proxy).await;
    proxy.refuse_connections().await;
    assert!(is_refused(proxy.addr()).await);
    assert_eq!(ask(&mut kept, PING, PONG.len()).await.unwrap(), PONG);
    proxy.accept_connections().await.unwrap();
    connect(&proxy).await;
    assert_eq!(proxy.counts().connections, 5);

    server.kill();
    assert!(read_to_end(&mut kept).await.1.is_ok());
    server.restart().unwrap();
    let mut last = connect(&proxy).await;
    let addr = proxy.addr();
    drop(proxy);
    read_to_end(&mut last).await.1.unwrap();
    let started = Instant::now();
    while !is_refused(addr).await {
        assert!(started.elapsed() < LIMIT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_can_send_its_clients_through_proxies() {
    let cluster = RedisCluster::start(Flavour::Redis).unwrap();
    let mut proxies = Vec::new();
    for node in cluster.nodes() {
        proxies.push(FaultProxy::start(node.addr()).await.unwrap());
    }
    let ports = proxies
        .iter()
        .map(|proxy| proxy.addr().port())
        .collect::<Vec<_>>();
    cluster.announce_ports(&ports).unwrap();
    let slot = cluster.slot_of("n").unwrap();
    let owner = cluster.primary_of(slot).unwrap();
    let at = cluster
        .nodes()
        .position(|node| node.port() == owner.port())
        .unwrap();
    let other = &proxies[(at + 1) % 3];
    let moved = format!("-MOVED {slot} 127.0.0.1:{}\r\n", ports[at]);
    let mut client = connect(other).await;
    assert_eq!(
        ask(&mut client, INCR, moved.len()).await.unwrap(),
        moved.as_bytes()
    );
    let mut client = connect(&proxies[at]).await;
    assert_eq!(ask(&mut client, INCR, 4).await.unwrap(), b":1\r\n");
}

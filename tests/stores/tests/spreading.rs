//! Behind a proxy that spreads keys over servers by the first key of a call, as twemproxy and Envoy do: what stands between the
//! braces of a name decides. A store that keeps calls apart finds again what it wrote.
#![cfg(test)]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use limiter_sessions::{Retention, Visit};
use limiter_store_tests::{PATIENT, Stage, bucket, faults_on_clients, key, layout, spend};
use limiter_testkit::server::RedisServer;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

faults_on_clients! {
    limits_are_found_again_behind_a_proxy_that_spreads_keys
    visitors_are_found_again_behind_a_proxy_that_spreads_keys
}

/// Two servers, and the address of a proxy before them.
async fn spread(stage: &Stage) -> ([Arc<RedisServer>; 2], String) {
    let servers = [stage.server(), stage.server()];
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let behind = servers.each_ref().map(|server| server.addr());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, behind));
        }
    });
    let address = servers[0].url_at(address);
    (servers, address)
}

/// Sends each command where its first key belongs, and those without a key to both servers.
async fn serve(client: TcpStream, behind: [SocketAddr; 2]) -> io::Result<()> {
    let mut servers = Vec::new();
    for server in behind {
        servers.push(BufReader::new(TcpStream::connect(server).await?));
    }
    let mut client = BufReader::new(client);
    loop {
        let (command, args) = read_command(&mut client).await?;
        let place = first_key(&args).map(|key| {
            let tag = key.split(|byte| matches!(byte, b'{' | b'}')).nth(1);
            let sum: usize = tag
                .unwrap_or(key)
                .iter()
                .map(|byte| usize::from(*byte))
                .sum();
            sum % servers.len()
        });
        let mut reply = Vec::new();
        for (nth, server) in servers.iter_mut().enumerate() {
            if place.is_none_or(|place| place == nth) {
                server.write_all(&command).await?;
                reply = read_reply(server).await?;
            }
        }
        client.write_all(&reply).await?;
    }
}

fn first_key(args: &[Vec<u8>]) -> Option<&Vec<u8>> {
    match args.first()?.to_ascii_uppercase().as_slice() {
        b"EVAL" | b"EVALSHA" => args.get(3),
        b"HGETALL" | b"HDEL" | b"SET" => args.get(1),
        _ => None,
    }
}

async fn read_command(
    from: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<(Vec<u8>, Vec<Vec<u8>>)> {
    let mut bytes = read_line(from).await?;
    let mut args = Vec::new();
    for _ in 0..number(&bytes) {
        let line = read_line(from).await?;
        let mut arg = vec![0; number(&line) + 2];
        from.read_exact(&mut arg).await?;
        bytes.extend([&line[..], &arg].concat());
        arg.truncate(arg.len() - 2);
        args.push(arg);
    }
    Ok((bytes, args))
}

async fn read_reply(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let (mut bytes, mut parts) = (Vec::new(), 1);
    while parts > 0 {
        let line = read_line(from).await?;
        parts -= 1;
        match line[0] {
            _ if line[1] == b'-' => {}
            b'$' => {
                let mut bulk = vec![0; number(&line) + 2];
                from.read_exact(&mut bulk).await?;
                bytes.extend([&line[..], &bulk].concat());
                continue;
            }
            b'*' => parts += number(&line),
            b'%' => parts += 2 * number(&line),
            _ => {}
        }
        bytes.extend(line);
    }
    Ok(bytes)
}

async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    match from.read_until(b'\n', &mut line).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line),
    }
}

fn number(line: &[u8]) -> usize {
    let digits = String::from_utf8_lossy(&line[1..]);
    digits.trim().parse().expect("a length")
}

fn both_have_keys(servers: &[Arc<RedisServer>; 2]) {
    for server in servers {
        assert!(!server.keys().expect("keys").is_empty());
    }
}

async fn limits_are_found_again_behind_a_proxy_that_spreads_keys(stage: &Stage) {
    let (servers, address) = spread(stage).await;
    let store = stage.client.store_apart(&address, &layout(), PATIENT);
    for remaining in [9, 8] {
        let calls = (0..16).map(|nth| {
            let store = store.clone();
            tokio::spawn(
                async move { spend(&store, &key(&format!("user {nth}")), &bucket(10)).await },
            )
        });
        for call in calls.collect::<Vec<_>>() {
            let said = call.await.expect("no panic").expect("an answer");
            assert_eq!(said.plans[0].remaining, remaining);
        }
    }
    both_have_keys(&servers);
}

async fn visitors_are_found_again_behind_a_proxy_that_spreads_keys(stage: &Stage) {
    let (servers, address) = spread(stage).await;
    let store = stage.client.sessions_apart(&address, &layout(), PATIENT);
    for nth in 0..16 {
        let fingerprint = format!("{nth:02x}").repeat(32).parse();
        let ip = format!("203.0.113.{nth}").parse().expect("an address");
        let visit = Visit::new(fingerprint.expect("a fingerprint"), ip);
        for is_new in [true, false] {
            let seen = store.observe(&visit, Retention::HOUR).await;
            let seen = seen.expect("an answer");
            assert!(seen.is_new == is_new && seen.in_signals, "{seen:?}");
            let signal = store.signal(ip).await.expect("an answer");
            assert_eq!(signal.expect("signals").total_sessions, 1);
            let known = store.by_fingerprint(&visit.fingerprint).await;
            assert_eq!(known.expect("an answer"), [seen.session.id]);
            let got = store.get(&seen.session.id).await.expect("an answer");
            assert_eq!(got.expect("a session").request_count, 2 - u64::from(is_new));
        }
    }
    both_have_keys(&servers);
}

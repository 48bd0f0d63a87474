//! The servers of the kit do what they say, and nothing of them stays behind.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use limiter_testkit::server::{
    Flavour, RedisCluster, RedisSentinel, RedisServer, Reply, ServerError, ensure_installed,
};
use rustix::process::{Pid, test_kill_process};

fn is_open(addr: SocketAddr) -> bool {
    TcpStream::connect_timeout(&addr, Duration::from_secs(1)).is_ok()
}

fn exists(pid: u32) -> bool {
    Pid::from_raw(i32::try_from(pid).unwrap()).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(10), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What a client that sends `lines`, each an inline command, reads back.
fn session(addr: SocketAddr, lines: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    let _ = stream.write_all(lines.as_bytes());
    let _ = stream.write_all(b"QUIT\r\n");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

fn refusal(result: Result<Reply, ServerError>) -> String {
    match result {
        Err(ServerError::Refused { message, .. }) => message,
        other => panic!("{other:?} is no refusal"),
    }
}

#[test]
fn standalone_server_answers_restarts_empty_and_is_gone_after_drop() {
    for flavour in Flavour::ALL {
        let server = RedisServer::start(flavour).unwrap();
        let (addr, pid) = (server.addr(), server.pid().unwrap());
        assert_eq!(server.url(), format!("redis://127.0.0.1:{}", addr.port()));
        assert_eq!(
            session(addr, "PING\r\nSET a 1\r\n"),
            "+PONG\r\n+OK\r\n+OK\r\n"
        );
        server.command(&["SCRIPT", "LOAD", "return 1"]).unwrap();

        server.kill();
        assert!(!server.is_running() && !exists(pid) && !is_open(addr));
        server.restart().unwrap();
        assert_eq!(server.addr(), addr);
        assert!(server.keys().unwrap().is_empty());

        let pid = server.pid().unwrap();
        drop(server);
        assert!(!exists(pid) && !is_open(addr), "{flavour:?} is gone");
    }
}

#[test]
fn paused_server_accepts_but_does_not_answer() {
    let server = RedisServer::start(Flavour::Redis).unwrap();
    server.pause().unwrap();
    let mut client = TcpStream::connect(server.addr()).unwrap();
    client
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    client.write_all(b"PING\r\n").unwrap();
    assert!(client.read(&mut [0; 7]).is_err());
    server.resume().unwrap();
    client
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    assert_eq!(client.read(&mut [0; 7]).unwrap(), 7);

    server.pause().unwrap();
    let pid = server.pid().unwrap();
    drop(server);
    assert!(!exists(pid), "a stopped process is killed too");
}

#[test]
fn options_reach_the_server() {
    for flavour in Flavour::ALL {
        let server = RedisServer::builder(flavour)
            .with_password("secret")
            .with_acl_user("reader on >pass ~r:* -@all +get")
            .with_max_clients(2)
            .with_config("maxmemory-policy noeviction")
            .start()
            .unwrap();
        let addr = server.addr();
        assert_eq!(server.url(), format!("redis://:secret@{addr}"));
        assert_eq!(
            server.url_as("reader", "pass"),
            format!("redis://reader:pass@{addr}")
        );
        assert!(session(addr, "GET r:1\r\n").starts_with("-NOAUTH"));
        assert!(session(addr, "AUTH wrong\r\n").starts_with("-WRONGPASS"));
        assert!(session(addr, "AUTH secret\r\nGET r:1\r\n").starts_with("+OK\r\n$-1\r\n"));
        assert!(session(addr, "AUTH reader pass\r\nSET r:1 x\r\n").starts_with("+OK\r\n-NOPERM"));

        let held = [(); 2].map(|()| TcpStream::connect(addr).unwrap());
        eventually("the server counts its clients", || {
            server
                .info("clients")
                .unwrap()
                .get("connected_clients")
                .unwrap()
                == "3"
        });
        assert!(session(addr, "").contains("max number of clients"));
        assert_eq!(
            server.command(&["PING"]).unwrap(),
            Reply::Status("PONG".to_owned())
        );
        drop(held);

        server.config_set("maxmemory", "1").unwrap();
        assert!(refusal(server.command(&["SET", "a", "1"])).starts_with("OOM"));
    }
}

#[test]
fn states_that_tests_need_can_be_brought_about() {
    let server = RedisServer::start(Flavour::Redis).unwrap();
    let sha = server
        .command(&["SCRIPT", "LOAD", "return 1"])
        .unwrap()
        .text()
        .unwrap();
    let evaluate = || server.command(&["EVALSHA", &sha, "0"]);
    assert_eq!(evaluate().unwrap(), Reply::Int(1));
    server.script_flush().unwrap();
    assert!(refusal(evaluate()).starts_with("NOSCRIPT"));
    assert_eq!(server.calls_of("EVALSHA").unwrap(), 2);
    assert_eq!(server.calls_of("hset").unwrap(), 0);

    server
        .command(&["SET", "mortal", "1", "PX", "100000"])
        .unwrap();
    server.command(&["SET", "immortal", "1"]).unwrap();
    assert_eq!(
        server.keys().unwrap(),
        [b"immortal".to_vec(), b"mortal".to_vec()]
    );
    assert_eq!(server.keys_without_ttl().unwrap(), [b"immortal".to_vec()]);
    for command in [["SELECT", "3"], ["INCR", "elsewhere"], ["SELECT", "0"]] {
        server.command(&command).unwrap();
    }
    assert_eq!(
        server.keys_without_ttl().unwrap(),
        [b"immortal".to_vec(), b"elsewhere".to_vec()]
    );

    server.demote().unwrap();
    assert!(refusal(server.command(&["SET", "a", "1"])).starts_with("READONLY"));
    server.promote().unwrap();
    assert_eq!(server.keys().unwrap().len(), 2);
    server.command(&["DEBUG", "SLEEP", "0"]).unwrap();

    let replica = RedisServer::builder(Flavour::Redis)
        .with_replica_of(server.addr())
        .start()
        .unwrap();
    eventually("the replica has the data", || {
        replica.keys().unwrap().len() == 2
    });
    replica.restart().unwrap();
    server.flush_all().unwrap();
    eventually("the replica follows", || replica.keys().unwrap().is_empty());
}

#[test]
fn server_that_cannot_start_says_why() {
    let error = RedisServer::builder(Flavour::Redis)
        .with_config("no-such-option 1")
        .start()
        .unwrap_err();
    assert!(error.to_string().contains("no-such-option"), "{error}");
}

#[test]
fn panicking_test_leaves_no_server_behind() {
    let mut started = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let server = RedisServer::start(Flavour::Redis).unwrap();
        started = Some((server.addr(), server.pid().unwrap()));
        panic!("as a failing test does");
    }));
    assert!(outcome.is_err());
    let (addr, pid) = started.unwrap();
    assert!(!is_open(addr) && !exists(pid));
}

/// Runs the test `name` of this file once more, in a process of its own, with `variable` set.
fn again(name: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", name, "--nocapture"])
        .env(variable, value)
        .stdout(Stdio::piped());
    command
}

/// The test starts itself as a second process, which starts a server and is then killed.
#[test]
fn killed_test_process_leaves_no_server_behind() {
    const MARK: &str = "LIMITER_TESTKIT_VICTIM";
    if env::var_os(MARK).is_some() {
        let server = RedisServer::start(Flavour::Redis).unwrap();
        server.pause().unwrap();
        println!("\n{MARK} {} {}", server.addr(), server.pid().unwrap());
        thread::sleep(Duration::from_secs(600));
    }
    let scratch = tempfile::tempdir().unwrap();
    let mut victim = again("killed_test_process_leaves_no_server_behind", MARK, "1")
        .env("TMPDIR", scratch.path())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let line = lines
        .map(Result::unwrap)
        .find(|line| line.starts_with(MARK))
        .unwrap();
    let [_, addr, pid] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
    assert!(is_open(addr.parse().unwrap()) && exists(pid.parse().unwrap()));
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("the port is closed", || !is_open(addr.parse().unwrap()));
    eventually("the directory is gone", || {
        let names = fs::read_dir(scratch.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .into_iter()
            .all(|name| name.to_string_lossy().contains("ports"))
    });
}

#[test]
fn missing_program_is_an_error_that_says_what_to_do() {
    const NAME: &str = "missing_program_is_an_error_that_says_what_to_do";
    let nowhere = "/nowhere/redis-server";
    if env::var("LIMITER_REDIS_SERVER").as_deref() == Ok(nowhere) {
        println!("\n{}", RedisServer::start(Flavour::Redis).unwrap_err());
        return;
    }
    let output = again(NAME, "LIMITER_REDIS_SERVER", nowhere)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "redis-server was not found",
        "LIMITER_REDIS_SERVER",
        "install_servers",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn installed_server_is_found_where_it_is() {
    for flavour in Flavour::ALL {
        assert_eq!(
            ensure_installed(flavour).unwrap(),
            flavour.locate().unwrap()
        );
    }
}

#[test]
fn server_is_of_the_version_that_its_flavour_says() {
    for (flavour, field, version) in [
        (Flavour::Redis62, "redis_version", "6.2."),
        (Flavour::Redis8, "redis_version", "8."),
        (Flavour::Valkey8, "valkey_version", "8."),
    ] {
        let server = RedisServer::start(flavour).unwrap();
        let info = server.info("server").unwrap();
        let told = info.get(field).unwrap();
        assert!(told.starts_with(version), "{flavour:?} is {told}");
    }
}

#[test]
fn cluster_serves_every_slot_and_moves_one_on_demand() {
    let cluster = RedisCluster::start_with(
        RedisServer::builder(Flavour::Valkey).with_password("secret"),
        0,
    )
    .unwrap();
    assert_eq!(cluster.nodes().len(), 3);
    assert_eq!(cluster.slots_covered().unwrap(), 16_384);
    assert!(
        cluster
            .urls()
            .iter()
            .all(|url| url.starts_with("redis://:secret@127.0.0.1:"))
    );

    let slot = cluster.slot_of("rl:{a}").unwrap();
    assert_eq!(slot, cluster.slot_of("{a}other").unwrap());
    let from = cluster.primary_of(slot).unwrap();
    let to = cluster
        .nodes()
        .find(|node| node.port() != from.port())
        .unwrap();
    for number in 0..250 {
        from.command(&["SET", &format!("{{a}}{number}"), "1", "PX", "100000"])
            .unwrap();
    }
    let migration = cluster.begin_migration(slot, to).unwrap();
    assert_eq!(
        (migration.from().port(), migration.to().port()),
        (from.port(), to.port())
    );
    assert_eq!(migration.move_keys(10).unwrap(), 10);
    assert!(refusal(from.command(&["GET", "{a}absent"])).starts_with("ASK"));
    migration.finish().unwrap();
    assert!(refusal(from.command(&["GET", "{a}1"])).starts_with("MOVED"));
    assert_eq!(to.keys().unwrap().len(), 250);
    assert!(to.keys_without_ttl().unwrap().is_empty());
    eventually("all nodes know", || {
        cluster.primary_of(slot).unwrap().port() == to.port()
    });

    cluster.migrate_slot(slot, from).unwrap();
    assert_eq!(from.keys().unwrap().len(), 250);
    cluster.begin_migration(slot, to).unwrap().cancel().unwrap();
    cluster.wait_until_ok().unwrap();
}

#[test]
fn cluster_with_replicas_survives_the_death_of_a_master() {
    let cluster = RedisCluster::start_with(RedisServer::builder(Flavour::Redis), 1).unwrap();
    assert_eq!(cluster.nodes().len(), 6);
    let slot = cluster.slot_of("a").unwrap();
    let old = cluster.primary_of(slot).unwrap();
    old.kill();
    eventually("a replica takes over", || {
        cluster
            .primary_of(slot)
            .is_ok_and(|now| now.port() != old.port())
    });
    cluster.wait_until_ok().unwrap();
    assert_eq!(cluster.slots_covered().unwrap(), 16_384);
    old.restart().unwrap();
    cluster.wait_until_ok().unwrap();
    let pids = cluster
        .nodes()
        .map(|node| node.pid().unwrap())
        .collect::<Vec<_>>();
    drop(cluster);
    assert!(!pids.into_iter().any(exists));
}

#[test]
fn sentinels_know_the_primary_and_replace_it() {
    let group =
        RedisSentinel::start_with(RedisServer::builder(Flavour::Redis).with_password("secret"))
            .unwrap();
    assert_eq!(group.master_name(), "limiter");
    assert_eq!(
        (group.sentinels().len(), group.sentinel_urls().len()),
        (3, 3)
    );
    let old = group.primary().unwrap();
    assert_eq!(old.port(), group.data_nodes()[0].port());
    old.kill();
    let new = group.wait_for_other_primary_than(old).unwrap();
    new.command(&["SET", "a", "1"]).unwrap();
    old.restart().unwrap();
    group.wait_until_ok().unwrap();
}

#[test]
fn sentinels_fail_over_when_told() {
    let group = RedisSentinel::start(Flavour::Valkey).unwrap();
    let old = group.primary().unwrap();
    group.fail_over().unwrap();
    assert_ne!(
        group.wait_for_other_primary_than(old).unwrap().port(),
        old.port()
    );
}

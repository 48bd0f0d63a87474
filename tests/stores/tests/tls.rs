//! TLS to real servers, with a certificate that lives as long as the test.
#![allow(clippy::expect_used, reason = "this is a test")]

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use limiter_core::Cost;
use limiter_store_tests::{
    BEHIND_SENTINELS, Client, DEADLINE, PATIENT, Store, bucket, key, layout, on_clients, recovers,
    spend, spent,
};
use limiter_testkit::rig::{PERMISSIONS, acl_user};
use limiter_testkit::server::{Flavour, RedisCluster, RedisSentinel, RedisServer, ServerBuilder};
use tempfile::TempDir;
use tokio::time::sleep;

const FAIL_OVER: Duration = Duration::from_secs(20);

on_clients! {
    calls_are_answered_over_tls
    calls_are_answered_over_tls_by_every_node_of_a_cluster
    calls_are_answered_over_tls_behind_sentinels_before_and_after_a_fail_over
    certificate_of_a_stranger_is_refused
    certificate_of_a_stranger_is_refused_by_a_cluster_and_behind_sentinels
    server_without_tls_fails_in_time
    what_is_no_certificate_is_refused
    authorities_of_the_system_are_trusted_and_read_once
}

/// A certificate for this machine, and the files that servers read it from.
struct Signed {
    certificate: String,
    certificate_file: PathBuf,
    key_file: PathBuf,
    _files: TempDir,
}

impl Signed {
    fn new() -> Self {
        let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
        let signed = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let (certificate, files) = (signed.cert.pem(), TempDir::new().expect("a directory"));
        let file = |name: &str, text: &str| {
            let path = files.path().join(name);
            std::fs::write(&path, text).expect("written");
            path
        };
        Self {
            certificate_file: file("cert.pem", &certificate),
            key_file: file("key.pem", &signed.signing_key.serialize_pem()),
            certificate,
            _files: files,
        }
    }

    fn server(&self) -> ServerBuilder {
        RedisServer::builder(Flavour::Redis).with_tls(&self.certificate_file, &self.key_file)
    }
}

/// A server that speaks TLS, and who signed for it.
struct TlsServer {
    server: RedisServer,
    address: String,
    signed: Signed,
}

fn start() -> TlsServer {
    let signed = Signed::new();
    let server = signed.server().start().expect("Redis starts");
    let port = server.tls_port().expect("a port");
    TlsServer {
        server,
        address: format!("rediss://127.0.0.1:{port}"),
        signed,
    }
}

/// Makes a store that trusts who signed `pem`, and nobody else.
fn trusting(client: Client, address: &str, pem: &str) -> Result<Store, Box<dyn std::error::Error>> {
    Ok(match client {
        Client::Redis => {
            let endpoint = address.parse::<limiter_redis::Endpoint>()?;
            let endpoint = endpoint.with_root_certificates(pem.as_bytes())?;
            let store = limiter_redis::RedisStore::builder(endpoint).with_layout(layout());
            let store = store.with_connect_timeout(PATIENT).with_deadline(PATIENT);
            Arc::new(store.build()?)
        }
        Client::Fred => {
            let endpoint = address.parse::<limiter_fred::Endpoint>()?;
            let endpoint = endpoint.with_root_certificates(pem.as_bytes())?;
            let store = limiter_fred::FredStore::builder(endpoint).with_layout(layout());
            let store = store.with_connect_timeout(PATIENT).with_deadline(PATIENT);
            Arc::new(store.build()?)
        }
    })
}

async fn calls_are_answered_over_tls(client: Client) {
    let tls = start();
    let store = trusting(client, &tls.address, &tls.signed.certificate).expect("a store");
    for remaining in (5..10).rev() {
        let plans = [bucket(10)];
        let user = key("ann");
        let said = store.try_acquire(&user, &plans, Cost::ONE);
        let said = said.await.expect("an answer");
        assert_eq!(said.plans.first().expect("a plan").remaining, remaining);
    }
    assert_eq!(tls.server.keys().expect("keys").len(), 1);
}

async fn calls_are_answered_over_tls_by_every_node_of_a_cluster(client: Client) {
    let signed = Signed::new();
    let cluster = RedisCluster::start_with(signed.server(), 0).expect("a cluster");
    let store = trusting(client, &cluster.address(), &signed.certificate).expect("a store");
    let plans = [bucket(10)];
    for nth in 0..30 {
        let user = key(&format!("user {nth}"));
        let said = store.try_acquire(&user, &plans, Cost::ONE).await;
        assert!(said.expect("an answer").admitted);
    }
    for node in cluster.nodes() {
        assert!(!node.keys().expect("keys").is_empty());
    }
}

/// With a user, too, for certificates and users go the same way into the client.
async fn calls_are_answered_over_tls_behind_sentinels_before_and_after_a_fail_over(client: Client) {
    let signed = Signed::new();
    let permissions = format!("{PERMISSIONS} {BEHIND_SENTINELS}");
    let user = acl_user("limiter", "*", &permissions);
    let data = signed.server().with_password("another").with_acl_user(user);
    let group = RedisSentinel::start_with(data).expect("sentinels");
    let address = group.address().replace("://", "://limiter:secret@");
    let store = trusting(client, &address, &signed.certificate).expect("a store");
    let (user, plans) = (key("ann"), [bucket(1000)]);
    for _ in 0..10 {
        let said = store.try_acquire(&user, &plans, Cost::ONE).await;
        assert!(said.expect("an answer").admitted);
    }
    group.wait_until_replicated().expect("replicated");
    group.primary().expect("a primary").kill();
    let began = Instant::now();
    while let Err(error) = store.peek(&user, &plans, Cost::ONE).await {
        assert!(began.elapsed() < FAIL_OVER, "no fail-over: {error:?}");
        sleep(Duration::from_millis(20)).await;
    }
    let [gold] = plans;
    assert_eq!(spent(&store, &user, &gold).await, 10);
}

async fn certificate_of_a_stranger_is_refused_by_a_cluster_and_behind_sentinels(client: Client) {
    let signed = Signed::new();
    let cluster = RedisCluster::start_with(signed.server(), 0).expect("a cluster");
    let group = RedisSentinel::start_with(signed.server()).expect("sentinels");
    for address in [cluster.address(), group.address()] {
        let store = client.store(&address, &layout(), DEADLINE);
        for _ in 0..5 {
            let error = spend(&store, &key("ann"), &bucket(10)).await;
            let error = error.expect_err("a stranger");
            assert!(!error.may_have_charged(), "{address}: {error:?}");
        }
    }
    for node in cluster.nodes().chain(group.data_nodes()) {
        assert!(node.keys().expect("keys").is_empty());
    }
}

async fn certificate_of_a_stranger_is_refused(client: Client) {
    let tls = start();
    // The authorities of the system did not sign for the server, and so nothing is sent.
    let store = client.store(&tls.address, &layout(), DEADLINE);
    for _ in 0..5 {
        let error = spend(&store, &key("ann"), &bucket(10)).await;
        let error = error.expect_err("a stranger");
        assert!(!error.may_have_charged(), "{error:?}");
    }
    assert!(tls.server.keys().expect("keys").is_empty());
}

async fn server_without_tls_fails_in_time(client: Client) {
    let tls = start();
    let plain = RedisServer::start(Flavour::Redis).expect("Redis starts");
    let address = plain.url().replace("redis://", "rediss://");
    let store = client.store(&address, &layout(), DEADLINE);
    let error = spend(&store, &key("ann"), &bucket(10)).await;
    assert!(!error.expect_err("no TLS there").may_have_charged());
    // And the other way round: plain words to a server that speaks TLS.
    let address = tls.address.replace("rediss://", "redis://");
    let store = client.store(&address, &layout(), DEADLINE);
    let error = spend(&store, &key("ann"), &bucket(10)).await;
    assert!(!error.expect_err("TLS there").may_have_charged());
    recovers(
        &client.store(&plain.url(), &layout(), DEADLINE),
        &bucket(10),
        PATIENT,
    )
    .await;
}

async fn what_is_no_certificate_is_refused(client: Client) {
    for pem in [
        "",
        "hello",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    ] {
        assert!(
            trusting(client, "rediss://127.0.0.1:1", pem).is_err(),
            "{pem:?}"
        );
    }
}

/// In a process whose system trusts the server, until that is forgotten: connections that are made later know it still.
async fn authorities_of_the_system_are_trusted_and_read_once(client: Client) {
    let tls = start();
    let trusted = tls.signed.certificate_file.with_file_name("trusted.pem");
    std::fs::write(&trusted, &tls.signed.certificate).expect("written");
    let name = match client {
        Client::Redis => "redis",
        Client::Fred => "fred",
    };
    let mut process = Command::new(env!("CARGO_BIN_EXE_system_trust"))
        .args([name, &tls.address])
        .env("SSL_CERT_FILE", &trusted)
        .env_remove("SSL_CERT_DIR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let (mut asks, said) = (process.stdin.take(), process.stdout.take());
    let mut said = BufReader::new(said.expect("its output")).lines();
    let mut spent = || said.next().expect("it goes on").expect("a line") == "spent";
    assert!(spent());
    std::fs::remove_file(&trusted).expect("forgotten");
    for _ in 0..2 {
        let cut = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        tls.server.command(&cut).expect("cut");
        writeln!(asks.as_mut().expect("its input")).expect("it listens");
        assert!(spent());
    }
    drop(asks.take());
    assert!(process.wait().expect("it ends").success());
}

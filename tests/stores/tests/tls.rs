//! TLS to a real server, with a certificate that lives as long as the test.
#![allow(clippy::expect_used, reason = "this is a test")]

use std::sync::Arc;

use limiter_store_tests::{
    Client, DEADLINE, PATIENT, Store, bucket, key, layout, on_clients, recovers, spend_in_time,
};
use limiter_testkit::server::{Flavour, PortLease, RedisServer};
use tempfile::TempDir;

on_clients! {
    calls_are_answered_over_tls
    certificate_of_a_stranger_is_refused
    server_without_tls_fails_in_time
    what_is_no_certificate_is_refused
}

/// A server that speaks TLS, and who signed for it.
struct TlsServer {
    server: RedisServer,
    address: String,
    certificate: String,
    _files: TempDir,
    _port: PortLease,
}

fn start() -> TlsServer {
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let signed = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let (certificate, files) = (signed.cert.pem(), TempDir::new().expect("a directory"));
    let file = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let port = PortLease::acquire().expect("a port");
    let server = RedisServer::builder(Flavour::Redis)
        .with_config(format!("tls-port {}", port.port()))
        .with_config(format!("tls-cert-file {}", file("cert.pem", &certificate)))
        .with_config(format!(
            "tls-key-file {}",
            file("key.pem", &signed.signing_key.serialize_pem())
        ))
        .with_config("tls-auth-clients no")
        .start()
        .expect("Redis starts");
    TlsServer {
        server,
        address: format!("rediss://127.0.0.1:{}", port.port()),
        certificate,
        _files: files,
        _port: port,
    }
}

/// Makes a store that trusts who signed `pem`, and nobody else.
fn trusting(client: Client, address: &str, pem: &str) -> Result<Store, Box<dyn std::error::Error>> {
    Ok(match client {
        Client::Redis => {
            let endpoint = address.parse::<limiter_redis::Endpoint>()?;
            let endpoint = endpoint.with_root_certificates(pem.as_bytes())?;
            let store = limiter_redis::RedisStore::builder(endpoint).with_layout(layout());
            Arc::new(store.with_deadline(PATIENT).build()?)
        }
        Client::Fred => {
            let endpoint = address.parse::<limiter_fred::Endpoint>()?;
            let endpoint = endpoint.with_root_certificates(pem.as_bytes())?;
            let store = limiter_fred::FredStore::builder(endpoint).with_layout(layout());
            Arc::new(store.with_deadline(PATIENT).build()?)
        }
    })
}

async fn calls_are_answered_over_tls(client: Client) {
    let tls = start();
    let store = trusting(client, &tls.address, &tls.certificate).expect("a store");
    for remaining in (5..10).rev() {
        let plans = [bucket(10)];
        let user = key("ann");
        let said = store.try_acquire(&user, &plans, limiter_core::Cost::ONE);
        let said = said.await.expect("an answer");
        assert_eq!(said.plans.first().expect("a plan").remaining, remaining);
    }
    assert_eq!(tls.server.keys().expect("keys").len(), 1);
}

async fn certificate_of_a_stranger_is_refused(client: Client) {
    let tls = start();
    // The authorities of the system did not sign for the server, and so nothing is sent.
    let store = client.store(&tls.address, &layout(), DEADLINE);
    for _ in 0..5 {
        let error = spend_in_time(&store, &key("ann"), &bucket(10)).await;
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
    let error = spend_in_time(&store, &key("ann"), &bucket(10)).await;
    assert!(!error.expect_err("no TLS there").may_have_charged());
    // And the other way round: plain words to a server that speaks TLS.
    let address = tls.address.replace("rediss://", "redis://");
    let store = client.store(&address, &layout(), DEADLINE);
    let error = spend_in_time(&store, &key("ann"), &bucket(10)).await;
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

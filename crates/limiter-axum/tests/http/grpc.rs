//! gRPC through the same layer, with a real server and client.

use std::time::Duration;

use limiter_axum::{ClientIp, RateLimit, RateLimitLayer};
use tonic::Code;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use crate::harness::Bench;

async fn client(layer: RateLimitLayer) -> HealthClient<Channel> {
    let (_reporter, service) = tonic_health::server::health_reporter();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().layer(layer).add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let endpoint = Endpoint::try_from(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

#[tokio::test]
async fn the_denied_get_resource_exhausted_with_retry_info() {
    let bench = Bench::new(&[("gold", "1/2s")]);
    let mut client = client(bench.by_ip(RateLimit::plan("gold"))).await;
    let request = || HealthCheckRequest {
        service: String::new(),
    };
    client.check(request()).await.unwrap();
    bench.clock.advance(Duration::from_millis(500));
    let status = client.check(request()).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(status.message(), "Retry in 2 seconds.");
    let retry = status.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_millis(1500)));
    let quota = status.get_details_quota_failure().unwrap();
    assert_eq!(quota.violations[0].subject, "gold");
    let pushback = status.metadata().get("grpc-retry-pushback-ms").unwrap();
    assert_eq!(pushback, "1500");
    bench.clock.advance(Duration::from_millis(1500));
    client.check(request()).await.unwrap();
}

#[tokio::test]
async fn a_missing_key_is_a_grpc_status_as_well() {
    let bench = Bench::new(&[("gold", "1/s")]);
    let by_header = limiter_axum::HeaderKeyResolver::new("x-api-key");
    let layer = RateLimitLayer::builder(bench.limiter.clone(), by_header)
        .limit(RateLimit::plan("gold"))
        .missing_key(limiter_axum::MissingKey::Unauthorized)
        .client_ip(ClientIp::peer());
    let mut client = client(layer.build().unwrap()).await;
    let request = HealthCheckRequest {
        service: String::new(),
    };
    let status = client.check(request).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(status.metadata().get("www-authenticate").is_none());
}

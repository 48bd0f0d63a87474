//! What TLS needs besides the client.

use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{ConnectionAddr, ConnectionInfo, RedisResult, TlsCertificates, TlsMode};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Makes sure that rustls knows what to encrypt with: it panics if the process has not said so and its features do not either.
/// Who has installed a provider keeps it.
pub(crate) fn ensure_provider() {
    if CryptoProvider::get_default().is_none() {
        // An error says that somebody else was faster.
        let _ = ring::default_provider().install_default();
    }
}

/// Reads certificates in PEM; `None` if there are none, or one is damaged.
pub(crate) fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    certificates.ok().filter(|read| !read.is_empty())
}

/// Makes a client that finds the primary called `master` through `sentinels` and trusts `certificates` there and here.
///
/// Only the builder of redis-rs takes certificates, and it knows one user for all sentinels: the first one's.
pub(crate) fn sentinel_client(
    sentinels: &[ConnectionInfo],
    master: &str,
    server: &ConnectionInfo,
    tcp: &TcpSettings,
    certificates: TlsCertificates,
) -> RedisResult<SentinelClient> {
    let addresses = sentinels.iter().map(|sentinel| sentinel.addr().clone());
    let mut builder = SentinelClientBuilder::new(addresses, master, SentinelServerType::Master)?
        .set_client_to_redis_tcp_settings(tcp.clone())
        .set_client_to_sentinel_tcp_settings(tcp.clone())
        .set_client_to_redis_db(server.redis_settings().db())
        .set_client_to_redis_protocol(server.redis_settings().protocol());
    if let Some(user) = server.redis_settings().username() {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = server.redis_settings().password() {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(first) = sentinels.first() {
        if let Some(user) = first.redis_settings().username() {
            builder = builder.set_client_to_sentinel_username(user);
        }
        if let Some(password) = first.redis_settings().password() {
            builder = builder.set_client_to_sentinel_password(password);
        }
        if is_tls(first) {
            builder = builder.set_client_to_sentinel_certificates(certificates.clone());
        }
    }
    if is_tls(server) {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_redis_certificates(certificates);
    }
    builder.build()
}

fn is_tls(server: &ConnectionInfo) -> bool {
    matches!(server.addr(), ConnectionAddr::TcpTls { .. })
}

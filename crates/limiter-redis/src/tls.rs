//! What TLS needs besides the client.

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

//! [`Trust`]: whose certificates a client believes.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

/// Whose certificates a client believes: the authorities that the system trusts, or those of the user alone.
#[derive(Clone, Debug, Default)]
pub struct Trust(Option<Arc<ClientConfig>>);

/// What the system trusts, read by the first connection of the process that needs it.
static OF_SYSTEM: OnceCell<Arc<ClientConfig>> = OnceCell::const_new();

impl Trust {
    /// Trusts the authorities in `pem` and not those of the system; `None` if there is no certificate in it, or a damaged one.
    #[must_use]
    pub fn in_authorities(pem: &[u8]) -> Option<Self> {
        let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
        let mut roots = RootCertStore::empty();
        for certificate in certificates.ok()? {
            roots.add(certificate).ok()?;
        }
        if roots.is_empty() {
            return None;
        }
        Some(Self(Some(config(roots).ok()?)))
    }

    /// Returns what rustls needs to know. The system's authorities are read once in a process, on a thread that may block.
    ///
    /// # Errors
    /// If nothing can be read of what the system trusts.
    ///
    /// # Cancel safety
    /// A dropped call leaves the reading to the next one.
    pub async fn client_config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = &self.0 {
            return Ok(Arc::clone(config));
        }
        let read = || async { spawn_blocking(of_system).await.map_err(io::Error::other)? };
        OF_SYSTEM.get_or_try_init(read).await.map(Arc::clone)
    }
}

fn of_system() -> io::Result<Arc<ClientConfig>> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.into_iter().next();
        return Err(match why {
            Some(why) => io::Error::other(why),
            None => io::Error::new(io::ErrorKind::NotFound, "the system trusts no authority"),
        });
    }
    config(roots).map_err(io::Error::other)
}

fn config(roots: RootCertStore) -> Result<Arc<ClientConfig>, rustls::Error> {
    // A provider that the process has named goes first.
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(ring::default_provider()));
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config?.with_root_certificates(roots);
    Ok(Arc::new(config.with_no_client_auth()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_no_certificate_is_refused() {
        for pem in ["", "words", "-----BEGIN CERTIFICATE-----\nwords\n"] {
            assert!(Trust::in_authorities(pem.as_bytes()).is_none(), "{pem}");
        }
    }
}

//! [`Trust`]: whose certificates a client believes.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

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
static OF_SYSTEM: ReadOnce = ReadOnce::by(of_system);

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
    /// If the call is dropped, what it has begun to read is there for the next one.
    pub async fn client_config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = &self.0 {
            return Ok(Arc::clone(config));
        }
        OF_SYSTEM.get().await
    }
}

/// What is read once, on a thread that may block.
struct ReadOnce {
    read: Read,
    known: OnceCell<Arc<ClientConfig>>,
    /// The same. It outlives a caller that has given up before it was read, and whoever reads at
    /// the same time waits for it.
    kept: Mutex<Option<Arc<ClientConfig>>>,
}

type Read = fn() -> io::Result<Arc<ClientConfig>>;

impl ReadOnce {
    const fn by(read: Read) -> Self {
        Self {
            read,
            known: OnceCell::const_new(),
            kept: Mutex::new(None),
        }
    }

    async fn get(&'static self) -> io::Result<Arc<ClientConfig>> {
        let read = || async {
            spawn_blocking(|| self.keep())
                .await
                .map_err(io::Error::other)?
        };
        self.known.get_or_try_init(read).await.map(Arc::clone)
    }

    fn keep(&self) -> io::Result<Arc<ClientConfig>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept {
            return Ok(Arc::clone(kept));
        }
        let read = (self.read)()?;
        *kept = Some(Arc::clone(&read));
        Ok(read)
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread::sleep;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Longer than any one caller waits for it.
    #[tokio::test]
    async fn what_takes_long_to_read_is_read_once() {
        const SLOW: Duration = Duration::from_millis(200);
        static READ: AtomicUsize = AtomicUsize::new(0);
        static ONCE: ReadOnce = ReadOnce::by(|| {
            READ.fetch_add(1, Ordering::Relaxed);
            sleep(SLOW);
            config(RootCertStore::empty()).map_err(io::Error::other)
        });
        while timeout(SLOW / 10, ONCE.get()).await.is_err() {}
        assert!(ONCE.get().await.is_ok());
        assert_eq!(READ.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_holds_no_certificate_is_refused() {
        for pem in ["", "words", "-----BEGIN CERTIFICATE-----\nwords\n"] {
            assert!(Trust::in_authorities(pem.as_bytes()).is_none(), "{pem}");
        }
    }
}

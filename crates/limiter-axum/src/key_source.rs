//! [`KeySource`]: where the key of a limit comes from.

use std::any::Any;
use std::sync::Arc;

use limiter_core::{Key, KeyResolver, RequestSource, UnresolvedKey};

use crate::ClientIp;

/// Where the key of a limit comes from. The commonest resolver is kept as what it is: it is asked for every request, and a call of
/// something known costs less.
#[derive(Clone)]
pub(crate) enum KeySource {
    ClientIp(ClientIp),
    Other(Arc<dyn KeyResolver>),
}

impl KeySource {
    pub(crate) fn new(resolver: impl KeyResolver + 'static) -> Self {
        match (&resolver as &dyn Any).downcast_ref::<ClientIp>() {
            Some(client_ip) => Self::ClientIp(client_ip.clone()),
            None => Self::Other(Arc::new(resolver)),
        }
    }

    #[inline]
    pub(crate) fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        match self {
            Self::ClientIp(client_ip) => client_ip.resolve(request),
            Self::Other(resolver) => resolver.resolve(request),
        }
    }
}

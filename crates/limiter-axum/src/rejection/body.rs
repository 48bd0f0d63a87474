//! [`RejectionBody`]: response bodies that a refusal can be written into.

use bytes::Bytes;
use http_body_util::combinators::{BoxBody, UnsyncBoxBody};
use http_body_util::{BodyExt, Full};

/// A response body that a refusal can be written into: axum's, tonic's, `Full<Bytes>`, boxed bodies and plain buffers. Implement
/// it for a body of your own.
///
/// # Examples
/// ```
/// use bytes::Bytes;
/// use limiter_axum::RejectionBody;
///
/// struct MyBody(Bytes);
///
/// impl RejectionBody for MyBody {
///     fn from_bytes(bytes: Bytes) -> Self {
///         Self(bytes)
///     }
/// }
/// ```
pub trait RejectionBody {
    /// Makes a body of all of `bytes`.
    fn from_bytes(bytes: Bytes) -> Self;
}

impl RejectionBody for Bytes {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes
    }
}

impl RejectionBody for Vec<u8> {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes.into()
    }
}

impl RejectionBody for Full<Bytes> {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(bytes)
    }
}

impl<E> RejectionBody for BoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes).map_err(|never| match never {}).boxed()
    }
}

impl<E> RejectionBody for UnsyncBoxBody<Bytes, E> {
    fn from_bytes(bytes: Bytes) -> Self {
        Full::new(bytes)
            .map_err(|never| match never {})
            .boxed_unsync()
    }
}

#[cfg(feature = "axum")]
impl RejectionBody for axum::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        bytes.into()
    }
}

#[cfg(feature = "tonic")]
impl RejectionBody for tonic::body::Body {
    fn from_bytes(bytes: Bytes) -> Self {
        Self::new(Full::new(bytes))
    }
}

//! [`MissingKey`]: what becomes of a request without a key.

/// What to do with a request that lacks what its limit goes by. There is never a key that strangers share.
///
/// This is about what is *missing*. A key that is there and wrong (two lines of a header, too long) is always 400: else a
/// client could step out of its limit by garbling it. A limit that is set up wrongly is always 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum MissingKey {
    /// Answer 400 Bad Request.
    #[default]
    BadRequest,
    /// Answer 401 Unauthorized: right for API keys and principals.
    Unauthorized,
    /// Answer 500 Internal Server Error: right where something before this layer always sets the key.
    ServerError,
    /// Let the request pass, unlimited by this layer.
    Skip,
}

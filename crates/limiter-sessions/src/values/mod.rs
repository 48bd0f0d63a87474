//! The values: each has one checked door.

mod bot_probability;
mod country;
mod fingerprint;
pub(crate) mod hex;
mod label;
mod nonce;
mod retention;
mod session_id;
mod severity;
mod visitor_ip;

pub use bot_probability::{BotProbability, InvalidProbability};
pub use country::{Country, InvalidCountry};
pub use fingerprint::{Fingerprint, InvalidFingerprint};
pub use label::{InvalidLabel, Label};
pub use nonce::{InvalidNonce, Nonce};
pub use retention::{InvalidRetention, Retention};
pub use session_id::{InvalidSessionId, SessionId};
pub use severity::{InvalidSeverity, Severity};
pub use visitor_ip::{InvalidIp, VisitorIp};

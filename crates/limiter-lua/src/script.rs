//! [`Script`]: a Lua script and its name on the server.

use std::sync::LazyLock;

/// A Lua script, and the SHA1 that a server knows it by.
///
/// # Examples
/// ```
/// use limiter_lua::Script;
///
/// for script in Script::ALL {
///     assert!(script.text().starts_with("-- "));
///     assert_eq!(script.sha1().len(), 40);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Script {
    /// Decides one request under one token bucket of the compact form.
    TokenBucket,
    /// Decides, peeks or refunds under any chain of plans.
    Chain,
    /// Records, reads, forgives or unblocks attempts under a policy.
    Abuse,
    /// Observes a visit, touches or ends a session.
    #[cfg(feature = "sessions")]
    Visit,
    /// Reads the signals of an address.
    #[cfg(feature = "sessions")]
    Signals,
    /// Puts a member into an index, or lists them.
    #[cfg(feature = "sessions")]
    Index,
    /// Takes an anomaly in, or reads the newest.
    #[cfg(feature = "sessions")]
    Feed,
}

static TOKEN_BUCKET_SHA1: LazyLock<String> = LazyLock::new(|| sha1_of(Script::TokenBucket));
static CHAIN_SHA1: LazyLock<String> = LazyLock::new(|| sha1_of(Script::Chain));
static ABUSE_SHA1: LazyLock<String> = LazyLock::new(|| sha1_of(Script::Abuse));
#[cfg(feature = "sessions")]
static VISIT_SHA1: LazyLock<String> = LazyLock::new(|| sha1_of(Script::Visit));
#[cfg(feature = "sessions")]
static SIGNALS_SHA1: LazyLock<String> = LazyLock::new(|| sha1_of(Script::Signals));
#[cfg(feature = "sessions")]
static INDEX_SHA1: LazyLock<String> = LazyLock::new(|| sha1_of(Script::Index));
#[cfg(feature = "sessions")]
static FEED_SHA1: LazyLock<String> = LazyLock::new(|| sha1_of(Script::Feed));

impl Script {
    /// Every script of the limiters, for those who load them beforehand.
    pub const ALL: [Self; 3] = [Self::TokenBucket, Self::Chain, Self::Abuse];
    /// Every script of sessions.
    #[cfg(feature = "sessions")]
    pub const SESSIONS: [Self; 4] = [Self::Visit, Self::Signals, Self::Index, Self::Feed];

    /// Returns the text, as `SCRIPT LOAD` takes it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TokenBucket => include_str!("token_bucket.lua"),
            Self::Chain => include_str!("chain.lua"),
            Self::Abuse => include_str!("abuse.lua"),
            #[cfg(feature = "sessions")]
            Self::Visit => include_str!("sessions/visit.lua"),
            #[cfg(feature = "sessions")]
            Self::Signals => include_str!("sessions/signals.lua"),
            #[cfg(feature = "sessions")]
            Self::Index => include_str!("sessions/index.lua"),
            #[cfg(feature = "sessions")]
            Self::Feed => include_str!("sessions/feed.lua"),
        }
    }

    /// Returns the SHA1 of the text in hexadecimal, as `EVALSHA` takes it.
    #[must_use]
    pub fn sha1(self) -> &'static str {
        match self {
            Self::TokenBucket => &TOKEN_BUCKET_SHA1,
            Self::Chain => &CHAIN_SHA1,
            Self::Abuse => &ABUSE_SHA1,
            #[cfg(feature = "sessions")]
            Self::Visit => &VISIT_SHA1,
            #[cfg(feature = "sessions")]
            Self::Signals => &SIGNALS_SHA1,
            #[cfg(feature = "sessions")]
            Self::Index => &INDEX_SHA1,
            #[cfg(feature = "sessions")]
            Self::Feed => &FEED_SHA1,
        }
    }
}

fn sha1_of(script: Script) -> String {
    sha1_smol::Sha1::from(script.text()).digest().to_string()
}

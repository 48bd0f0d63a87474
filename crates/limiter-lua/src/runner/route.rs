//! [`Route`]: where and how a job is to be sent.

/// Where and how a job is to be sent.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// Send the whole script: the server does not have it.
    pub with_text: bool,
    /// The node that the last one named instead of itself.
    pub redirect: Option<Redirect>,
}

impl Route {
    /// How a job is sent at first: by the script's name, to where the client thinks the key is.
    pub const FIRST: Self = Self {
        with_text: false,
        redirect: None,
    };
}

/// The node that another named instead of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Whether to send `ASKING` first: the slot is on its way there.
    pub asking: bool,
}

impl Redirect {
    /// Reads `host:port`, as a server writes it.
    #[must_use]
    pub fn to_node(address: &str, asking: bool) -> Option<Self> {
        let (host, port) = address.rsplit_once(':')?;
        let all_digits = port.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self {
            host: host.to_owned(),
            port: port.parse().ok().filter(|_| all_digits)?,
            asking,
        })
    }
}

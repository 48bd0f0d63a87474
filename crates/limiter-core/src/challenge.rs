//! [`Challenge`]: what a caller without a key is asked for.

use std::fmt;

/// One challenge of `WWW-Authenticate` (RFC 9110, section 11.6.1): what a caller who has no key may
/// send.
///
/// Values are quoted here, so that no text ends its parameter, adds another one or starts a line.
///
/// | input | answer |
/// |---|---|
/// | a scheme or a name that is no token: empty, `Bearer realm`, a line break | [`InvalidChallenge::Token`] |
/// | a value with anything but visible ASCII and spaces | [`InvalidChallenge::Value`] |
/// | a name twice, case apart | [`InvalidChallenge::Twice`] |
/// | quotes and backslashes in a value | escaped |
///
/// # Examples
/// ```
/// use limiter_core::Challenge;
///
/// let challenge = Challenge::new("Bearer")?.with_parameter("realm", "orders")?;
/// assert_eq!(challenge.to_string(), "Bearer realm=\"orders\"");
/// assert!(Challenge::new("Bearer\r\nSet-Cookie:").is_err());
/// # Ok::<(), limiter_core::InvalidChallenge>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Challenge {
    scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// Asks for credentials of `scheme`, such as `Bearer`.
    ///
    /// # Errors
    /// [`InvalidChallenge`] if it is no token.
    pub fn new(scheme: impl Into<String>) -> Result<Self, InvalidChallenge> {
        Ok(Self {
            scheme: token(scheme.into())?,
            parameters: Vec::new(),
        })
    }

    /// Asks for a bearer token, as RFC 6750 names it. That one wants a `realm` beside it, which the
    /// user knows.
    #[must_use]
    pub fn bearer() -> Self {
        Self {
            scheme: "Bearer".to_owned(),
            parameters: Vec::new(),
        }
    }

    /// Adds a parameter, such as `realm`.
    ///
    /// # Errors
    /// [`InvalidChallenge`] if the name is no token or is there already, or if the value cannot be
    /// written.
    pub fn with_parameter(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, InvalidChallenge> {
        let (name, value) = (token(name.into())?, value.into());
        let known = |(known, _): &(String, _)| known.eq_ignore_ascii_case(&name);
        if self.parameters.iter().any(known) {
            return Err(InvalidChallenge::Twice { name });
        }
        if !value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(InvalidChallenge::Value { name });
        }
        self.parameters.push((name, value));
        Ok(self)
    }
}

/// Writes the challenge as `WWW-Authenticate` holds it.
impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme)?;
        for (nth, (name, value)) in self.parameters.iter().enumerate() {
            let separator = if nth == 0 { " " } else { ", " };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            write!(f, "{separator}{name}=\"{value}\"")?;
        }
        Ok(())
    }
}

/// Checks a token (RFC 9110, section 5.6.2).
fn token(text: String) -> Result<String, InvalidChallenge> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(allowed) {
        let text = text.chars().take(64).collect();
        return Err(InvalidChallenge::Token { text });
    }
    Ok(text)
}

/// Says why a challenge cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidChallenge {
    /// A scheme, or the name of a parameter, is no token.
    #[error(
        "{text:?} is no scheme and no parameter: write one word, such as \"Bearer\" or \"realm\""
    )]
    Token {
        /// The text.
        text: String,
    },
    /// A value has other characters than visible ASCII and spaces.
    #[error(
        "value of {name} has characters that no header may have: write visible ASCII and spaces"
    )]
    Value {
        /// The parameter.
        name: String,
    },
    /// A parameter is there twice.
    #[error("{name} is there twice: write each parameter once")]
    Twice {
        /// The parameter.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parameters_are_quoted_and_told_once() {
        let challenge = Challenge::new("ApiKey")
            .and_then(|it| it.with_parameter("header", "x-api-key"))
            .and_then(|it| it.with_parameter("realm", "a \"b\", c\\"))
            .unwrap();
        let expected = r#"ApiKey header="x-api-key", realm="a \"b\", c\\""#;
        assert_eq!(challenge.to_string(), expected);
        let name = || "Realm".to_owned();
        assert_eq!(
            challenge.with_parameter(name(), "d"),
            Err(InvalidChallenge::Twice { name: name() })
        );
        assert_eq!(Challenge::bearer(), Challenge::new("Bearer").unwrap());
        let name = || "realm".to_owned();
        for value in ["a\r\nSet-Cookie: b", "a\tb", "\u{7f}", "caf\u{e9}"] {
            let refused = Challenge::bearer().with_parameter(name(), value);
            assert_eq!(refused, Err(InvalidChallenge::Value { name: name() }));
        }
    }

    /// Reads a value back, as RFC 9110, section 5.6.4 has it.
    fn unquoted(text: &str) -> Option<String> {
        let mut letters = text.strip_prefix('"')?.strip_suffix('"')?.chars();
        let mut value = String::new();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => value.push(letters.next()?),
                '"' => return None,
                _ => value.push(letter),
            }
        }
        Some(value)
    }

    proptest! {
        #[test]
        fn prop_no_text_becomes_more_than_its_value(value in "[ -~\\PC\r\n\t]{0,20}") {
            let allowed = value.chars().all(|letter| (' '..='~').contains(&letter));
            let challenge = Challenge::bearer().with_parameter("realm", &*value);
            prop_assert_eq!(challenge.is_ok(), allowed);
            if let Ok(challenge) = challenge {
                let text = challenge.to_string();
                let quoted = text.strip_prefix("Bearer realm=").and_then(unquoted);
                prop_assert_eq!(quoted, Some(value));
            }
        }

        #[test]
        fn prop_a_scheme_is_a_token(scheme in "[ -~\\PC\r\n]{0,6}") {
            let delimits = |letter: char| "\"(),/:;<=>?@[\\]{}".contains(letter);
            let allowed = |letter: char| ('!'..='~').contains(&letter) && !delimits(letter);
            let is_token = !scheme.is_empty() && scheme.chars().all(allowed);
            prop_assert_eq!(Challenge::new(scheme).is_ok(), is_token);
        }
    }
}

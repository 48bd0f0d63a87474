//! [`PathParameterKeyResolver`]: limits by a part of the path.

use limiter_core::{InvalidKey, Key, KeyResolver, RequestSource, UnresolvedKey};

use crate::HttpRequest;

/// Takes the key from a named part of the path: `tenant` of `/tenants/{tenant}/users`.
///
/// The value is percent-decoded, as handlers get it: `/tenants/a%63me` and `/tenants/acme` are one key. A route without that
/// part is a mistake of whoever set the limit up, and said so.
///
/// A path is held to be no secret, as servers and proxies write it into their logs: the value
/// reaches the store as it is. Where it is one, such as a code of an invitation,
/// [`hashed`](Self::hashed) hides it.
///
/// # Examples
/// ```
/// use limiter_axum::PathParameterKeyResolver;
///
/// let by_tenant = PathParameterKeyResolver::new("tenant");
/// let by_invitation = PathParameterKeyResolver::new("code").hashed();
/// ```
#[derive(Clone, Debug)]
pub struct PathParameterKeyResolver {
    name: String,
    hashed: bool,
}

impl PathParameterKeyResolver {
    /// Resolves by the part called `name`, without braces.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            hashed: false,
        }
    }

    /// Takes [`Key::of_secret`] of the value for the key: for a part that is a secret nobody can
    /// guess.
    #[must_use]
    pub const fn hashed(mut self) -> Self {
        self.hashed = true;
        self
    }

    fn key_of(&self, value: Vec<u8>) -> Result<Key, InvalidKey> {
        if self.hashed && !value.is_empty() {
            return Ok(Key::of_secret(value));
        }
        Key::new(value)
    }

    fn what(&self) -> String {
        format!("path parameter {}", self.name)
    }
}

impl KeyResolver for PathParameterKeyResolver {
    fn resolve(&self, request: &dyn RequestSource) -> Result<Key, UnresolvedKey> {
        let missing = || UnresolvedKey::Missing { what: self.what() };
        let template = request.route().ok_or_else(missing)?;
        let request = HttpRequest::seen_in(request).ok_or_else(missing)?;
        if !has_parameter(template, &self.name) {
            let advice = format!(
                "the limit goes by {}, which route {template} does not have",
                self.what()
            );
            return Err(UnresolvedKey::Misconfigured { advice });
        }
        let value = parameter(template, request.path(), &self.name).ok_or_else(missing)?;
        self.key_of(percent_decoded(value))
            .map_err(|cause| UnresolvedKey::Invalid {
                what: self.what(),
                cause,
            })
    }
}

/// What a segment of a template stands for.
enum Segment<'a> {
    Literal,
    One(&'a str),
    Rest(&'a str),
}

fn segment(text: &str) -> Segment<'_> {
    let inner = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    match inner {
        Some(name) if name.starts_with('{') => Segment::Literal,
        Some(name) => name
            .strip_prefix('*')
            .map_or(Segment::One(name), Segment::Rest),
        None => Segment::Literal,
    }
}

fn has_parameter(template: &str, wanted: &str) -> bool {
    template.split('/').any(|text| match segment(text) {
        Segment::One(name) | Segment::Rest(name) => name == wanted,
        Segment::Literal => false,
    })
}

/// Finds the raw value of `wanted`, walking the template and the path that it matched side by side.
fn parameter<'a>(template: &str, path: &'a str, wanted: &str) -> Option<&'a str> {
    let mut rest = Some(path);
    for text in template.split('/') {
        let path = rest?;
        if let Segment::Rest(name) = segment(text) {
            return (name == wanted).then_some(path);
        }
        let (value, after) = match path.split_once('/') {
            Some((value, after)) => (value, Some(after)),
            None => (path, None),
        };
        if matches!(segment(text), Segment::One(name) if name == wanted) {
            return Some(value);
        }
        rest = after;
    }
    None
}

/// Undoes percent-encoding; a stray percent sign stays.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return decoded,
            [b'%', high, low, after @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
                let byte = hex(*high).unwrap_or(0) << 4 | hex(*low).unwrap_or(0);
                decoded.push(byte);
                after
            }
            [byte, after @ ..] => {
                decoded.push(*byte);
                after
            }
        };
    }
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_part_is_found_beside_others() {
        let template = "/t/{tenant}/users/{user}/{*rest}";
        let path = "/t/acme/users/42/a/b";
        assert_eq!(parameter(template, path, "tenant"), Some("acme"));
        assert_eq!(parameter(template, path, "user"), Some("42"));
        assert_eq!(parameter(template, path, "rest"), Some("a/b"));
        assert_eq!(parameter(template, path, "users"), None);
        assert_eq!(parameter("/{{x}}/{y}", "/{x}/1", "y"), Some("1"));
        assert!(!has_parameter("/{{x}}", "x") && !has_parameter("/{{x}}", "{x}"));
    }

    #[test]
    fn encoded_and_plain_are_one_value() {
        assert_eq!(percent_decoded("a%63me%2F%2f"), b"acme//");
        assert_eq!(percent_decoded("50%"), b"50%");
        assert_eq!(percent_decoded("%zz%4"), b"%zz%4");
    }
}

//! [`PlanName`]: the name of a plan.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The name of a plan: a letter, then up to 63 letters, digits, `.`, `_` or `-`.
///
/// Names are compared without regard to case, as the HTTP fields that carry them are, and are shown as they were written.
///
/// | input | answer |
/// |---|---|
/// | `gold`, `per-user.v2_b` | the name |
/// | empty, `9lives`, `-x`, `a b`, `größe`, more than 64 bytes | [`InvalidPlanName`] |
///
/// # Examples
/// ```
/// use limiter_core::PlanName;
///
/// let name = PlanName::new("Gold")?;
/// assert_eq!(name, PlanName::new("gold")?);
/// assert_eq!(name.as_str(), "Gold");
/// assert!(PlanName::new("9lives").is_err());
/// # Ok::<(), limiter_core::InvalidPlanName>(())
/// ```
#[derive(Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "String", into = "String")
)]
pub struct PlanName {
    /// The first letters, which are all there is of most names: enough to compare them without a look at the text.
    head: Head,
    text: Arc<str>,
}

/// The first eight letters of a name, in lower case and zeros behind, as a number: heads are in the order of their names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head(u64);

impl Head {
    fn of(name: &str) -> Self {
        let mut letters = [0; size_of::<u64>()];
        for (place, letter) in letters.iter_mut().zip(name.bytes()) {
            *place = letter.to_ascii_lowercase();
        }
        Self(u64::from_be_bytes(letters))
    }

    /// Says whether this is the whole name: there is a zero behind it.
    const fn is_whole(self) -> bool {
        self.0.to_be_bytes()[7] == 0
    }
}

impl PlanName {
    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 64;

    /// Checks and keeps `name`.
    ///
    /// # Errors
    /// [`InvalidPlanName`] if `name` is not a letter followed by up to 63 letters, digits, `.`, `_` or `-`.
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidPlanName> {
        let name = name.as_ref();
        let mut bytes = name.bytes();
        let starts_well = bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic());
        let goes_on_well = bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if starts_well && goes_on_well && name.len() <= Self::MAX_LEN {
            Ok(Self {
                head: Head::of(name),
                text: name.into(),
            })
        } else {
            Err(InvalidPlanName {
                name: name.chars().take(Self::MAX_LEN).collect(),
            })
        }
    }

    /// Returns the name as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Compares all letters. Not inlined: few names need it, and where names are compared the code stays short.
    #[inline(never)]
    fn cmp_whole(&self, other: &Self) -> Ordering {
        if self.text == other.text {
            return Ordering::Equal;
        }
        let lower = |byte: u8| byte.to_ascii_lowercase();
        let letters = self.text.bytes().map(lower);
        letters.cmp(other.text.bytes().map(lower))
    }
}

impl fmt::Debug for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl PartialEq for PlanName {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PlanName {}

impl Hash for PlanName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.text.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
        state.write_u8(0xff);
    }
}

impl PartialOrd for PlanName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PlanName {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_head = self.head.cmp(&other.head);
        if by_head.is_ne() || self.head.is_whole() {
            return by_head;
        }
        self.cmp_whole(other)
    }
}

impl std::str::FromStr for PlanName {
    type Err = InvalidPlanName;

    fn from_str(text: &str) -> Result<Self, InvalidPlanName> {
        Self::new(text)
    }
}

impl TryFrom<&str> for PlanName {
    type Error = InvalidPlanName;

    fn try_from(text: &str) -> Result<Self, InvalidPlanName> {
        Self::new(text)
    }
}

impl TryFrom<String> for PlanName {
    type Error = InvalidPlanName;

    fn try_from(text: String) -> Result<Self, InvalidPlanName> {
        Self::new(text)
    }
}

impl TryFrom<&PlanName> for PlanName {
    type Error = InvalidPlanName;

    fn try_from(name: &PlanName) -> Result<Self, InvalidPlanName> {
        Ok(name.clone())
    }
}

impl From<PlanName> for String {
    fn from(name: PlanName) -> Self {
        name.as_str().to_owned()
    }
}

/// Says that a text is no [`PlanName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "plan name {name:?} is not allowed: a name is a letter, then up to 63 letters, digits, '.', '_' or '-', such as \"gold\""
)]
pub struct InvalidPlanName {
    name: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn names_of_the_allowed_form_are_kept() {
        for name in ["a", "Gold", "per-user.v2_b", &"x".repeat(64)] {
            assert_eq!(PlanName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "",
            "9lives",
            "-x",
            ".x",
            "a b",
            "a:b",
            "{a}",
            "größe",
            "a\n",
            &"x".repeat(65),
        ] {
            assert!(PlanName::new(name).is_err(), "{name:?} was accepted");
        }
    }

    #[test]
    fn case_makes_no_other_name() {
        let names: HashSet<_> = ["gold", "GOLD", "Gold"]
            .map(|name| PlanName::new(name).unwrap())
            .into();
        assert_eq!(names.len(), 1);
        assert!(PlanName::new("Alpha").unwrap() < PlanName::new("beta").unwrap());
    }

    proptest! {
        /// Few letters and lengths about that of a head, so that names are often the same, or the same up to there.
        #[test]
        fn prop_names_are_in_the_order_of_their_letters_in_lower_case(
            one in "[aA][a-bA.]{0,2}[aA]{0,8}[bB_]{0,1}",
            other in "[aA][a-bA.]{0,2}[aA]{0,8}[bB_]{0,1}",
        ) {
            let (a, b) = (PlanName::new(&one).unwrap(), PlanName::new(&other).unwrap());
            let by_letters = one.to_ascii_lowercase().cmp(&other.to_ascii_lowercase());
            prop_assert_eq!(a.cmp(&b), by_letters);
            prop_assert_eq!(a == b, by_letters.is_eq());
        }
    }
}

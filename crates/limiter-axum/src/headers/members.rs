//! One member a plan, where several layers or charges of a request tell of the same one.

use std::cmp::Reverse;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::retry_after::whole_number;
use super::{RATELIMIT, RATELIMIT_POLICY};

/// Adds both lines to those that are there, with one member a name, case apart.
///
/// A plan that was charged twice, perhaps to different keys, would be there twice. Of its members the one stays that leaves less:
/// that is the one the client has to keep to. Where nothing is there twice, and where lines of others cannot be read, both are
/// simply added, as lists may be spread over several lines.
pub(super) fn add(policy: HeaderValue, limit: HeaderValue, headers: &mut HeaderMap) {
    if merge(&policy, &limit, headers).is_none() {
        headers.append(RATELIMIT_POLICY, policy);
        headers.append(RATELIMIT, limit);
    }
}

/// Returns nothing, and does nothing, if no member is there twice.
fn merge(policy: &HeaderValue, limit: &HeaderValue, headers: &mut HeaderMap) -> Option<()> {
    let (there, new) = (all(headers, &RATELIMIT)?, read(limit)?);
    let named_alike = |member: &Member| new.iter().find(|new| new.is_named_as(member.name()));
    let twice = there
        .iter()
        .filter_map(|old| Some((old, named_alike(old)?)));
    let (replaced, dropped): (Vec<_>, Vec<_>) =
        twice.partition(|(old, new)| new.tightness() < old.tightness());
    if replaced.is_empty() && dropped.is_empty() {
        return None;
    }
    let merged = |field: HeaderName, line| {
        let stays = |member: &Member, gone: &[(&Member, &Member)]| {
            !gone.iter().any(|(old, _)| member.is_named_as(old.name()))
        };
        let old = all(headers, &field)?.into_iter();
        let old = old.filter(|member| stays(member, &replaced));
        let new = read(line)?.into_iter();
        joined(old.chain(new.filter(|member| stays(member, &dropped))))
    };
    let policies = merged(RATELIMIT_POLICY, policy)?;
    let limits = merged(RATELIMIT, limit)?;
    headers.insert(RATELIMIT_POLICY, policies);
    headers.insert(RATELIMIT, limits);
    Some(())
}

/// A member of either field, as it is written: `"gold";r=9;t=9`.
struct Member(String);

impl Member {
    fn name(&self) -> &str {
        self.0.split(';').next().unwrap_or_default().trim()
    }

    fn is_named_as(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name)
    }

    /// The smaller, the less may be spent, and the longer that lasts.
    fn tightness(&self) -> (u64, Reverse<u64>) {
        let left = self.parameter("r=").unwrap_or(u64::MAX);
        (left, Reverse(self.parameter("t=").unwrap_or(0)))
    }

    fn parameter(&self, name: &str) -> Option<u64> {
        let mut parameters = self.0.split(';').skip(1);
        parameters.find_map(|it| whole_number(it.trim().strip_prefix(name)?))
    }
}

/// Reads all lines of a field.
fn all(headers: &HeaderMap, field: &HeaderName) -> Option<Vec<Member>> {
    let lines = headers.get_all(field).iter().map(read);
    let lines: Option<Vec<Vec<Member>>> = lines.collect();
    Some(lines?.into_iter().flatten().collect())
}

/// Splits a line at its commas; those between quotes do not split. Empty elements are ignored.
fn read(line: &HeaderValue) -> Option<Vec<Member>> {
    let mut quoted = false;
    let members = line.to_str().ok()?.split(|letter| {
        quoted ^= letter == '"';
        letter == ',' && !quoted
    });
    let members = members.map(str::trim).filter(|member| !member.is_empty());
    Some(members.map(|member| Member(member.to_owned())).collect())
}

fn joined(members: impl Iterator<Item = Member>) -> Option<HeaderValue> {
    let members: Vec<String> = members.map(|member| member.0).collect();
    HeaderValue::try_from(members.join(", ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds to lines that are there, and returns both fields.
    fn added(there: &[(&'static str, &'static str)], new: (&str, &str)) -> [Vec<String>; 2] {
        let mut headers = HeaderMap::new();
        for (policy, limit) in there {
            headers.append(RATELIMIT_POLICY, HeaderValue::from_static(policy));
            headers.append(RATELIMIT, HeaderValue::from_static(limit));
        }
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        add(value(new.0), value(new.1), &mut headers);
        [RATELIMIT_POLICY, RATELIMIT].map(|field| {
            let lines = headers.get_all(field).iter();
            lines
                .map(|line| line.to_str().unwrap().to_owned())
                .collect()
        })
    }

    #[test]
    fn of_two_members_with_one_name_the_tighter_stays_in_both_fields() {
        let there = (r#""a";q=5, "b";q=9;w=1"#, r#""a";r=1;t=3, "b";r=9"#);
        for (new, expected) in [
            // Less is left, in any case of letters.
            (
                (r#""A";q=4"#, r#""A";r=0;t=3"#),
                (r#""b";q=9;w=1, "A";q=4"#, r#""b";r=9, "A";r=0;t=3"#),
            ),
            // As much is left, for longer.
            (
                (r#""a";q=4"#, r#""a";r=1;t=4"#),
                (r#""b";q=9;w=1, "a";q=4"#, r#""b";r=9, "a";r=1;t=4"#),
            ),
            // The same, or more: what is there stays; what is new beside it is added.
            ((r#""a";q=4"#, r#""a";r=1;t=3"#), there),
            (
                (r#""a";q=4, "c";q=1"#, r#""a";r=2;t=9, "c";r=1"#),
                (
                    r#""a";q=5, "b";q=9;w=1, "c";q=1"#,
                    r#""a";r=1;t=3, "b";r=9, "c";r=1"#,
                ),
            ),
        ] {
            let expected = [vec![expected.0.to_owned()], vec![expected.1.to_owned()]];
            assert_eq!(added(&[there], new), expected);
        }
    }

    /// RFC 9110, section 5.6.1.2; a structured field with such an element would not be read at all.
    #[test]
    fn empty_elements_and_lines_are_not_written_again() {
        let new = (r#""a";q=4"#, r#""a";r=0;t=3"#);
        for there in [
            &[(r#""a";q=5, "b";q=9,"#, r#", "a";r=1 ,, "b";r=9"#)][..],
            &[(r#""a";q=5, "b";q=9"#, r#""a";r=1, "b";r=9"#), ("", " ")][..],
        ] {
            let expected = [r#""b";q=9, "a";q=4"#, r#""b";r=9, "a";r=0;t=3"#];
            assert_eq!(
                added(there, new),
                expected.map(|line| vec![line.to_owned()])
            );
        }
    }

    #[test]
    fn other_names_and_what_cannot_be_read_are_left_as_they_are() {
        for there in [
            (r#""a";q=5"#, r#""a";r=1"#),
            (r#""x, \"b\"";q=5"#, r#""x, \"b\"";r=1"#),
        ] {
            let expected = [
                vec![there.0.to_owned(), r#""b";q=1"#.to_owned()],
                vec![there.1.to_owned(), r#""b";r=1"#.to_owned()],
            ];
            assert_eq!(added(&[there], (r#""b";q=1"#, r#""b";r=1"#)), expected);
        }
    }
}

//! `Retry-After`: never earlier than the truth.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderValue};

/// The largest integer of a structured field (RFC 9651, section 3.3.1).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Reads an integer of a field: digits and nothing else, not even a sign, which no field that is read here may have.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all_digits)
}

/// Rounds a wait up to whole seconds, and to at least one.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    let begun = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(begun).clamp(1, MAX_INTEGER)
}

/// Sets the field, unless it is there with a longer wait. A date is left as it is.
pub(crate) fn keep_longest(seconds: u64, headers: &mut HeaderMap) {
    let longer = match headers.get(RETRY_AFTER).map(HeaderValue::to_str) {
        Some(Ok(text)) => whole_number(text).is_none_or(|there| there >= seconds),
        Some(Err(_)) | None => false,
    };
    if !longer {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wait_is_rounded_up_and_never_zero() {
        for (nanos, seconds) in [
            (0, 1),
            (1, 1),
            (900_000_000, 1),
            (1_000_000_000, 1),
            (1_000_000_001, 2),
            (1_875_000_000, 2),
        ] {
            assert_eq!(whole_seconds(Duration::from_nanos(nanos)), seconds);
        }
        assert_eq!(whole_seconds(Duration::MAX), MAX_INTEGER);
    }

    #[test]
    fn a_number_is_digits_alone() {
        assert_eq!(whole_number("07"), Some(7));
        for text in ["", "+7", "-7", " 7", "7.0", "99999999999999999999"] {
            assert_eq!(whole_number(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_longer_wait_stays() {
        let mut headers = HeaderMap::new();
        for (seconds, left) in [(5, "5"), (2, "5"), (9, "9")] {
            keep_longest(seconds, &mut headers);
            assert_eq!(headers[RETRY_AFTER], left);
        }
        let date = "Fri, 31 Dec 1999 23:59:59 GMT";
        headers.insert(RETRY_AFTER, HeaderValue::from_static(date));
        keep_longest(7, &mut headers);
        assert_eq!(headers[RETRY_AFTER], date);
    }

    proptest! {
        #[test]
        fn prop_retry_after_is_never_before_the_truth(micros in 0_u64..(1 << 52)) {
            let wait = Duration::from_micros(micros);
            let told = Duration::from_secs(whole_seconds(wait));
            prop_assert!(told >= wait && told >= Duration::from_secs(1));
            prop_assert!(told <= wait + Duration::from_secs(1));
        }
    }
}

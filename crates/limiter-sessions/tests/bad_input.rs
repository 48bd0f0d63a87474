//! What is no good is refused at the door, with an error that says what would be good.
#![cfg(test)]

use std::str::FromStr;
use std::time::Duration;

use limiter_sessions::{
    BotProbability, Country, Fingerprint, Label, Nonce, Retention, SessionId, Severity, VisitorIp,
};

/// Checks that every input is refused, with an error that holds `advice` and nothing of the input.
fn refuses<T: FromStr<Err: std::error::Error>>(inputs: &[&str], advice: &str) {
    for input in inputs {
        let Err(error) = input.parse::<T>() else {
            panic!("{input:?} was taken")
        };
        let text = error.to_string();
        assert!(text.contains(advice), "{input:?}: {text}");
        assert!(
            input.len() < 5 || !text.contains(input),
            "{text} shows the input"
        );
    }
}

#[test]
fn fingerprints() {
    let (short, long) = ("a".repeat(63), "a".repeat(65));
    refuses::<Fingerprint>(&["", "ab", &short, &long], "64 hexadecimal digits");
    let bad: Vec<String> = ["g", " ", "-", "\n", "\0", ":"]
        .iter()
        .map(|bad| format!("{}{bad}", "a".repeat(63)))
        .collect();
    refuses::<Fingerprint>(
        &bad.iter().map(String::as_str).collect::<Vec<_>>(),
        "0-9, a-f",
    );
    // 64 bytes, but not 64 digits.
    refuses::<Fingerprint>(&[&"é".repeat(32), &"٣".repeat(32)], "0-9, a-f");
}

#[test]
fn nonces() {
    let long = "a".repeat(101);
    refuses::<Nonce>(&["", &long], "1 to 100");
    refuses::<Nonce>(
        &[
            "a b", "a_b", "a.b", "a:b", "a{b}", "a\n", "\0", "é", "Ⅷ", "٣", "a*",
        ],
        "A-Z, a-z, 0-9 and -",
    );
    for sound in ["a", "-", "0", "Az-09", &"x".repeat(100)] {
        assert_eq!(
            Nonce::new(sound).map(|nonce| nonce.as_str().to_owned()),
            Ok(sound.to_owned())
        );
    }
}

#[test]
fn addresses() {
    refuses::<VisitorIp>(
        &[
            "",
            "localhost",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "01.2.3.4",
            "1.2.3.4:80",
            "[::1]",
            "fe80::1%eth0",
            "1.2.3.4/8",
            " 1.2.3.4",
            "::g",
        ],
        "without port or zone",
    );
    refuses::<VisitorIp>(
        &["0.0.0.0", "::", "::ffff:0.0.0.0", "224.0.0.1", "ff02::1"],
        "listener",
    );
    let v4: VisitorIp = "203.0.113.9".parse().unwrap();
    assert_eq!("::ffff:203.0.113.9".parse(), Ok(v4));
}

#[test]
fn severities_countries_labels_and_ids() {
    refuses::<Severity>(
        &["", "HIGH", "severe", "high!", "5"],
        "low, medium, high or critical",
    );
    refuses::<Country>(&["", "D", "DEU", "D1", "é", "1"], "ISO 3166-1");
    let long = "a".repeat(65);
    refuses::<Label>(&["", "a b", "a:b", "{a}", "é", &long], "1 to 64");
    refuses::<SessionId>(
        &[
            "",
            "123e4567e89b12d3a456426614174000",
            "{123e4567-e89b-12d3-a456-426614174000}",
            "123e4567-e89b-12d3-a456-42661417400g",
            "123e4567-e89b-12d3-a456-42661417400",
            "123e45678e89b-12d3-a456-426614174000-",
            "123e4567-e89b-12d3-a456-4266141740é0",
        ],
        "no UUID",
    );
    for severity in Severity::ALL {
        assert_eq!(severity.as_str().parse(), Ok(severity));
    }
}

#[test]
fn numbers() {
    for bad in [-0.1, 1.000_001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(BotProbability::from_fraction(bad).is_err(), "{bad}");
    }
    assert_eq!(
        BotProbability::from_fraction(1.0),
        Ok(BotProbability::CERTAIN)
    );
    assert_eq!(
        BotProbability::from_fraction(0.45).map(BotProbability::ppm),
        Ok(450_000)
    );
    assert!(BotProbability::from_ppm(1_000_001).is_err());
    assert_eq!(BotProbability::mean(7, 2).map(BotProbability::ppm), Some(3));
    assert_eq!(BotProbability::mean(0, 0), None);
    let day = Duration::from_secs(86_400);
    for bad in [
        Duration::ZERO,
        Duration::from_millis(999),
        day * 367,
        Duration::MAX,
    ] {
        assert!(Retention::new(bad).is_err(), "{bad:?}");
    }
    for sound in [Duration::from_secs(1), day, day * 366] {
        assert_eq!(Retention::new(sound).map(Retention::get), Ok(sound));
    }
}

#[test]
fn nothing_of_a_visitor_shows_in_debug_output() {
    let fingerprint = "ab".repeat(32);
    let visit =
        limiter_sessions::Visit::new(fingerprint.parse().unwrap(), "203.0.113.9".parse().unwrap());
    let shown = format!("{visit:?} {:?}", Nonce::new("secret-nonce").unwrap());
    for secret in [fingerprint.as_str(), "203.0.113", "171", "secret"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

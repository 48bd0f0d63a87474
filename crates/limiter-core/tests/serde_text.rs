//! Plans in configuration files.

#![cfg(feature = "serde")]

use limiter_core::{Cost, Limit, Plan, PlanName};

#[test]
fn plans_are_read_from_and_written_as_text() {
    let json = r#"{"name":"gold","limit":"10/s burst 20","enforcement":"shadow"}"#;
    let plan: Plan = serde_json::from_str(json).unwrap();
    assert_eq!(
        plan,
        Plan::new("gold", "10/s burst 20").unwrap().in_shadow()
    );
    assert_eq!(serde_json::to_string(&plan).unwrap(), json);
}

#[test]
fn enforcement_may_be_left_out_and_unknown_fields_may_not_be_there() {
    let plan: Plan = serde_json::from_str(r#"{"name":"gold","limit":"10/s"}"#).unwrap();
    assert!(plan.is_enforced());
    assert!(serde_json::from_str::<Plan>(r#"{"name":"gold","limit":"10/s","brust":3}"#).is_err());
}

#[test]
fn bad_values_are_refused_with_the_reason() {
    let error = serde_json::from_str::<Limit>(r#""0/s""#).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("rate is 0: 1 to 1000000000 is allowed"),
        "{error}"
    );
    assert!(serde_json::from_str::<PlanName>(r#""a b""#).is_err());
    assert!(serde_json::from_str::<Cost>("0").is_err());
    assert_eq!(
        serde_json::from_str::<Cost>("5").unwrap(),
        Cost::new(5).unwrap()
    );
}

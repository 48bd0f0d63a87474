//! Each deliberate fault of a store is caught by the law that is named after it.

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use limiter_testkit::state_machine::{History, histories, replay};
use limiter_testkit::{block_on, laws};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use support::{Fault, MathStore};

/// Makes a test that a law holds for a right store, and fails for a faulty one.
macro_rules! caught {
    ($($test:ident: $fault:ident by $($law:ident),+;)*) => {$(
        #[test]
        fn $test() {
            $(
                block_on(laws::$law(&MathStore::with(Fault::None)));
                let faulty = MathStore::with(Fault::$fault);
                let broken = catch_unwind(AssertUnwindSafe(|| block_on(laws::$law(&faulty))));
                assert!(broken.is_err(), "{} does not notice", stringify!($law));
            )+
        }
    )*};
}

caught! {
    one_token_more_is_caught: OneTokenMore by full_bucket_admits_exactly_its_capacity_at_one_instant,
        racing_callers_never_overspend, changed_limit_keeps_what_was_spent;
    charge_on_denial_is_caught: ChargesOnDenial by denied_call_leaves_state_unchanged,
        denied_chain_charges_no_plan;
    wait_too_long_is_caught: WaitTooLong by retry_after_of_a_token_bucket_is_exact,
        retry_after_of_a_sliding_window_is_exact, retry_after_of_a_fixed_window_is_exact,
        retry_after_of_a_suppressing_window_is_exact, retry_after_of_a_chain_is_when_all_admit;
    wait_too_short_is_caught: WaitTooShort by retry_after_of_a_token_bucket_is_exact,
        retry_after_of_a_sliding_window_is_exact, retry_after_of_a_fixed_window_is_exact,
        retry_after_of_a_suppressing_window_is_exact, retry_after_of_a_chain_is_when_all_admit;
    check_then_act_is_caught: ChecksThenActs by racing_callers_never_overspend,
        racing_chains_never_overspend, racing_callers_of_fresh_keys_never_overspend;
    floored_refill_is_caught: FloorsRefill by polling_never_starves_a_slow_refill;
    mixed_up_keys_are_caught: MixesKeysUp by distinct_keys_never_share_state;
    partly_charged_chain_is_caught: ChargesPartOfAChain by denied_chain_charges_no_plan;
    memory_that_is_never_freed_is_caught: NeverForgets by nothing_of_an_idle_key_stays_behind;
    memory_that_is_freed_too_early_is_caught: ForgetsAll by forgetting_takes_nothing_that_still_counts,
        key_stays_as_long_as_any_of_its_plans;
    state_lost_on_a_plan_change_is_caught: ForgetsOnChange by changed_limit_keeps_what_was_spent,
        plan_change_never_grants, changed_algorithm_restarts_and_says_so;
    state_lost_on_a_clock_step_is_caught: FollowsTheClockBack by clock_step_back_denies_nothing;
    answers_out_of_order_are_caught: SortsAnswers by answer_has_one_verdict_per_plan_in_order;
    clamped_cost_is_caught: ClampsCost by cost_that_is_too_large_is_refused_and_charges_nothing;
    boundless_refund_is_caught: RefundsWithoutBound by refund_gives_back_at_most_what_was_charged;
    forgotten_earlier_refund_is_caught: ForgetsEarlierRefunds by partial_refunds_add_up;
    refund_of_what_came_back_is_caught: RefundsWhatCameBack by refund_of_what_has_returned_gives_nothing,
        refund_gives_nothing_that_was_refilled, refund_after_a_whole_window_gives_nothing;
    refund_of_the_uncharged_is_caught: RefundsTheUncharged by plan_that_was_not_charged_gets_nothing_back;
    enforced_shadow_is_caught: EnforcesShadows by shadow_plan_reports_and_never_denies;
    unobserved_denial_is_caught: IgnoresDenied by suppressing_window_observes_denied_requests;
    case_of_names_is_caught: MindsCase by plan_names_ignore_case;
}

/// The comparison with the model alone notices every fault that a single caller can see.
#[test]
fn faults_that_one_caller_can_see_differ_from_the_model() {
    let seen = [
        Fault::OneTokenMore,
        Fault::ChargesOnDenial,
        Fault::WaitTooLong,
        Fault::WaitTooShort,
        Fault::FloorsRefill,
        Fault::ChargesPartOfAChain,
        Fault::ForgetsAll,
        Fault::ForgetsOnChange,
        Fault::FollowsTheClockBack,
        Fault::SortsAnswers,
        Fault::ClampsCost,
        Fault::RefundsWithoutBound,
        Fault::ForgetsEarlierRefunds,
        Fault::RefundsWhatCameBack,
        Fault::RefundsTheUncharged,
        Fault::EnforcesShadows,
        Fault::IgnoresDenied,
    ];
    let mut runner = TestRunner::deterministic();
    let random: Vec<History> = (0..300)
        .map(|_| histories().new_tree(&mut runner).unwrap().current())
        .collect();
    for fault in seen {
        let differs = |history| block_on(replay(&MathStore::with(fault), history)).is_err();
        assert!(random.iter().any(differs), "{fault:?} is not noticed");
    }
}

/// Every public law is one of the tests that the macro makes.
#[test]
fn macro_names_every_law() {
    let adopted = include_str!("../src/store_laws.rs");
    let sources = [
        include_str!("../src/laws/algorithms.rs"),
        include_str!("../src/laws/answer.rs"),
        include_str!("../src/laws/atomicity.rs"),
        include_str!("../src/laws/chain.rs"),
        include_str!("../src/laws/clock.rs"),
        include_str!("../src/laws/denial.rs"),
        include_str!("../src/laws/expiry.rs"),
        include_str!("../src/laws/giving_back.rs"),
        include_str!("../src/laws/identity.rs"),
        include_str!("../src/laws/plan_change.rs"),
        include_str!("../src/laws/promise.rs"),
    ];
    for source in sources {
        for law in source.split("pub async fn ").skip(1) {
            let name = law.split('(').next().unwrap();
            assert!(
                adopted.contains(&format!(" {name}\n")),
                "{name} is not adopted"
            );
        }
    }
}

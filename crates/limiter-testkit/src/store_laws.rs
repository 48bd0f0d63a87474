//! [`store_laws!`](crate::store_laws): every law as a test, in one line.

/// Makes a test of every law, and of the comparison with the model, for the store that an expression makes.
///
/// The expression makes a [`StoreUnderTest`](crate::StoreUnderTest) and is run anew for each test, on a tokio runtime; it
/// may `.await`. With `cases = n`, the comparison with the model replays `n` histories and not
/// [`DEFAULT_CASES`](crate::state_machine::DEFAULT_CASES); the environment variable `PROPTEST_CASES` beats both.
/// Nothing but `limiter-testkit` is needed among the dev-dependencies. Seeds of failures are kept in
/// `proptest-regressions/` of the package that runs the laws: commit them.
///
/// # Examples
/// The whole of a store's `tests/laws.rs`:
/// ```
/// use limiter_testkit::ModelStore;
///
/// limiter_testkit::store_laws!(ModelStore::new());
/// ```
/// Side by side for two set-ups, with more histories:
/// ```
/// # use limiter_testkit::ModelStore;
/// mod standalone {
///     limiter_testkit::store_laws!(super::ModelStore::new(), cases = 500);
/// }
/// ```
#[macro_export]
macro_rules! store_laws {
    ($make:expr $(,)?) => {
        $crate::store_laws!($make, cases = $crate::state_machine::DEFAULT_CASES);
    };
    ($make:expr, cases = $cases:expr $(,)?) => {
        $crate::__law_tests! { $make;
            racing_callers_never_overspend
            racing_chains_never_overspend
            racing_chains_in_opposite_orders_never_overspend
            racing_callers_of_fresh_keys_never_overspend
            racing_refunds_never_give_back_more_than_was_spent
            a_dropped_call_takes_effect_at_most_once
            denied_call_leaves_state_unchanged
            denied_requests_do_not_postpone_the_next_admission
            peek_changes_nothing
            peek_foretells_the_next_call
            cost_that_is_too_large_is_refused_and_charges_nothing
            call_without_plans_is_refused
            plan_named_twice_is_refused_and_changes_nothing
            chain_that_is_too_long_is_refused_and_changes_nothing
            outlived_state_equals_no_state
            forgetting_takes_nothing_that_still_counts
            key_stays_as_long_as_any_of_its_plans
            nothing_of_an_idle_key_stays_behind
            calls_that_spend_nothing_leave_nothing_behind
            answer_has_one_verdict_per_plan_in_order
            numbers_of_an_answer_are_exact
            retry_after_of_a_token_bucket_is_exact
            retry_after_of_a_sliding_window_is_exact
            retry_after_of_a_fixed_window_is_exact
            retry_after_of_a_suppressing_window_is_exact
            retry_after_of_a_chain_is_when_all_admit
            retry_after_is_when_this_very_cost_fits
            retry_after_holds_while_the_clock_is_behind
            clock_step_back_grants_nothing
            clock_step_back_denies_nothing
            spending_while_the_clock_is_behind_counts_from_the_latest_time
            clock_step_back_before_the_first_request_is_harmless
            all_keys_share_one_time
            changed_limit_keeps_what_was_spent
            plan_change_never_grants
            changed_rate_counts_from_the_last_charge
            changed_burst_keeps_the_whole_debt
            outlived_state_of_a_changed_plan_is_no_state
            same_rate_in_other_numbers_is_no_change
            changed_window_counts_from_when_units_came
            changed_window_forgets_nothing_of_a_longer_one
            changed_fixed_window_forgets_nothing_of_a_longer_one
            changed_algorithm_restarts_and_says_so
            outlived_state_of_another_algorithm_is_no_restart
            denied_chain_charges_no_plan
            admitted_chain_charges_every_plan
            order_of_a_chain_does_not_matter
            shadow_plan_reports_and_never_denies
            shadow_plan_is_charged_as_if_enforced
            refund_gives_back_at_most_what_was_charged
            only_a_charge_tells_its_moment
            charge_while_the_clock_is_behind_counts_from_the_latest_time
            refund_takes_units_out_of_their_sub_bucket
            units_after_a_refund_hold_no_older_ones_back
            refund_after_a_whole_window_gives_nothing
            refund_gives_nothing_that_was_refilled
            refund_keeps_the_fraction_of_a_token
            partial_refunds_add_up
            refund_of_what_has_returned_gives_nothing
            refund_where_nothing_is_spent_changes_nothing
            refund_reaches_every_charged_plan
            plan_that_was_not_charged_gets_nothing_back
            reset_forgets_only_what_is_named
            reset_forgets_what_another_algorithm_left
            distinct_keys_never_share_state
            distinct_plans_never_share_state
            plan_names_ignore_case
            full_bucket_admits_exactly_its_capacity_at_one_instant
            polling_never_starves_a_slow_refill
            token_bucket_does_not_drift
            token_bucket_loses_no_fraction
            sliding_window_never_exceeds_its_limit_in_any_window
            shared_sub_bucket_leaves_after_its_last_increment
            fixed_window_starts_at_the_first_admitted_request
            suppressing_window_admits_all_up_to_its_soft_limit
            suppressing_window_admits_none_from_its_hard_limit_on
            suppressing_window_observes_denied_requests
            suppressing_window_refuses_the_stated_share
            suppressing_window_looks_at_the_last_second
        }

        #[test]
        fn prop_store_agrees_with_the_model() {
            $crate::state_machine::check_against_model(
                $cases,
                concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/proptest-regressions/store_laws.txt"
                ),
                || async { $make },
            );
        }
    };
}

/// Makes a test of each law that is named.
#[doc(hidden)]
#[macro_export]
macro_rules! __law_tests {
    ($make:expr; $($law:ident)*) => {$(
        #[test]
        fn $law() {
            $crate::block_on(async {
                let store = $make;
                $crate::laws::$law(&store).await;
            });
        }
    )*};
}

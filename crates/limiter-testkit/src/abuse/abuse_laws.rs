//! [`abuse_laws!`](crate::abuse_laws): every law as a test, in one line.

/// Makes a test of every law of stores of attempts, and of the comparison with the model, for the store that an expression
/// makes.
///
/// The expression makes an [`AbuseStoreUnderTest`](crate::abuse::AbuseStoreUnderTest) and is run anew for each test, on a
/// tokio runtime; it may `.await`. With `cases = n`, the comparison with the model replays `n` histories; the environment
/// variable `PROPTEST_CASES` beats it. Seeds of failures are kept in `proptest-regressions/`: commit them.
///
/// # Examples
/// The whole of a store's `tests/abuse_laws.rs`:
/// ```
/// use limiter_testkit::abuse::AbuseModelStore;
///
/// limiter_testkit::abuse_laws!(AbuseModelStore::new());
/// ```
#[macro_export]
macro_rules! abuse_laws {
    ($make:expr $(,)?) => {
        $crate::abuse_laws!($make, cases = $crate::abuse::state_machine::DEFAULT_CASES);
    };
    ($make:expr, cases = $cases:expr $(,)?) => {
        $crate::__abuse_law_tests! { $make;
            nth_attempt_blocks
            threshold_of_one_blocks_at_once
            attempts_in_one_microsecond_all_count
            window_edges_are_exact
            every_tier_counts_in_its_own_window
            slow_attempts_reach_the_long_tier
            racing_attempts_are_allowed_exactly_up_to_the_threshold
            block_outlives_falling_counts
            block_edges_are_exact
            block_is_not_prolonged_by_more_of_the_same
            attempts_that_still_count_block_again
            long_block_replaces_a_short_one_and_not_the_reverse
            block_that_ends_later_wins
            scope_is_that_of_the_block_in_force
            attempts_while_blocked_count_by_default
            attempts_while_blocked_can_be_ignored
            only_the_attempt_that_starts_a_block_says_so
            status_changes_nothing
            forgiving_clears_attempts
            forgiving_keeps_a_block
            unblocking_makes_a_key_as_new
            unblocking_without_a_block_changes_nothing
            clock_step_back_forgets_no_attempt
            clock_step_back_brings_no_block_back
            clock_step_back_ends_no_block
            relapses_double_the_block_up_to_the_cap
            each_memory_span_forgets_one_relapse
            replaced_block_is_no_relapse
            relapses_survive_a_success_but_not_an_unblock
            distinct_keys_never_share_attempts
            distinct_policies_never_share_attempts
            policy_names_ignore_case
            changed_policy_keeps_attempts
            changed_policy_keeps_a_block
            lowered_threshold_keeps_the_newest_attempts
            state_is_bounded_under_hammering
            nothing_of_an_idle_key_stays_behind
            forgetting_takes_nothing_that_still_counts
            outlived_state_equals_no_state
            no_key_is_without_an_end
        }

        #[test]
        fn prop_attempts_are_answered_as_by_the_model() {
            $crate::abuse::state_machine::check_against_model(
                $cases,
                concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/proptest-regressions/abuse_laws.txt"
                ),
                || async { $make },
            );
        }
    };
}

/// Makes a test of each law that is named.
#[doc(hidden)]
#[macro_export]
macro_rules! __abuse_law_tests {
    ($make:expr; $($law:ident)*) => {$(
        #[test]
        fn $law() {
            $crate::block_on(async {
                let store = $make;
                $crate::abuse::laws::$law(&store).await;
            });
        }
    )*};
}

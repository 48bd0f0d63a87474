//! [`session_laws!`](crate::session_laws): every law as a test, in one line.

/// Makes a test of every law of stores of sessions, and of the comparison with the model, for the store that an expression
/// makes.
///
/// The expression makes a [`SessionStoreUnderTest`](crate::sessions::SessionStoreUnderTest) and is run anew for each test,
/// on a tokio runtime; it may `.await`. With `cases = n`, the comparison with the model replays `n` histories; the environment
/// variable `PROPTEST_CASES` beats it. Seeds of failures are kept in `proptest-regressions/`: commit them.
///
/// # Examples
/// The whole of a store's `tests/session_laws.rs`:
/// ```
/// use limiter_testkit::sessions::SessionModelStore;
///
/// limiter_testkit::session_laws!(SessionModelStore::new());
/// ```
#[macro_export]
macro_rules! session_laws {
    ($make:expr $(,)?) => {
        $crate::session_laws!(
            $make,
            cases = $crate::sessions::state_machine::DEFAULT_CASES
        );
    };
    ($make:expr, cases = $cases:expr $(,)?) => {
        $crate::__session_law_tests! { $make;
            same_fingerprint_and_address_are_one_session
            other_fingerprint_or_address_is_another_session
            last_seen_never_moves_back
            told_values_stay_until_told_anew
            session_lives_exactly_for_its_retention
            retention_is_by_choice
            touching_counts_and_prolongs
            ended_session_is_gone
            visit_after_an_end_begins_another_session
            sessions_of_a_fingerprint_are_listed_longest_first
            sessions_of_a_fingerprint_are_bounded
            racing_observers_begin_one_session_for_each_pair
            ended_sessions_are_never_resurrected
            visits_that_race_with_an_end_begin_one_other_session
            nonce_is_fresh_once
            scopes_do_not_share_nonces
            racing_callers_find_each_nonce_fresh_once
            signals_add_up
            signals_of_addresses_are_apart
            quiet_address_is_as_new
            many_fingerprints_are_estimated
            feed_is_newest_first_and_keeps_what_is_alike
            feed_tells_what_is_recent
            severities_have_feeds_of_their_own
            feed_keeps_exactly_the_newest_thousand_of_racing_writers
            anomalies_end_with_their_retention
            feed_goes_in_order_whatever_the_clock_does
            clusters_keep_their_members_for_their_retention
            clusters_are_bounded
            stats_count_what_lives
            stats_are_bounded
            nothing_stays_behind
            forgetting_takes_nothing_that_lives
            no_key_is_without_an_end
            no_name_shows_a_visitor
        }

        #[test]
        fn prop_sessions_are_answered_as_by_the_model() {
            $crate::sessions::state_machine::check_against_model(
                $cases,
                concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/proptest-regressions/session_laws.txt"
                ),
                || async { $make },
            );
        }
    };
}

/// Makes a test of each law that is named.
#[doc(hidden)]
#[macro_export]
macro_rules! __session_law_tests {
    ($make:expr; $($law:ident)*) => {$(
        #[test]
        fn $law() {
            $crate::block_on(async {
                let store = $make;
                $crate::sessions::laws::$law(&store).await;
            });
        }
    )*};
}

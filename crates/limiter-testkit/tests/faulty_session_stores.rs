//! Each deliberate fault of a store of sessions is caught by the laws that are named after it.
#![cfg(test)]

mod session_support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use limiter_testkit::block_on;
use limiter_testkit::sessions::laws;
use session_support::{Fault, FaultyStore};

/// Makes a test that a law holds for a right store, and fails for a faulty one.
macro_rules! caught {
    ($($test:ident: $fault:ident by $($law:ident),+;)*) => {$(
        #[test]
        fn $test() {
            $(
                block_on(laws::$law(&FaultyStore::with(Fault::None)));
                let faulty = FaultyStore::with(Fault::$fault);
                let broken = catch_unwind(AssertUnwindSafe(|| block_on(laws::$law(&faulty))));
                assert!(broken.is_err(), "{} does not notice", stringify!($law));
            )+
        }
    )*};
}

caught! {
    one_session_for_all_addresses_is_caught: IgnoresAddresses by other_fingerprint_or_address_is_another_session;
    check_then_begin_is_caught: ChecksThenBegins by racing_observers_begin_one_session_for_each_pair;
    check_then_use_is_caught: ChecksThenUses by racing_callers_find_each_nonce_fresh_once;
    shared_scopes_are_caught: SharesScopes by scopes_do_not_share_nonces;
    last_seen_that_moves_back_is_caught: FollowsTheClockBack by last_seen_never_moves_back;
    dead_sessions_that_are_returned_are_caught: KeepsTheDead by session_lives_exactly_for_its_retention,
        ended_session_is_gone;
    ended_sessions_that_come_back_are_caught: Resurrects by ended_session_is_gone,
        visit_after_an_end_begins_another_session, ended_sessions_are_never_resurrected;
    ended_sessions_that_are_found_are_caught: FindsTheEnded by visits_that_race_with_an_end_begin_one_other_session;
    values_that_are_forgotten_are_caught: ForgetsWhatWasTold by told_values_stay_until_told_anew;
    anomalies_that_collapse_are_caught: DropsWhatIsAlike by feed_is_newest_first_and_keeps_what_is_alike;
    wrong_order_is_caught: OldestFirst by feed_tells_what_is_recent, sessions_of_a_fingerprint_are_listed_longest_first;
    mixed_up_severities_are_caught: OneFeedForAll by severities_have_feeds_of_their_own;
    members_that_leave_too_early_are_caught: KeepsMembersTooShort by clusters_keep_their_members_for_their_retention,
        forgetting_takes_nothing_that_lives;
    memory_that_is_never_freed_is_caught: NeverForgets by nothing_stays_behind, no_key_is_without_an_end;
    retention_that_is_not_the_callers_is_caught: IgnoresRetention by retention_is_by_choice;
    touches_without_effect_are_caught: TouchesNothing by touching_counts_and_prolongs;
    lists_that_are_too_short_are_caught: ListsTooFew by sessions_of_a_fingerprint_are_bounded;
    lists_of_the_wrong_sessions_are_caught: PushesOutTheWrongSession by sessions_of_a_fingerprint_are_bounded;
    clusters_without_a_bound_are_caught: PushesOutNoMember by clusters_are_bounded,
        clusters_keep_their_members_for_their_retention;
    clusters_that_take_no_more_are_caught: TakesNoMemberWhenFull by clusters_are_bounded;
    feeds_that_are_too_short_are_caught: FeedsTooFew by feed_keeps_exactly_the_newest_thousand_of_racing_writers;
    feeds_that_take_no_more_are_caught: TakesNoAnomalyWhenFull by
        feed_keeps_exactly_the_newest_thousand_of_racing_writers;
    anomalies_that_never_end_are_caught: KeepsAnomaliesForEver by anomalies_end_with_their_retention;
    reports_without_a_bound_are_caught: LooksAtEverything by stats_are_bounded;
    reports_of_the_dead_are_caught: CountsTheDead by stats_count_what_lives;
    reports_without_nonces_are_caught: ForgetsToCountNonces by stats_count_what_lives;
    probabilities_that_are_overwritten_are_caught: OverwritesProbabilities by signals_add_up;
    shared_signals_are_caught: SharesSignals by signals_of_addresses_are_apart;
    signals_that_never_end_are_caught: SignalsForEver by quiet_address_is_as_new, touching_counts_and_prolongs;
    bad_estimates_are_caught: EstimatesBadly by many_fingerprints_are_estimated;
    names_that_show_visitors_are_caught: ShowsAddresses by no_name_shows_a_visitor;
}

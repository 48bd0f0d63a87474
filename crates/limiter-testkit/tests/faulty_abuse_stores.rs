//! Each deliberate fault of a store of attempts is caught by the laws that are named after it.

mod abuse_support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use abuse_support::{Fault, MathStore};
use limiter_testkit::abuse::laws;
use limiter_testkit::block_on;

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
    one_attempt_more_is_caught: OneMore by nth_attempt_blocks, threshold_of_one_blocks_at_once,
        racing_attempts_are_allowed_exactly_up_to_the_threshold;
    check_then_act_is_caught: ChecksThenActs by racing_attempts_are_allowed_exactly_up_to_the_threshold;
    whole_seconds_are_caught: WholeSeconds by attempts_in_one_microsecond_all_count;
    counts_before_blocks_are_caught: CountsFirst by block_outlives_falling_counts, forgiving_keeps_a_block;
    block_that_is_never_replaced_is_caught: KeepsTheFirstBlock by
        long_block_replaces_a_short_one_and_not_the_reverse, block_that_ends_later_wins;
    scope_by_counts_is_caught: ScopeByCounts by scope_is_that_of_the_block_in_force;
    prolonged_block_is_caught: Prolongs by block_is_not_prolonged_by_more_of_the_same;
    block_lifted_by_a_success_is_caught: ForgivesBlocks by forgiving_keeps_a_block;
    attempts_kept_by_an_unblock_are_caught: KeepsAttempts by unblocking_makes_a_key_as_new;
    reading_that_counts_is_caught: CountsReads by status_changes_nothing;
    attempts_that_are_never_ignored_are_caught: NeverIgnores by attempts_while_blocked_can_be_ignored;
    attempts_that_are_always_ignored_are_caught: AlwaysIgnores by attempts_while_blocked_count_by_default,
        long_block_replaces_a_short_one_and_not_the_reverse;
    state_lost_on_a_clock_step_is_caught: FollowsTheClockBack by clock_step_back_forgets_no_attempt,
        clock_step_back_ends_no_block;
    memory_that_is_never_freed_is_caught: NeverForgets by nothing_of_an_idle_key_stays_behind;
    memory_that_is_freed_too_early_is_caught: ForgetsAll by forgetting_takes_nothing_that_still_counts;
    mixed_up_policies_are_caught: MixesPoliciesUp by distinct_policies_never_share_attempts;
    case_of_names_is_caught: MindsCase by policy_names_ignore_case;
    relapses_that_are_never_forgotten_are_caught: NeverDecays by each_memory_span_forgets_one_relapse,
        outlived_state_equals_no_state;
    wait_too_short_is_caught: WaitTooShort by block_edges_are_exact, nth_attempt_blocks;
}

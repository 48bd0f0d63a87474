//! What a script is told of a plan, and of a request under it. The `.lua` files describe the forms.

use limiter_core::{BucketRule, Cost, FixedRule, Limit, Plan, Refund, Timestamp, WindowRule};
use smallvec::SmallVec;

use crate::state::{COMPACT_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SUPPRESSING_WINDOW, WIDE_BUCKET};

/// The bytes of a packed call. One plan, or two of the compact form, need no allocation.
pub(crate) type Packed = SmallVec<[u8; 64]>;

/// The tag of an algorithm that the scripts do not know.
const UNKNOWN: u8 = 0xff;

/// Appends the entry of `plan`, as `chain.lua` reads it.
pub(crate) fn push_entry(packed: &mut Packed, plan: &Plan, cost: Cost) {
    let mut begin = |tag| packed.extend([tag, u8::from(!plan.is_enforced())]);
    match plan.limit() {
        Limit::TokenBucket(rule) if is_compact(rule) => {
            begin(COMPACT_BUCKET);
            push_compact_bucket(packed, rule, cost);
        }
        Limit::TokenBucket(rule) => {
            begin(WIDE_BUCKET);
            push_wide_bucket(packed, rule, cost);
        }
        Limit::SlidingWindow(rule) => {
            begin(SLIDING_WINDOW);
            push_window(packed, rule, cost);
        }
        Limit::SuppressingWindow(rule) => {
            begin(SUPPRESSING_WINDOW);
            push_window(packed, rule.soft(), cost);
            push(packed, 4, rule.hard().into());
        }
        Limit::FixedWindow(rule) => {
            begin(FIXED_WINDOW);
            push_fixed(packed, rule, cost);
        }
        // An algorithm of a later core: the script refuses the call.
        _ => begin(UNKNOWN),
    }
}

/// Appends what is given back under one plan, charged at `charged_at` if it was charged at all.
pub(crate) fn push_refund(packed: &mut Packed, refund: &Refund, charged_at: Option<Timestamp>) {
    let left = refund.charged.get().saturating_sub(refund.given_back);
    let back = charged_at.map_or(0, |_| refund.units.get().min(left));
    push(packed, 7, charged_at.map_or(0, Timestamp::as_micros));
    push(packed, 4, left.into());
    push(packed, 4, back.into());
}

/// Returns whether the numbers of a bucket fit the compact form: a whole period for each token, and short enough.
pub(crate) fn is_compact(rule: &BucketRule) -> bool {
    let rate = rule.rate();
    rate.units() == 1 && rate.period_us() < 1 << 32 && rule.fill_us() < 1 << 40
}

/// Appends a compact bucket, as both scripts read it.
pub(crate) fn push_compact_bucket(packed: &mut Packed, rule: &BucketRule, cost: Cost) {
    let period_us = rule.rate().period_us();
    push(packed, 4, period_us);
    push(packed, 5, u64::from(rest(rule, cost)) * period_us);
    push(packed, 5, u64::from(cost.get()) * period_us);
}

fn push_wide_bucket(packed: &mut Packed, rule: &BucketRule, cost: Cost) {
    let rate = rule.rate();
    let rest = rest(rule, cost);
    push(packed, 4, rate.units().into());
    push(packed, 6, rate.period_us());
    for tokens in [rest, cost.get()] {
        let ticks = u128::from(tokens) * u128::from(rate.period_us());
        let units = u128::from(rate.units());
        push(packed, 7, u64::try_from(ticks / units).unwrap_or(u64::MAX));
        push(packed, 4, u64::try_from(ticks % units).unwrap_or(0));
    }
}

fn push_window(packed: &mut Packed, rule: &WindowRule, cost: Cost) {
    push(packed, 4, rule.limit().into());
    push(packed, 4, cost.get().into());
    push(packed, 6, rule.window_us());
    push(packed, 6, rule.granularity_us());
}

fn push_fixed(packed: &mut Packed, rule: &FixedRule, cost: Cost) {
    push(packed, 4, rule.limit().into());
    push(packed, 4, cost.get().into());
    push(packed, 6, rule.window_us());
}

/// What is left of a full bucket after `cost`; `check_request` has seen that it fits.
fn rest(rule: &BucketRule, cost: Cost) -> u32 {
    rule.capacity().saturating_sub(cost.get())
}

/// Appends the low `width` bytes of `number`, the highest first.
pub(crate) fn push(packed: &mut Packed, width: usize, number: u64) {
    let bytes = number.to_be_bytes();
    packed.extend_from_slice(bytes.get(8 - width..).unwrap_or(&bytes));
}

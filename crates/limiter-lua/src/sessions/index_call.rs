//! The calls of `index.lua`.

use limiter_sessions::Retention;

use super::script_call::ScriptCall;
use crate::Script;
use crate::entry::{Packed, push};

/// Makes the call that lists the members that live.
pub(super) fn list(name: Vec<u8>) -> ScriptCall {
    call(0, name, Retention::HOUR, 0, &[]).listing()
}

/// Makes the call that puts a member in, of `cap` at most.
pub(super) fn join(name: Vec<u8>, member: &[u8], retention: Retention, cap: usize) -> ScriptCall {
    call(1, name, retention, cap, member)
}

fn call(op: u64, name: Vec<u8>, retention: Retention, cap: usize, member: &[u8]) -> ScriptCall {
    let mut packed = Packed::new();
    push(&mut packed, 1, op);
    push(&mut packed, 6, super::micros(retention));
    push(&mut packed, 2, cap as u64);
    ScriptCall::new(Script::Index, [name], [packed.to_vec(), member.to_vec()])
}

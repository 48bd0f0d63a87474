//! Servers that fail, one way in each test: every call ends in time, says whether it may have charged, never charges twice,
//! the store comes back by itself, and no key stays for ever.
#![cfg(test)]

mod outages;
mod refusals;
mod replies;
mod told;
mod users;
mod values;

use limiter_store_tests::RECOVERY;

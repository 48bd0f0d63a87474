//! A store of attempts that does nothing but run the core's math obeys every law.

mod abuse_support;

use abuse_support::{Fault, MathStore};

limiter_testkit::abuse_laws!(MathStore::with(Fault::None), cases = 512);

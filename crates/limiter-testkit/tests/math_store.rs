//! A store that does nothing but run the core's math obeys every law.

mod support;

use support::{Fault, MathStore};

limiter_testkit::store_laws!(MathStore::with(Fault::None), cases = 256);

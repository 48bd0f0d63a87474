//! The model of attempts itself obeys every law.

use limiter_testkit::abuse::AbuseModelStore;

limiter_testkit::abuse_laws!(AbuseModelStore::new());

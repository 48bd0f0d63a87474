//! The model of sessions itself obeys every law.

use limiter_testkit::sessions::SessionModelStore;

limiter_testkit::session_laws!(SessionModelStore::new());

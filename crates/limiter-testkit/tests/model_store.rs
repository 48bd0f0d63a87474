//! The model itself obeys every law.

use limiter_testkit::ModelStore;

limiter_testkit::store_laws!(ModelStore::new());

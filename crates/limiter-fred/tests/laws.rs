//! Every law of a store, on every kind of server.

mod support;

mod redis_standalone {
    use super::support::{Site, on};
    limiter_testkit::store_laws!(on(Site::Redis));
}

mod valkey_standalone {
    use super::support::{Site, on};
    limiter_testkit::store_laws!(on(Site::Valkey));
}

mod redis_cluster {
    use super::support::{Site, on};
    limiter_testkit::store_laws!(on(Site::Cluster));
}

mod redis_least_privilege {
    use super::support::{Site, on};
    limiter_testkit::store_laws!(on(Site::Restricted));
}

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

mod redis_6_2 {
    use super::support::{Site, on};
    limiter_testkit::store_laws!(on(Site::Redis62));
}

mod redis_8 {
    use super::support::{Site, on};
    limiter_testkit::store_laws!(on(Site::Redis8));
}

mod valkey_8 {
    use super::support::{Site, on};
    limiter_testkit::store_laws!(on(Site::Valkey8));
}

//! Every law of a store, on every kind of server.

mod support;

mod redis_standalone {
    use super::support::{REDIS, Rig};
    limiter_testkit::store_laws!(Rig::on_server(&REDIS));
}

mod valkey_standalone {
    use super::support::{Rig, VALKEY};
    limiter_testkit::store_laws!(Rig::on_server(&VALKEY));
}

mod redis_cluster {
    use super::support::{CLUSTER, Rig};
    limiter_testkit::store_laws!(Rig::on_cluster(&CLUSTER));
}

mod redis_least_privilege {
    use super::support::{RESTRICTED, Rig};
    limiter_testkit::store_laws!(Rig::restricted(&RESTRICTED));
}

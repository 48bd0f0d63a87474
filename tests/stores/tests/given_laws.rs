//! Every law of every kind of store, on connections that the user hands in: to one server and to a cluster.
#![cfg(test)]

use std::future::Future;
use std::sync::Arc;

use limiter_fred::{FredStore, FredStoreBuilder};
use limiter_redis::{RedisStore, RedisStoreBuilder};
use limiter_sessions::TagKey;
use limiter_store_tests::{PATIENT, fred_client, fred_cluster, redis_cluster, redis_manager};
use limiter_testkit::rig::{ServerRig, SessionRig, Site, Tools};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// Connects on the runtime of the test, which lives as long as the connection is needed.
fn wait<T>(connecting: impl Future<Output = T>) -> T {
    block_in_place(|| Handle::current().block_on(connecting))
}

fn ports(site: Site) -> Vec<u16> {
    site.nodes().iter().map(|node| node.port()).collect()
}

fn on_redis_rs(site: Site, tools: &Tools) -> RedisStoreBuilder {
    let builder = match site {
        Site::Cluster => RedisStore::on(wait(redis_cluster(&ports(site)))),
        _ => RedisStore::on(wait(redis_manager(&tools.address))),
    };
    builder
        .with_layout(tools.layout.clone())
        .with_deadline(PATIENT)
        .with_clock(Arc::new(tools.clock.clone()))
        .with_random(Arc::new(tools.random.clone()))
}

fn on_fred(site: Site, tools: &Tools) -> FredStoreBuilder {
    let builder = match site {
        Site::Cluster => FredStore::on(wait(fred_cluster(&ports(site)))),
        _ => FredStore::on(wait(fred_client(&tools.address))),
    };
    builder
        .with_layout(tools.layout.clone())
        .with_deadline(PATIENT)
        .with_clock(Arc::new(tools.clock.clone()))
        .with_random(Arc::new(tools.random.clone()))
}

fn redis_rs(site: Site) -> ServerRig<RedisStore> {
    ServerRig::new(site, |tools| {
        on_redis_rs(site, &tools).build().expect("a store")
    })
}

fn fred(site: Site) -> ServerRig<FredStore> {
    ServerRig::new(site, |tools| {
        on_fred(site, &tools).build().expect("a store")
    })
}

fn tags() -> TagKey {
    // A secret that is always the same, so that estimates are.
    TagKey::new([7; 32]).expect("a secret")
}

fn sessions_of_redis_rs(site: Site) -> SessionRig {
    SessionRig::new(site, move |tools| {
        let store = on_redis_rs(site, &tools).build_sessions(tags());
        store.expect("a store")
    })
}

fn sessions_of_fred(site: Site) -> SessionRig {
    SessionRig::new(site, move |tools| {
        let store = on_fred(site, &tools).build_sessions(tags());
        store.expect("a store")
    })
}

mod redis_rs {
    mod limits {
        limiter_testkit::store_laws!(crate::redis_rs(crate::Site::Redis), cases = 32);
    }
    mod attempts {
        limiter_testkit::abuse_laws!(crate::redis_rs(crate::Site::Redis), cases = 32);
    }
    mod visitors {
        limiter_testkit::session_laws!(crate::sessions_of_redis_rs(crate::Site::Redis), cases = 8);
    }
}

mod redis_rs_on_a_cluster {
    mod limits {
        limiter_testkit::store_laws!(crate::redis_rs(crate::Site::Cluster), cases = 32);
    }
    mod attempts {
        limiter_testkit::abuse_laws!(crate::redis_rs(crate::Site::Cluster), cases = 32);
    }
    mod visitors {
        limiter_testkit::session_laws!(
            crate::sessions_of_redis_rs(crate::Site::Cluster),
            cases = 8
        );
    }
}

mod fred {
    mod limits {
        limiter_testkit::store_laws!(crate::fred(crate::Site::Redis), cases = 32);
    }
    mod attempts {
        limiter_testkit::abuse_laws!(crate::fred(crate::Site::Redis), cases = 32);
    }
    mod visitors {
        limiter_testkit::session_laws!(crate::sessions_of_fred(crate::Site::Redis), cases = 8);
    }
}

mod fred_on_a_cluster {
    mod limits {
        limiter_testkit::store_laws!(crate::fred(crate::Site::Cluster), cases = 32);
    }
    mod attempts {
        limiter_testkit::abuse_laws!(crate::fred(crate::Site::Cluster), cases = 32);
    }
    mod visitors {
        limiter_testkit::session_laws!(crate::sessions_of_fred(crate::Site::Cluster), cases = 8);
    }
}

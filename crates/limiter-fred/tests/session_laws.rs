//! Every law of stores of sessions, on every kind of server.
#![cfg(test)]

use std::sync::Arc;
use std::time::Duration;

use limiter_fred::{Endpoint, FredStore};
use limiter_sessions::TagKey;
use limiter_testkit::rig::{SessionRig, Site, Tools};

/// Long enough for a crowded machine: the deadline is tested elsewhere.
const PATIENT: Duration = Duration::from_secs(5);

fn on(site: Site) -> SessionRig {
    SessionRig::new(site, |tools: Tools| {
        let endpoint = tools.address.parse::<Endpoint>().expect("an address");
        // A secret that is always the same, so that estimates are.
        let tags = TagKey::new([7; 32]).expect("a secret");
        let store = FredStore::builder(endpoint)
            .with_layout(tools.layout)
            .with_deadline(PATIENT)
            .with_connect_timeout(PATIENT)
            .with_clock(Arc::new(tools.clock))
            .build_sessions(tags);
        store.expect("a store")
    })
}

mod redis_standalone {
    limiter_testkit::session_laws!(super::on(super::Site::Redis).racing_hard(), cases = 48);
}

mod valkey_standalone {
    limiter_testkit::session_laws!(super::on(super::Site::Valkey).racing_hard(), cases = 24);
}

mod redis_cluster {
    limiter_testkit::session_laws!(super::on(super::Site::Cluster).racing_hard(), cases = 24);
}

mod redis_least_privilege {
    limiter_testkit::session_laws!(super::on(super::Site::RestrictedSessions), cases = 8);
}

mod redis_6_2 {
    limiter_testkit::session_laws!(super::on(super::Site::Redis62), cases = 8);
}

mod redis_8 {
    limiter_testkit::session_laws!(super::on(super::Site::Redis8), cases = 8);
}

mod valkey_8 {
    limiter_testkit::session_laws!(super::on(super::Site::Valkey8), cases = 8);
}

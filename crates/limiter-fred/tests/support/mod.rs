//! A store on real servers, as the laws want it.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    reason = "this is a test; each file uses its own part"
)]

use std::sync::Arc;
use std::time::Duration;

use limiter_fred::{Endpoint, FredStore};
pub use limiter_testkit::rig::Site;
use limiter_testkit::rig::{ServerRig, Tools};

pub type Rig = ServerRig<FredStore>;

/// Long enough for a crowded machine: the deadline is tested elsewhere.
pub const PATIENT: Duration = Duration::from_secs(5);

pub fn on(site: Site) -> Rig {
    ServerRig::new(site, |tools: Tools| {
        let endpoint = tools.address.parse::<Endpoint>().expect("an address");
        let store = FredStore::builder(endpoint)
            .with_layout(tools.layout)
            .with_deadline(PATIENT)
            .with_connect_timeout(PATIENT)
            .with_clock(Arc::new(tools.clock))
            .with_random(Arc::new(tools.random))
            .build();
        store.expect("a store")
    })
}

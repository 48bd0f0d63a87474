//! Fingerprints that belong together.

use limiter_core::seconds;
use limiter_sessions::{CLUSTER_MAX, Fingerprint, Label};

use super::super::SessionStoreUnderTest;
use super::probe::{KEEP, MICROSECOND, Probe, fingerprint};

fn cluster(name: &str) -> Label {
    Label::new(name).expect("a label")
}

impl Probe {
    async fn join(&self, cluster: &Label, member: u32) {
        let joined = self.store.join(cluster, &fingerprint(member), KEEP).await;
        joined.expect("join is confirmed");
    }

    async fn members(&self, cluster: &Label) -> Vec<Fingerprint> {
        let members = self.store.members(cluster).await;
        members.expect("members answers")
    }
}

/// A member is in a cluster once, that which stays longest first, until its time has passed; clusters are apart.
pub async fn clusters_keep_their_members_for_their_retention(sut: &impl SessionStoreUnderTest) {
    let probe = Probe::of(sut);
    let (one, other) = (cluster("bots.eu-1"), cluster("BOTS.eu-1"));
    for member in [1, 2, 1] {
        probe.join(&one, member).await;
        probe.advance(seconds(1));
    }
    probe.join(&other, 3).await;
    assert_eq!(probe.members(&one).await, [fingerprint(1), fingerprint(2)]);
    assert_eq!(probe.members(&other).await, [fingerprint(3)]);
    assert_eq!(probe.members(&cluster("none")).await, []);
    probe.advance(KEEP.get() - seconds(2));
    assert_eq!(probe.members(&one).await, [fingerprint(1)]);
    probe.advance(seconds(1) - MICROSECOND);
    assert_eq!(probe.members(&one).await, [fingerprint(1)]);
    probe.advance(MICROSECOND);
    assert_eq!(probe.members(&one).await, []);
}

/// A cluster has ten thousand members at most: one too many pushes out that which would leave first.
pub async fn clusters_are_bounded(sut: &impl SessionStoreUnderTest) {
    const TASKS: u32 = 16;
    let probe = Probe::of(sut);
    let bots = cluster("bots");
    let most = u32::try_from(CLUSTER_MAX).expect("a small number");
    for member in 0..3 {
        probe.join(&bots, member).await;
    }
    probe.advance(MICROSECOND);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, bots) = (sut.store(), bots.clone());
            tokio::spawn(async move {
                for member in (3 + task..3 + most).step_by(TASKS as usize) {
                    let joined = store.join(&bots, &fingerprint(member), KEEP).await;
                    joined.expect("join is confirmed");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
    let mut members = probe.members(&bots).await;
    members.sort_unstable();
    let expected: Vec<_> = (3..3 + most).map(fingerprint).collect();
    assert_eq!(members.len(), CLUSTER_MAX);
    assert!(members == expected, "others than the first were pushed out");
}

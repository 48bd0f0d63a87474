//! [`Load`]: many callers of one user, and what they were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use limiter_core::{Key, Plan};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::{PATIENT, Store, spend, spent};

/// Sixteen callers that call and call, until they are told to stop.
pub struct Load {
    told: Arc<Told>,
    callers: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Told {
    stop: AtomicBool,
    admitted: AtomicU32,
    unsure: AtomicU32,
}

impl Load {
    #[must_use]
    pub fn begin(store: &Store, user: &Key, plan: &Plan) -> Self {
        let told = Arc::new(Told::default());
        let callers = (0..16).map(|_| {
            let (store, user, plan) = (store.clone(), user.clone(), plan.clone());
            let told = Arc::clone(&told);
            tokio::spawn(async move {
                while !told.stop.load(Ordering::Relaxed) {
                    match spend(&store, &user, &plan).await {
                        Ok(said) if said.admitted => told.admitted.fetch_add(1, Ordering::Relaxed),
                        Err(error) if error.may_have_charged() => {
                            told.unsure.fetch_add(1, Ordering::Relaxed)
                        }
                        _ => 0,
                    };
                    sleep(Duration::from_micros(200)).await;
                }
            })
        });
        Self {
            callers: callers.collect(),
            told,
        }
    }

    /// Stops the callers; returns how many calls were admitted, and of how many nobody learnt
    /// whether they were charged.
    pub async fn end(self) -> (u32, u32) {
        self.told.stop.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await.expect("every call in time");
        }
        let told = |count: &AtomicU32| count.load(Ordering::Relaxed);
        (told(&self.told.admitted), told(&self.told.unsure))
    }
}

/// Waits until nothing is left.
pub async fn used_up(store: &Store, user: &Key, plan: &Plan) {
    let began = Instant::now();
    while spent(store, user, plan).await < plan.limit().units() {
        assert!(began.elapsed() < 4 * PATIENT, "not used up");
        sleep(Duration::from_millis(5)).await;
    }
}

//! [`InPart`]: what nodes say of the slots that do not know of all of them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use super::slots::Slots;

/// The most that a node has said that does not know of all slots.
#[derive(Default)]
pub(super) struct InPart(Mutex<Option<Slots>>);

/// So long, a node that does not know of all slots waits for one that does.
const ENOUGH: Duration = Duration::from_millis(200);

impl InPart {
    pub(super) fn keep(&self, slots: Slots) {
        let mut most = self.most();
        let known = most.as_ref().map_or(0, Slots::covered);
        if slots.covered() > known {
            *most = Some(slots);
        }
    }

    pub(super) fn take(&self) -> Option<Slots> {
        self.most().take()
    }

    /// Waits until there is something, and others had a while to say more.
    pub(super) async fn is_enough(&self) {
        loop {
            sleep(ENOUGH).await;
            if self.most().is_some() {
                return;
            }
        }
    }

    fn most(&self) -> MutexGuard<'_, Option<Slots>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

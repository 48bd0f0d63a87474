//! [`first_success`]: attempts side by side, of which one is enough.

use std::future::pending;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;

/// Makes attempts until one succeeds: each begins `head_start` after the one before it, or as soon as one has failed. The others are
/// dropped then. A failure that is final for all of them ends the rest as well.
///
/// # Errors
/// What the last attempt to fail said, if all of them failed; `None` if there was none.
pub(super) async fn first_success<T, E, F>(
    attempts: impl IntoIterator<Item = F>,
    head_start: Duration,
    is_final: impl Fn(&E) -> bool,
) -> Result<T, Option<E>>
where
    F: Future<Output = Result<T, E>>,
{
    let mut waiting = attempts.into_iter().peekable();
    let mut running: FuturesUnordered<F> = waiting.next().into_iter().collect();
    let mut failed = None;
    loop {
        if running.is_empty() {
            return Err(failed);
        }
        let head_start_is_over = async {
            match waiting.peek() {
                Some(_) => sleep(head_start).await,
                None => pending().await,
            }
        };
        tokio::select! {
            Some(ended) = running.next() => match ended {
                Ok(success) => return Ok(success),
                Err(error) if is_final(&error) => return Err(Some(error)),
                Err(error) => {
                    failed = Some(error);
                    running.extend(waiting.next());
                }
            },
            () = head_start_is_over => running.extend(waiting.next()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_START: Duration = Duration::from_millis(1);

    async fn attempt(says: Option<Result<u8, u8>>) -> Result<u8, u8> {
        match says {
            Some(says) => says,
            None => pending().await,
        }
    }

    async fn first_of(attempts: &[Option<Result<u8, u8>>]) -> Result<u8, Option<u8>> {
        let attempts = attempts.iter().copied().map(attempt);
        first_success(attempts, HEAD_START, |error| *error == 9).await
    }

    #[tokio::test]
    async fn attempts_that_fail_or_hang_cost_only_a_head_start() {
        let (hangs, fails, succeeds) = (None, Some(Err(1)), Some(Ok(2)));
        assert_eq!(first_of(&[succeeds]).await, Ok(2));
        for at in 0..4 {
            for other in [hangs, fails] {
                let mut attempts = [other; 4];
                attempts[at] = succeeds;
                assert_eq!(first_of(&attempts).await, Ok(2));
            }
        }
        assert_eq!(first_of(&[hangs, fails, hangs, succeeds]).await, Ok(2));
    }

    #[tokio::test]
    async fn the_last_failure_is_told_if_all_fail() {
        let failures = [Some(Err(1)), Some(Err(2)), Some(Err(3))];
        assert_eq!(first_of(&failures).await, Err(Some(3)));
        assert_eq!(first_of(&[]).await, Err(None));
    }

    #[tokio::test]
    async fn a_final_failure_ends_the_rest() {
        let (is_final, succeeds) = (Some(Err(9)), Some(Ok(2)));
        assert_eq!(first_of(&[is_final, succeeds]).await, Err(Some(9)));
        assert_eq!(first_of(&[None, is_final, succeeds]).await, Err(Some(9)));
    }

    #[tokio::test]
    async fn nobody_is_asked_needlessly() {
        let mut asked = 0;
        let attempts = (0..4).map(|nth| {
            asked += 1;
            attempt(Some(if nth == 1 { Ok(2) } else { Err(1) }))
        });
        let long = Duration::from_secs(1000);
        let found = first_success(attempts, long, |_| false).await;
        assert_eq!(found, Ok(2));
        // The next is looked at, but not asked.
        assert!(asked <= 3, "{asked} were asked");
    }
}

//! [`AtFirstPoll`]: a call as a future.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Makes its call when it is first polled, and answers at once. Not before, and never again.
pub(crate) struct AtFirstPoll<F>(Option<F>);

impl<F> AtFirstPoll<F> {
    pub(crate) const fn new(call: F) -> Self {
        Self(Some(call))
    }
}

impl<T, F: FnOnce() -> T + Unpin> Future for AtFirstPoll<F> {
    type Output = T;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        match self.0.take() {
            Some(call) => Poll::Ready(call()),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::task::Waker;

    #[test]
    fn it_calls_once_and_only_when_polled() {
        let calls = Cell::new(0);
        let call = || calls.replace(calls.get() + 1);
        let mut future = AtFirstPoll::new(call);
        assert_eq!(calls.get(), 0);
        let mut poll = || Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!([poll(), poll()], [Poll::Ready(0), Poll::Pending]);
        assert_eq!(calls.get(), 1);
    }
}

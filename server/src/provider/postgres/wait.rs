//! Waits for the database's client, which is asynchronous, in the calling thread.
//!
//! The engine blocks, and may be called from a thread of any runtime. A runtime refuses to be entered twice, so
//! this waits without one. The connections themselves run on the provider's own runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Continues the thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks until the future is complete. The future must need no runtime to be polled.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        // A wake before this is not lost: then `park` returns at once.
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_for_another_one_even_within_a_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let value = runtime.block_on(async {
            let (send, receive) = tokio::sync::oneshot::channel();
            thread::spawn(move || send.send(7));
            wait(receive)
        });
        assert_eq!(value, Ok(7));
    }
}

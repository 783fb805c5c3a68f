//! Waits for the database's client, which is asynchronous, in the calling thread.
//!
//! The engine blocks, and may be called from a thread of any runtime. A runtime refuses to be entered twice, so
//! this waits without one. The connections themselves run on the provider's own runtime.
//!
//! Most statements of a write return nothing that the engine needs. They are sent at once, and [`Pending`] keeps their
//! answers until a later statement is waited for anyway.

use std::error::Error as StdError;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::BytesMut;
use escale::{Code, Error, Result};
use futures_util::future::{join, join_all};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::connect::Params;

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

/// The answers of statements that were sent and not waited for, in their order.
#[derive(Default)]
pub(super) struct Pending(Vec<Pin<Box<dyn Future<Output = Result<()>> + Send>>>);

impl Pending {
    /// Sends a statement: the client sends it when its future is polled for the first time.
    pub(super) fn send(&mut self, statement: impl Future<Output = Result<()>> + Send + 'static) {
        let mut statement: Pin<Box<dyn Future<Output = Result<()>> + Send>> = Box::pin(statement);
        match statement.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => self.0.push(Box::pin(std::future::ready(answer))),
            Poll::Pending => self.0.push(statement),
        }
    }

    /// Waits for all of them, and for a statement that was sent after them. Errors: the first one, because the
    /// others follow from it.
    pub(super) fn wait_with<T>(self, last: impl Future<Output = Result<T>>) -> Result<T> {
        // All are polled: an answer that nobody takes would hold back those after it.
        let (earlier, last) = wait(join(join_all(self.0), last));
        earlier.into_iter().collect::<Result<()>>()?;
        last
    }
}

/// Parameters in the form of the wire, so that a statement needs no borrowed value once it is sent.
#[derive(Debug)]
pub(super) struct Encoded(Option<BytesMut>);

impl Encoded {
    /// Encodes parameters for a statement that takes these types.
    pub(super) fn all(params: Params, types: &[Type]) -> Result<Vec<Encoded>> {
        let encode = |(param, kind): (&&(dyn ToSql + Sync), &Type)| {
            let mut bytes = BytesMut::new();
            let is_null = param
                .to_sql_checked(kind, &mut bytes)
                .map_err(|error| Error::new(Code::Internal, error.to_string()))?;
            Ok(Encoded(matches!(is_null, IsNull::No).then_some(bytes)))
        };
        params.iter().zip(types).map(encode).collect()
    }
}

impl ToSql for Encoded {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let Some(bytes) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
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

    #[test]
    fn the_first_error_of_pending_statements_is_told() {
        let result_of = |answers: Vec<Result<()>>, last: Result<u8>| {
            let mut pending = Pending::default();
            for answer in answers {
                pending.send(std::future::ready(answer));
            }
            pending.wait_with(std::future::ready(last)).map_err(|error| error.code())
        };
        let failed = |code| Err(Error::new(code, "in a test"));
        assert_eq!(result_of(vec![Ok(())], Ok(7)), Ok(7));
        let answers = vec![Ok(()), failed(Code::StorageFull), failed(Code::Internal)];
        assert_eq!(result_of(answers, failed(Code::Internal).map(|()| 7)), Err(Code::StorageFull));
        assert_eq!(result_of(vec![Ok(())], failed(Code::Contention).map(|()| 7)), Err(Code::Contention));
    }
}

//! A reply on its way out, piece by piece. What its request holds is held until the last piece has gone: whoever reads
//! slowly, or not at all, keeps its place for as long, and so no caller makes the server hold more replies than it may
//! ask for at once.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

/// Bytes of a piece.
const PIECE: usize = 64 << 10;

struct Leaving<T> {
    rest: Bytes,
    _held: T,
}

/// Those bytes as a body that lets go of `held` with its last piece.
pub(super) fn leaving<T: Send + Unpin + 'static>(bytes: Vec<u8>, held: T) -> Body {
    Body::new(Leaving { rest: bytes.into(), _held: held })
}

impl<T: Unpin> hyper::body::Body for Leaving<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let piece = self.rest.len().min(PIECE);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

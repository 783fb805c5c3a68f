//! A reply being sent, piece by piece. Its request counts as one of its caller until the last piece is sent. So a caller
//! that reads slowly, or not at all, cannot make the server hold more replies than it may request at once.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};

use super::lines::Line;

/// Bytes of a piece.
const PIECE: usize = 64 << 10;

struct Leaving<T> {
    rest: Bytes,
    line: Line,
    _held: T,
}

/// These bytes as a body that drops `line` and `held` with its last piece.
pub(super) fn leaving<T: Send + Unpin + 'static>(bytes: Vec<u8>, line: Line, held: T) -> Body {
    Body::new(Leaving { rest: bytes.into(), line, _held: held })
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
        let data = self.rest.split_to(piece);
        self.line.sent(piece);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

//! A request from its header to the last byte of its answer: it arrives, it is worked on, its answer leaves.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode, header};
use escale::Code;
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::gate::{Gate, Holder, Place, Slot};
use super::leaving::leaving;
use super::lines::{Line, Lines};
use crate::http::entering::{Active, Busy, Connection};
use crate::http::headers::text;
use crate::http::reply::Refusal;

/// Bytes a second that a body must bring on average, after the patience of its first ones. A line of 1 KB/s passes.
pub(in crate::http) const LEAST_RATE: usize = 512;

/// Requests that wait for their turn at once: for each caller, and in all.
const IN_TURN_MAX: (usize, usize) = (4, 32);

/// Memory of bodies that arrive, for idle and for those with tokens, and of replies that leave.
const ARRIVING_BYTES_MAX: usize = 64 << 20;
const LEAVING_BYTES_MAX: usize = 128 << 20;

/// Requests of one kind, with the room for them.
pub(in crate::http) struct Traffic {
    gate: Arc<Gate>,
    /// Work that waits for its turn.
    in_turn: Arc<Gate>,
    /// Of idle, who cannot limiter out those with tokens.
    idle: Arc<Lines>,
    arriving: Arc<Lines>,
    leaving: Arc<Lines>,
    /// How long a body may be silent.
    patience: Duration,
}

/// A request whose header has arrived, of a caller who may come in.
pub(in crate::http) struct Visit {
    traffic: Arc<Traffic>,
    slot: Slot,
    busy: Busy,
}

/// A request that has arrived, and has its place.
pub(in crate::http) struct Work {
    visit: Visit,
    _place: Place,
    _in_turn: Option<Slot>,
    _active: Active,
}

impl Traffic {
    /// So many requests may be in progress for each caller and in all; so many bodies may be on their way in each direction.
    pub(in crate::http) fn new(
        most: (usize, usize),
        lines_max: usize,
        needs_tokens: bool,
        patience: Duration,
    ) -> Arc<Self> {
        let gate = Gate::new(most, needs_tokens);
        let in_turn = Gate::new(IN_TURN_MAX, needs_tokens);
        let arriving = || Lines::new(lines_max, ARRIVING_BYTES_MAX);
        let (idle, arriving) = (arriving(), arriving());
        let leaving = Lines::new(lines_max, LEAVING_BYTES_MAX);
        Arc::new(Traffic { gate, in_turn, idle, arriving, leaving, patience })
    }

    /// Begins a request of that caller. Errors: `too_many`.
    pub(in crate::http) fn visit(
        self: &Arc<Self>,
        holder: &Holder,
        connection: &Arc<Connection>,
    ) -> escale::Result<Visit> {
        let slot = self.gate.join(holder)?;
        Ok(Visit { traffic: Arc::clone(self), slot, busy: connection.serve() })
    }
}

impl Visit {
    /// Reads the body of the request, of at most so many bytes. Errors: `too_large`, `malformed`; `timeout` if it is silent
    /// for too long, or too slow; `unavailable` if others need the room.
    pub(in crate::http) async fn body(
        &self,
        request: Request<Body>,
        bytes_max: usize,
    ) -> Result<Bytes, Refusal> {
        let announced = text(request.headers(), &header::CONTENT_LENGTH).and_then(|n| n.parse::<u64>().ok());
        if announced.is_some_and(|n| n > bytes_max as u64) {
            return Err(too_large(bytes_max));
        }
        let holder = self.slot.holder();
        let lines = if holder.is_stranger() { &self.traffic.idle } else { &self.traffic.arriving };
        let end = Arc::new(Notify::new());
        let line = lines.enter(holder, 0, &end);
        tokio::select! {
            arrived = arrive(request.into_body(), bytes_max, self.traffic.patience, &line) => arrived,
            () = end.notified() => {
                let what = "the server has no room for so slow a body";
                Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, what))
            }
        }
    }

    /// Takes a place for the work. Errors: `unavailable`.
    pub(in crate::http) fn work(self) -> escale::Result<Work> {
        let place = self.slot.place()?;
        Ok(self.with(place, None))
    }

    /// Takes a place for work that may wait long for its turn: such work has places of its own, and leaves those of the other
    /// requests to them. Errors: `too_many`, `unavailable`.
    pub(in crate::http) fn work_in_turn(self) -> escale::Result<Work> {
        let (slot, place) = self.traffic.in_turn.enter(self.slot.holder())?;
        Ok(self.with(place, Some(slot)))
    }

    fn with(self, place: Place, in_turn: Option<Slot>) -> Work {
        let active = self.busy.mark_active();
        Work { visit: self, _place: place, _in_turn: in_turn, _active: active }
    }
}

impl Work {
    /// The answer as a body. The place is free from now on, and others may get the memory of a caller that reads too slowly.
    pub(in crate::http) fn leave(self, bytes: Vec<u8>) -> Body {
        let Visit { traffic, slot, busy } = self.visit;
        let line = traffic.leaving.enter(slot.holder(), bytes.capacity(), busy.leave());
        leaving(bytes, line, (slot, busy))
    }
}

async fn arrive(mut body: Body, bytes_max: usize, patience: Duration, line: &Line) -> Result<Bytes, Refusal> {
    let began = Instant::now();
    let mut bytes = Vec::new();
    loop {
        let allowed = patience + Duration::from_secs((bytes.len() / LEAST_RATE) as u64);
        let left = allowed.saturating_sub(began.elapsed()).min(patience);
        let data: Bytes = match timeout(left, body.frame()).await {
            Err(_) => {
                let what = "the body took too long to arrive";
                return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, Code::Timeout, what));
            }
            Ok(None) => return Ok(bytes.into()),
            Ok(Some(Err(_))) => {
                return Err(Refusal::new(StatusCode::BAD_REQUEST, Code::Malformed, "the body is cut short"));
            }
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
        if bytes.len() + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        bytes.extend_from_slice(&data);
        line.came(data.len(), bytes.capacity());
    }
}

fn too_large(bytes_max: usize) -> Refusal {
    let what = format!("a body has at most {bytes_max} bytes here");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Code::TooLarge, what)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::accounts::Network;
    use crate::http::entering::ConnectionLimiter;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A body of so many bytes, which brings a piece of them in each such time.
    fn trickle(bytes: usize, piece: usize, every: Duration) -> Body {
        let pieces = futures_util::stream::unfold(bytes, move |left| async move {
            let next = left.min(piece);
            if next == 0 {
                return None;
            }
            tokio::time::sleep(every).await;
            Some((Ok::<_, Infallible>(Bytes::from(vec![b' '; next])), left - next))
        });
        Body::from_stream(pieces)
    }

    async fn status(body: Body, bytes_max: usize) -> (u16, Duration) {
        let lines = Lines::new(9, 9 << 20);
        let end = Arc::new(Notify::new());
        let line = lines.enter(&Holder::Account("a".into()), 0, &end);
        let began = Instant::now();
        let arrived = arrive(body, bytes_max, PATIENCE, &line).await;
        let status = arrived.map_or_else(
            |refusal| refusal.into_response(escale::codec::Format::Json).status(),
            |_| StatusCode::OK,
        );
        (status.as_u16(), began.elapsed())
    }

    /// Large requests come one after another: those that wait would otherwise have all places for minutes.
    #[tokio::test]
    async fn work_that_waits_for_its_turn_leaves_the_places_to_others() {
        let connection = ConnectionLimiter::new(1).enter(Network::of([10, 0, 0, 1].into())).await;
        let traffic = Traffic::new((9, 2), usize::MAX, true, PATIENCE);
        let visit = |name: &str| traffic.visit(&Holder::Account(name.into()), &connection).unwrap();
        let _waiting: Vec<Work> = ["a", "b", "c"]
            .iter()
            .flat_map(|name| [*name; 4])
            .map(|name| visit(name).work_in_turn().unwrap())
            .collect();
        assert_eq!(visit("a").work_in_turn().err().unwrap().code(), Code::TooMany);
        let _places = [visit("a").work().unwrap(), visit("d").work().unwrap()];
        assert_eq!(visit("d").work().err().unwrap().code(), Code::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_of_a_kilobyte_a_second_brings_a_body_of_any_size() {
        let every = Duration::from_secs(1);
        for bytes in [0, 1, 64 << 10, 4 << 20] {
            assert_eq!(status(trickle(bytes, 1_000, every), 4 << 20).await.0, 200, "{bytes} bytes");
        }
        assert_eq!(status(trickle((4 << 20) + 1, 1_000, every), 4 << 20).await.0, 413);
        // A line that stands still for twenty seconds, and catches up.
        let (answer, took) = status(trickle(64 << 10, 16 << 10, Duration::from_secs(20)), 64 << 10).await;
        assert_eq!((answer, took), (200, Duration::from_secs(80)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_silent_or_too_slow_is_not_waited_for() {
        let (answer, took) = status(trickle(9, 9, Duration::from_secs(31)), 9).await;
        assert_eq!((answer, took), (408, PATIENCE));
        // A byte in each second: it has its patience, and nothing more.
        let (answer, took) = status(trickle(60_000, 1, Duration::from_secs(1)), 60_000).await;
        assert_eq!((answer, took), (408, PATIENCE));
        let (answer, took) = status(trickle(60_000, 256, Duration::from_secs(1)), 60_000).await;
        assert_eq!((answer, took.as_secs()), (408, 59));
    }
}

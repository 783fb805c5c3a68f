//! Spans of the server's work, for a collector of traces: a request, and in it the pull, the operations and the commits.
//! They exist only while they are exported. None holds a key, a value, an org or a token: only counts and fixed words.

use escale::Kind;
use tracing::Span;

/// Their target. The log has others.
pub(crate) const SPANS: &str = "escale_server::spans";

/// Measures a piece of work, by a span of this name: `span!("pull", defs = 3)`.
macro_rules! span {
    ($name:literal $(, $($field:tt)*)?) => {
        tracing::debug_span!(target: $crate::spans::SPANS, $name $(, $($field)*)?)
    };
}
pub(crate) use span;

/// The trace of a caller, as `traceparent` names it: the ids of the trace and of the span, and the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller<'h> {
    pub(crate) trace: &'h str,
    pub(crate) parent: &'h str,
    pub(crate) flags: &'h str,
}

/// The span of a request. If spans are exported it continues the caller's trace, or begins one. Otherwise it carries the
/// caller's trace to the lines of the log, and there is none if the caller names none.
pub(crate) fn of_request(route: &'static str, caller: Option<Caller>) -> Span {
    #[cfg(feature = "otlp")]
    if tracing::enabled!(target: SPANS, tracing::Level::DEBUG) {
        return exported::begin(route, caller);
    }
    let _ = route;
    match caller {
        Some(Caller { trace, .. }) => tracing::info_span!("request", trace),
        None => Span::none(),
    }
}

/// Ends the work of a request.
pub(crate) fn answered(span: &Span, status: u16) {
    // A span that is not exported has no such field.
    span.record("status", status);
}

/// The kind of a fault, as on the wire.
pub(crate) fn kind_letter(kind: Kind) -> &'static str {
    match kind {
        Kind::A => "A",
        Kind::N => "N",
        Kind::B => "B",
        Kind::X => "X",
        Kind::D => "D",
        Kind::C => "C",
        Kind::O => "O",
        Kind::S => "S",
    }
}

#[cfg(feature = "otlp")]
mod exported {
    use opentelemetry::Context;
    use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
    use tracing::Span;
    use tracing::field::Empty;
    use tracing_opentelemetry::OpenTelemetrySpanExt;

    use super::{Caller, SPANS};

    pub(super) fn begin(route: &'static str, caller: Option<Caller>) -> Span {
        let span = tracing::info_span!(
            target: SPANS, "request", otel.kind = "server", route, trace = Empty, status = Empty
        );
        // Without a parent it begins a trace of its own.
        if let Some(parent) = caller.and_then(context) {
            drop(span.set_parent(Context::new().with_remote_span_context(parent)));
        }
        // The lines of the log name the trace under which the collector has it.
        let trace = span.context().span().span_context().trace_id();
        span.record("trace", trace.to_string());
        span
    }

    fn context(caller: Caller) -> Option<SpanContext> {
        let trace = TraceId::from_hex(caller.trace).ok()?;
        let parent = SpanId::from_hex(caller.parent).ok()?;
        // Of later flags only the one that is known is kept.
        let flags = TraceFlags::new(u8::from_str_radix(caller.flags, 16).ok()?) & TraceFlags::SAMPLED;
        Some(SpanContext::new(trace, parent, flags, true, TraceState::default()))
    }
}

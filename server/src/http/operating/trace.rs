//! The caller's trace, in the log. A proxy or an application that follows requests names each in the header
//! `traceparent` (W3C Trace Context). The lines that a request causes then carry that name.

use axum::http::HeaderMap;
use tracing::Span;

use crate::spans::{Caller, of_request};

/// A span with the caller's trace. See [`of_request`].
pub(in crate::http) fn span_of(headers: &HeaderMap, route: &'static str) -> Span {
    of_request(route, headers.get("traceparent").and_then(|value| caller(value.to_str().ok()?)))
}

/// The trace in `VERSION-TRACE-PARENT-FLAGS`. Later versions may append more. Nothing else of a caller's text
/// gets into the log.
fn caller(header: &str) -> Option<Caller<'_>> {
    let mut parts = header.split('-');
    let mut part = |length: usize| {
        let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        parts.next().filter(|part| part.len() == length && part.bytes().all(is_hex))
    };
    let (version, trace, parent) = (part(2)?, part(32)?, part(16)?);
    let flags = part(2)?;
    let is_some = |id: &str| id.bytes().any(|b| b != b'0');
    let is_whole = version != "00" || parts.next().is_none();
    (version != "ff" && is_some(trace) && is_some(parent) && is_whole).then_some(Caller {
        trace,
        parent,
        flags,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    fn trace_id(header: &str) -> Option<&str> {
        caller(header).map(|caller| caller.trace)
    }

    #[test]
    fn a_trace_is_taken_as_the_standard_writes_it() {
        let header = format!("00-{TRACE}-b7ad6b7169203331-01");
        let parent = "b7ad6b7169203331";
        assert_eq!(caller(&header), Some(Caller { trace: TRACE, parent, flags: "01" }));
        assert_eq!(trace_id(&format!("cc-{TRACE}-b7ad6b7169203331-01-later")), Some(TRACE));
    }

    #[test]
    fn nothing_else_reaches_the_log() {
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            TRACE.to_owned(),
            format!("ff-{TRACE}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-b7ad6b7169203331-01-later"),
            format!("00-{zeros}-b7ad6b7169203331-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
            format!("00-{TRACE}\n-b7ad6b7169203331-01"),
            format!("00-{TRACE}-b7ad6b7169203331-1"),
        ] {
            assert_eq!(trace_id(&wrong), None, "{wrong}");
        }
    }
}

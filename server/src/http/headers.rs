//! Headers of requests.

use axum::http::{HeaderMap, header};

/// A header as text; none if it is absent, or no text.
pub(in crate::http) fn text<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

//! Answers: a message or a fault, in the format of the request, with the matching status.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use escale::codec::{Encode, Fault, Format, encode};
use escale::{Code, Error};

/// Seconds after which a request may be repeated that was refused because of the rate limit or contention.
pub(super) const RETRY_SECONDS: u64 = 1;

/// The refusal of a whole request.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    fault: Fault,
    /// Seconds after which the request may be repeated.
    retry: Option<u64>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: Code, message: impl Into<String>) -> Self {
        let retry = matches!(status.as_u16(), 429 | 503).then_some(RETRY_SECONDS);
        Refusal { status, fault: Fault::new(code, message), retry }
    }

    /// The same for a caller that may come again after so many seconds.
    pub(super) fn after(self, seconds: u64) -> Self {
        Refusal { retry: Some(seconds), ..self }
    }

    /// The same with the names of objects.
    pub(super) fn with_files(mut self, files: Vec<String>) -> Self {
        self.fault.files = files;
        self
    }

    pub(super) fn into_response(self, format: Format) -> Response<Body> {
        let mut response = message(self.status, format, &self.fault).map(Body::from);
        if let Some(seconds) = self.retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match error.code() {
            Code::Malformed
            | Code::WrongProtocol
            | Code::TooDeep
            | Code::BadValue
            | Code::BadLogin
            | Code::LoginTaken => StatusCode::BAD_REQUEST,
            Code::Unauthorized | Code::WrongPassphrase | Code::DeviceRevoked => StatusCode::UNAUTHORIZED,
            Code::Forbidden
            | Code::Blocked
            | Code::InvitationNeeded
            | Code::AccountClosed
            | Code::LastAdmin => StatusCode::FORBIDDEN,
            Code::UnknownOrg | Code::NotFound | Code::InvitationUnknown => StatusCode::NOT_FOUND,
            Code::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::Timeout => StatusCode::REQUEST_TIMEOUT,
            Code::FileMissing => StatusCode::CONFLICT,
            Code::FileDamaged => StatusCode::UNPROCESSABLE_ENTITY,
            Code::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
            Code::NotSupported => StatusCode::NOT_IMPLEMENTED,
            Code::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable | Code::Contention => StatusCode::SERVICE_UNAVAILABLE,
            Code::StorageFull => {
                tracing::error!(%error, "a request finds no room");
                let message = "the server has no room left; its log says more";
                return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, message);
            }
            _ => {
                // Details of internal errors go to the log, not to the caller.
                tracing::error!(%error, "a request failed");
                let message = "the server failed; its log says more";
                return Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, Code::ServerError, message);
            }
        };
        Refusal::new(status, error.code(), error.detail())
    }
}

/// A message as a response.
pub(super) fn message(status: StatusCode, format: Format, message: &impl Encode) -> Response<Vec<u8>> {
    let (status, bytes) = match encode(format, message) {
        Ok(bytes) => (status, bytes),
        Err(error) => {
            tracing::error!(%error, "a message could not be written");
            (StatusCode::INTERNAL_SERVER_ERROR, Vec::new())
        }
    };
    let mut response = Response::new(bytes);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response
}

/// The format of a request. It is also the format of the answer; if it is unknown, that is JSON.
pub(super) fn format_of(headers: &HeaderMap) -> Option<Format> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok().and_then(Format::from_content_type)
}

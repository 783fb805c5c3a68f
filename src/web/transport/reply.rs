//! Turns a server's answer into a reply to apply, or into a refusal with its code.

use crate::codec::{Fault, SyncReply, decode};
use crate::error::{Code, Error, Kind, Result};
use crate::limits::{NAME_CHARS_MAX, REPLY_BYTES_MAX};

use super::http::HttpReply;

pub use crate::sync::Refusal;

/// Reads an answer of HTTP: a reply that may be applied, or the reason why there is none.
pub fn sync_reply(reply: &HttpReply) -> std::result::Result<SyncReply, Refusal> {
    let error = match (reply.status, reply.format) {
        (200, Some(format)) => match decode::<SyncReply>(format, &reply.body, REPLY_BYTES_MAX) {
            Ok(message) => match message.check() {
                Ok(()) => return Ok(message),
                Err(error) => error,
            },
            Err(error) => error,
        },
        (status, format) => {
            let fault = format.and_then(|f| decode::<Fault>(f, &reply.body, REPLY_BYTES_MAX).ok());
            of_status(status, fault.as_ref(), &reply.content_type)
        }
    };
    Err(Refusal { error, retry_after_ms: reply.retry_after_ms })
}

/// The error for a status and the fault in its body, if there is one. `found` is the body's media type.
///
/// Proxies answer in the server's place with 401, 403, 408, 413, 429 and 5xx, so there the status decides, not
/// the body. A gateway's HTML page with a 502 means that the session tries again. But a fault that says
/// `not_supported` with a 501 is the server's own, and a retry is useless. With other statuses, a body that
/// is no fault comes from no Escale server.
pub(super) fn of_status(status: u16, fault: Option<&Fault>, found: &str) -> Error {
    let code = match (status, fault) {
        (401, _) => Code::Unauthorized,
        (403, _) => Code::Forbidden,
        (408, _) => Code::Timeout,
        (413, _) => Code::TooLarge,
        (429, _) => Code::TooMany,
        (503, Some(fault)) if fault.code == Code::Contention.as_str() => Code::Contention,
        (503, _) => Code::Unavailable,
        (501, Some(fault)) if fault.code == Code::NotSupported.as_str() => Code::NotSupported,
        (500..=599, _) => Code::ServerError,
        (404, Some(fault)) if fault.code == Code::UnknownOrg.as_str() => Code::UnknownOrg,
        // `not_found` too: the server lacks the path, and another org code would not help.
        (404, _) | (_, None) => Code::Malformed,
        (_, Some(fault)) if fault.kind == Kind::D => Code::WrongProtocol,
        (_, Some(fault)) => match Code::parse(&fault.code) {
            Some(code) if is_of_the_wire(code) => code,
            None if is_own(fault) => Code::ServerRefused,
            _ => Code::Malformed,
        },
    };
    let detail = match fault {
        Some(fault) => {
            let message: String = fault.message.chars().filter(|c| !c.is_control()).take(200).collect();
            format!("the server answered {status}: {message}")
        }
        None if found.is_empty() => format!("the server answered {status} without saying of what type"),
        None => format!("the server answered {status} with {found}"),
    };
    let error = Error::new(code, detail);
    match fault {
        // The server's own refusal, whose status alone says little.
        Some(fault) if matches!(code, Code::ServerRefused | Code::Forbidden) && is_own(fault) => {
            let own: String = fault.code.chars().take(NAME_CHARS_MAX).collect();
            error.named(&own, fault.kind)
        }
        _ => error,
    }
}

/// Whether a fault has one of the server's own codes, of a kind that is for the application.
fn is_own(fault: &Fault) -> bool {
    let is_for_it = matches!(fault.kind, Kind::A | Kind::N | Kind::S);
    is_for_it && !fault.code.is_empty() && Code::parse(&fault.code).is_none()
}

/// Whether the other side can send this code for a request as a whole. A code about this device would
/// mislead.
pub(super) fn is_of_the_wire(code: Code) -> bool {
    matches!(
        code,
        Code::Malformed
            | Code::TooLarge
            | Code::TooDeep
            | Code::BadValue
            | Code::WrongProtocol
            | Code::Offline
            | Code::Timeout
            | Code::Unauthorized
            | Code::Forbidden
            | Code::UnknownOrg
            | Code::TooMany
            | Code::Unavailable
            | Code::ServerError
            | Code::Contention
            | Code::NotSupported
    )
}

/// Reads a message in one of the protocol's forms and checks it. Every way to a server does this.
pub(super) fn checked(reply: Result<SyncReply>) -> std::result::Result<SyncReply, Refusal> {
    let reply = reply?;
    reply.check()?;
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use wasm_bindgen_test::wasm_bindgen_test;

    use super::*;
    use crate::codec::Format;

    fn answer(status: u16, content_type: &str, body: &[u8]) -> HttpReply {
        HttpReply {
            status,
            format: Format::from_content_type(content_type),
            content_type: content_type.into(),
            retry_after_ms: Some(5_000),
            body: body.to_vec(),
        }
    }

    fn code_of(status: u16, content_type: &str, body: &str) -> Code {
        let refusal = sync_reply(&answer(status, content_type, body.as_bytes())).expect_err("refused");
        assert_eq!(refusal.retry_after_ms, Some(5_000));
        refusal.error.code()
    }

    const JSON: &str = "application/json";
    const HTML: &str = "text/html; charset=utf-8";
    const FAULT: &str = r#"{"code":"unknown_org","kind":"N","phase":0,"message":"no org `x`"}"#;

    #[wasm_bindgen_test]
    fn a_reply_is_read_and_checked() {
        let body = r#"{"p":1,"epoch":[1,"r"],"now":5,"delta":2,"seq":0,"results":[],"parts":[]}"#;
        let reply = sync_reply(&answer(200, "application/json; charset=utf-8", body.as_bytes()));
        assert_eq!(reply.expect("read").now, 5);
        assert_eq!(code_of(200, JSON, &body.replace("\"p\":1", "\"p\":2")), Code::WrongProtocol);
        assert_eq!(code_of(200, JSON, &body[..20]), Code::Malformed);
        assert_eq!(code_of(200, JSON, "<!doctype html>"), Code::Malformed);
        assert_eq!(code_of(200, HTML, body), Code::Malformed);
        assert_eq!(code_of(200, "", ""), Code::Malformed);
        assert_eq!(code_of(204, JSON, ""), Code::Malformed);
    }

    #[wasm_bindgen_test]
    fn each_status_has_its_code() {
        let expected = [
            (401, Code::Unauthorized),
            (403, Code::Forbidden),
            (404, Code::UnknownOrg),
            (413, Code::TooLarge),
            (429, Code::TooMany),
            (500, Code::ServerError),
            (502, Code::ServerError),
            (503, Code::Unavailable),
        ];
        for (status, code) in expected {
            assert_eq!(code_of(status, JSON, FAULT), code, "{status}");
        }
        let by_kind = |code: &str, kind: &str| {
            code_of(400, JSON, &format!(r#"{{"code":"{code}","kind":"{kind}","phase":0,"message":""}}"#))
        };
        assert_eq!(by_kind("malformed", "B"), Code::Malformed);
        assert_eq!(by_kind("wrong_protocol", "D"), Code::WrongProtocol);
        assert_eq!(by_kind("too_deep", "A"), Code::TooDeep);
        assert_eq!(by_kind("wrong_passphrase", "S"), Code::Malformed, "not for a server to say");
        assert_eq!(by_kind("unheard_of", "A"), Code::ServerRefused);
        assert_eq!(by_kind("unheard_of", "X"), Code::Malformed);
    }

    #[wasm_bindgen_test]
    fn a_servers_own_code_reaches_the_application_as_it_is() {
        for (status, kind) in [(403, "S"), (402, "A"), (410, "N")] {
            let body = format!(r#"{{"code":"credit_limit","kind":"{kind}","phase":0,"message":"no more"}}"#);
            let error = sync_reply(&answer(status, JSON, body.as_bytes())).expect_err("refused").error;
            assert_eq!((error.name(), format!("{:?}", error.kind()).as_str()), ("credit_limit", kind));
            assert!(error.detail().ends_with("no more"), "{error}");
        }
    }

    #[wasm_bindgen_test]
    fn a_503_for_contention_keeps_its_code() {
        let fault = r#"{"code":"contention","kind":"C","phase":1,"message":"again"}"#;
        assert_eq!(code_of(503, JSON, fault), Code::Contention);
    }

    /// An unknown path means a wrong address, even if the answer speaks of an org.
    #[wasm_bindgen_test]
    fn a_path_that_is_not_there_is_no_unknown_org() {
        let not_found = r#"{"code":"not_found","kind":"N","phase":0,"message":"no such path"}"#;
        assert_eq!(code_of(404, JSON, not_found), Code::Malformed);
        assert_eq!(code_of(405, JSON, not_found), Code::Malformed);
        assert_eq!(code_of(404, JSON, FAULT), Code::UnknownOrg);
    }

    #[wasm_bindgen_test]
    fn what_a_server_does_not_support_is_not_a_failure_of_it() {
        let fault = r#"{"code":"not_supported","kind":"A","phase":0,"message":"files come later"}"#;
        assert_eq!(code_of(501, JSON, fault), Code::NotSupported);
        assert_eq!(code_of(501, JSON, FAULT), Code::ServerError, "a fault of another code");
        assert_eq!(code_of(501, HTML, "<html>"), Code::ServerError, "a gateway that knows no such method");
        assert_eq!(code_of(500, JSON, fault), Code::ServerError);
    }

    #[wasm_bindgen_test]
    fn pages_of_html_are_told_by_their_status_and_type() {
        assert_eq!(code_of(502, HTML, "<html>"), Code::ServerError, "a gateway is tried again");
        assert_eq!(code_of(429, HTML, "<html>"), Code::TooMany);
        assert_eq!(code_of(404, HTML, "<html>"), Code::Malformed, "not an Escale server");
        assert_eq!(code_of(404, JSON, "<html>"), Code::Malformed);
        let refusal = sync_reply(&answer(404, HTML, b"")).expect_err("refused");
        assert!(refusal.error.detail().contains("text/html"), "{}", refusal.error);
    }
}

//! What a request's head must be, beyond what the HTTP library looks at. Where two servers read a head in two ways, one of them
//! can be told something else than the other: so what is not clear is refused, and its connection closed.

use crate::error::Problem;
use fairhold_types::Code;
use http::{HeaderMap, Method, StatusCode, Version, header};

/// Passes a head that can be read in one way only.
pub(super) fn check(version: Version, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if *method == Method::CONNECT {
        return Err(Problem::new(Code::MethodNotAllowed, "this server is no proxy: there is no CONNECT"));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), None) => {}
        (None, _) if version == Version::HTTP_10 => {}
        (None, _) => return Err(Problem::bad_request("the header Host is missing, which HTTP/1.1 asks for")),
        (Some(_), Some(_)) => return Err(Problem::bad_request("the header Host is given twice")),
    }
    if let Some(coding) = headers.get(header::TRANSFER_ENCODING) {
        let one = headers.get_all(header::TRANSFER_ENCODING).iter().nth(1).is_none();
        if !(one && coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
            return Err(Problem::bad_request("the header Transfer-Encoding: this server takes chunked, once, and nothing else")
                .status(StatusCode::NOT_IMPLEMENTED));
        }
    }
    match headers.get(header::EXPECT) {
        Some(expected) if !expected.as_bytes().eq_ignore_ascii_case(b"100-continue") => {
            Err(Problem::bad_request("the header Expect: this server knows 100-continue and nothing else")
                .status(StatusCode::EXPECTATION_FAILED))
        }
        Some(_) | None => Ok(()),
    }
}

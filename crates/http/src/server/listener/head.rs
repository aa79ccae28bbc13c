//! Checks of a request's head beyond those of hyper. If two servers can read a head in two ways, an attacker can
//! smuggle a request past one of them. The server therefore refuses an ambiguous head and closes the connection.

use crate::edge::problem::Problem;
use fairhold_types::Code;
use http::{HeaderMap, Method, StatusCode, Version, header};

/// Accepts a head only if it is unambiguous.
pub(super) fn check(version: Version, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    if *method == Method::CONNECT {
        return Err(Problem::new(Code::MethodNotAllowed, "this server is not a proxy: it does not support CONNECT"));
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), None) => {}
        (None, _) if version == Version::HTTP_10 => {}
        (None, _) => return Err(Problem::bad_request("the header Host is missing, but HTTP/1.1 requires it")),
        (Some(_), Some(_)) => return Err(Problem::bad_request("the header Host is given twice")),
    }
    if let Some(coding) = headers.get(header::TRANSFER_ENCODING) {
        let one = headers.get_all(header::TRANSFER_ENCODING).iter().nth(1).is_none();
        if !(one && coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
            return Err(Problem::bad_request("the header Transfer-Encoding: this server supports only chunked, once")
                .status(StatusCode::NOT_IMPLEMENTED));
        }
    }
    match headers.get(header::EXPECT) {
        Some(expected) if !expected.as_bytes().eq_ignore_ascii_case(b"100-continue") => {
            Err(Problem::bad_request("the header Expect: this server supports only 100-continue")
                .status(StatusCode::EXPECTATION_FAILED))
        }
        Some(_) | None => Ok(()),
    }
}

//! Answers to clients whose request never reaches the router, as the bytes of a whole answer.

use crate::{edge::body::write_json, edge::cluster_header::ClusterHeader, edge::problem::Problem};
use fairhold_types::{
    Code,
    limits::{HEAD_BYTES_MAX, HEADERS_MAX},
    problem,
};
use http::StatusCode;

/// The answer to a connection beyond the limit.
pub(super) fn too_many_connections(cluster: &ClusterHeader) -> Vec<u8> {
    let problem = Problem::new(Code::Overloaded, "this node has reached its limit of connections, in total or from this address");
    bytes(problem, cluster)
}

/// Replaces hyper's own answer, which has a status and no body.
pub(super) fn replacement(bare: &[u8], cluster: &ClusterHeader) -> Option<Vec<u8>> {
    let status = bare.strip_prefix(b"HTTP/1.1 ").or_else(|| bare.strip_prefix(b"HTTP/1.0 "))?.get(..3)?;
    let problem = match StatusCode::from_bytes(status).ok()? {
        status @ (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG) => Problem::new(
            Code::TooLarge,
            format!(
                "a request can have at most {HEADERS_MAX} headers, and {HEAD_BYTES_MAX} bytes in its request line and headers"
            ),
        )
        .status(status),
        StatusCode::BAD_REQUEST => Problem::bad_request(
            "this is not a valid HTTP/1.1 request: the request line or a header is malformed, a line does not end with CR \
                 LF, or the length of the body is given twice",
        ),
        _ => return None,
    };
    Some(bytes(problem, cluster))
}

fn bytes(problem: Problem, cluster: &ClusterHeader) -> Vec<u8> {
    let problem = problem::Problem::from(problem);
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut body = Vec::new();
    write_json(&problem, &mut body);
    let retry = if problem.retryable { "Retry-After: 1\r\n" } else { "" };
    let cluster = cluster.value().and_then(|id| id.to_str().ok());
    let cluster = cluster.map(|id| format!("{}: {id}\r\n", crate::edge::headers::CLUSTER)).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: application/problem+json\r\nCache-Control: no-store\r\n{retry}{cluster}\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or("Error"),
        body.len()
    );
    [head.into_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::ClusterId;

    #[test]
    fn a_bare_status_is_replaced_by_a_problem() {
        let none_yet = ClusterHeader::from_source(|| None);
        let text = |bare: &[u8]| replacement(bare, &none_yet).map(|bytes| String::from_utf8(bytes).unwrap());
        let large = text(b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\n\r\n").unwrap();
        assert!(large.starts_with("HTTP/1.1 431 ") && large.contains("\"code\":\"too_large\""), "{large}");
        let long = text(b"HTTP/1.1 414 URI Too Long\r\n\r\n").unwrap();
        assert!(long.starts_with("HTTP/1.1 414 ") && long.contains("16384 bytes"), "{long}");
        let bad = text(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        assert!(bad.contains("\"code\":\"bad_request\"") && !bad.contains("Retry-After"), "{bad}");
        for other in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"HTTP/1.1 4", b"nonsense", b""] {
            assert_eq!(text(other), None);
        }
    }

    #[test]
    fn a_connection_over_the_limit_is_asked_to_retry() {
        let cluster = ClusterHeader::from_source(|| Some(ClusterId(7)));
        let text = String::from_utf8(too_many_connections(&cluster)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("\r\nRetry-After: 1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        assert!(head.contains("\r\nfairhold-cluster: 00000000000000000000000000000007\r\n"), "{head}");
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&json["code"], &json["retryable"]), (&"overloaded".into(), &true.into()));
    }
}

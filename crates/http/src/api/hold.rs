//! `hold=stream`: an answer that lasts as long as its grant, one JSON object a line. A client that stops listening
//! gives the grant back.

use crate::{
    edge::answer,
    edge::body::{self, NDJSON},
    edge::error::{at_end_of_stream, problem_of},
    edge::problem::Problem,
    edge::request_kind::RequestKind,
};
use axum::{body::Body, response::Response};
use bytes::Bytes;
use fairhold_node::{
    Node,
    api::{AcquireCall, At, CallerSilent, HoldEvent},
};
use fairhold_state::command::Claimant;
use fairhold_types::{Code, GrantId, duration, hold::HoldLine};
use http::{HeaderValue, header};
use hyper::body::Frame;
use openraft_rt::AsyncRuntime;
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::mpsc;

/// The limit on silence applies to the whole connection, so the connection ends with its stream.
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// The length of a sign of life. A client that never reads can only be detected by what it leaves unread, and until its
/// socket fills it looks like a client that reads. A sign of life is therefore longer than necessary. It is padded with
/// tabs: they are white space in JSON, and a terminal neither shows nor wraps them.
const ALIVE_BYTES: usize = 1024;

/// What the system may buffer of an unread stream. Only the newest line matters.
const SEND_BYTES: usize = 8 * 1024;

/// Marks an answer as a stream.
#[derive(Debug, Clone)]
pub(crate) struct Streamed {
    /// The client must acknowledge sent bytes within this time. Otherwise the connection ends.
    pub(crate) silence_max: Duration,
    /// Set if silence ended the connection.
    pub(crate) caller_silent: CallerSilent,
}

impl Streamed {
    /// Keeps the send buffer small, for a client that does not read.
    pub(crate) fn limit_send_buffer(&self, socket: &socket2::Socket) -> std::io::Result<()> {
        socket.set_send_buffer_size(SEND_BYTES)
    }
}

/// Acquires the grant, and reports its events for as long as the caller listens. A failure before the first line gets the
/// same answer as without a stream.
pub(crate) async fn answer<RT: AsyncRuntime>(node: Node<RT>, call: AcquireCall) -> Result<Response, Problem> {
    let id = call.acquire.grant;
    let id_given = call.acquire.id_given;
    let silence_max = silence_max(&call.acquire.claimant);
    let held =
        node.hold(call).await.map_err(|error| problem_of(error, RequestKind::Acquire { id, id_given, now: node.wall_now() }))?;
    let revision = held.first.revision;
    let write = move |event| line(event, RequestKind::Acquire { id, id_given, now: node.wall_now() }, id);
    let lines = HoldLines { first: Some(held.first), events: held.events, write };
    let mut response = answer::stamped(body::answer(NDJSON, Body::new(lines)), revision);
    response.headers_mut().insert(header::CONNECTION, CLOSE);
    response.extensions_mut().insert(Streamed { silence_max, caller_silent: held.caller_silent });
    Ok(response)
}

/// The server notices a vanished peer within the grant's timeout: it sends a sign of life at least every third of the
/// timeout, and allows half of it for the acknowledgement.
fn silence_max(claimant: &Claimant) -> Duration {
    match claimant {
        Claimant::Anonymous { timeout_ms } => Duration::from_millis(timeout_ms / 2),
        Claimant::Session(_) => Duration::MAX,
    }
}

/// The body. The connection drops it when the client disconnects, and that ends the grant.
struct HoldLines<W> {
    first: Option<At<HoldEvent>>,
    events: mpsc::Receiver<At<HoldEvent>>,
    write: W,
}

impl<W: Fn(At<HoldEvent>) -> Bytes + Unpin> hyper::body::Body for HoldLines<W> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let event = match self.first.take() {
            Some(first) => Some(first),
            None => std::task::ready!(self.events.poll_recv(cx)),
        };
        Poll::Ready(event.map(|event| Ok(Frame::data((self.write)(event)))))
    }
}

fn line(event: At<HoldEvent>, kind: RequestKind, id: GrantId) -> Bytes {
    let mut shortest = 0;
    let line = match event.value {
        HoldEvent::Queued { view } => {
            let queue_position = view.queue_position.unwrap_or_default();
            HoldLine::Queued {
                id,
                position: queue_position.position,
                ahead: answer::ahead(queue_position.ahead, kind.now()),
                estimate: queue_position.estimate.map(duration::format),
            }
        }
        HoldEvent::Held(view) => match view.token {
            Some(token) => HoldLine::Held { id, token },
            None => error(Problem::new(Code::Internal, "a held grant has no token")),
        },
        HoldEvent::Alive => {
            shortest = ALIVE_BYTES - 1;
            HoldLine::Alive { revision: event.revision }
        }
        HoldEvent::Revoke(word) => HoldLine::Revoke { id, by: word.by, reason: word.reason },
        HoldEvent::CredentialExpires => HoldLine::CredentialExpires { id },
        HoldEvent::Lost(reason) => HoldLine::Lost { id, reason },
        HoldEvent::Failed(failure) => error(at_end_of_stream(failure, kind)),
        HoldEvent::GoAway => HoldLine::Goaway { id },
    };
    let mut bytes = Vec::new();
    body::write_json(&line, &mut bytes);
    bytes.resize(bytes.len().max(shortest), b'\t');
    bytes.push(b'\n');
    bytes.into()
}

fn error(problem: Problem) -> HoldLine {
    HoldLine::Error(Box::new(problem.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_node::api::CallError;
    use fairhold_types::{Revision, time::WallMillis};

    #[test]
    fn an_error_line_has_all_fields_of_its_problem() {
        let id = GrantId::from_ulid(1);
        let event = At {
            value: HoldEvent::Failed(CallError::WaitTimeout { holder: None, queue_position: Box::default() }),
            revision: Revision(7),
        };
        let bytes = line(event, RequestKind::Acquire { id, id_given: true, now: WallMillis(0) }, id);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((&json["event"], &json["code"], &json["status"]), (&"error".into(), &"wait_timeout".into(), &409.into()));
        assert_eq!(json["retryable"], false, "its grant has ended: {json}");
    }

    #[test]
    fn a_silent_peer_is_noticed_before_its_grant_would_expire() {
        let limit = silence_max(&Claimant::Anonymous { timeout_ms: 3_000 });
        assert!(!limit.is_zero() && limit + Duration::from_millis(1_000) < Duration::from_millis(3_000), "{limit:?}");
    }
}

//! A streamed answer: its body arrives in pieces for as long as its connection lasts.

use crate::{
    net::{CLIENTS, Net},
    world::World,
};
use axum::body::Body;
use bytes::Bytes;
use fairhold_types::NodeId;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::{mpsc, oneshot};

/// The maximum number of pieces in flight: a server with a slow reader is not polled for more.
const IN_FLIGHT_MAX: usize = 2;

/// The client's end of a streamed answer. Dropping it closes the connection.
pub(crate) struct Stream {
    net: Net,
    from: NodeId,
    pieces: mpsc::Receiver<Bytes>,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

impl Stream {
    /// The next piece; `None` if the answer has ended or the connection broke.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let piece = self.pieces.recv().await?;
        self.net.pass(self.from, CLIENTS).await.then_some(piece)
    }
}

impl World {
    /// Sends a client's HTTP request with a streamed answer. `None` if no answer began.
    pub(crate) async fn open(&self, to: NodeId, request: Request<Body>) -> Option<Stream> {
        if !self.net.pass(CLIENTS, to).await {
            return None;
        }
        let (host, running) = (self.host(to)?, self.running(to)?);
        let (head, begun) = oneshot::channel();
        let (sender, pieces) = mpsc::channel(IN_FLIGHT_MAX);
        let closed = sender.clone();
        drop(host.spawn(async move {
            let serve = async {
                let response = running.api.call(crate::world::from_client(request)).await;
                let (parts, mut body) = response.into_parts();
                if head.send((parts.status, parts.headers)).is_err() {
                    return;
                }
                while let Some(Ok(frame)) = body.frame().await {
                    let Ok(piece) = frame.into_data() else { continue };
                    if sender.send(piece).await.is_err() {
                        return;
                    }
                }
            };
            // As in the real server, the answer is dropped when the client is gone.
            tokio::select! {
                biased;
                () = closed.closed() => {}
                () = serve => {}
            }
        }));
        let (status, headers) = begun.await.ok()?;
        self.net.pass(to, CLIENTS).await.then(|| Stream { net: self.net.clone(), from: to, pieces, status, headers })
    }
}

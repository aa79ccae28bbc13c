//! `GET /v1/cluster/backup`: a backup of this node's state, as it is made.

use crate::{
    edge::answer,
    edge::body::{self, BACKUP},
    edge::error::of_read,
    edge::problem::Problem,
    edge::request::Received,
};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use fairhold_node::{
    Node,
    backup::{BackupCut, NodeBackup},
};
use fairhold_types::{
    call,
    limits::{BACKUP_BLOCK_WITHIN, FRAME_BYTES_MAX},
};
use openraft_rt::AsyncRuntime;

/// `GET /v1/cluster/backup`
pub(crate) async fn take<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    received.require_admin()?;
    let params: call::TakeBackup = received.query()?;
    let read = received.read_options(params.consistency)?;
    let backup = node.take_backup(read, BACKUP_BLOCK_WITHIN).await.map_err(of_read)?;
    let revision = backup.revision();
    Ok(answer::stamped(body::answer(BACKUP, frames(backup)), revision))
}

/// The body. A backup that is cut off ends with an error: the connection breaks, so its reader cannot take it for a
/// complete one.
fn frames<RT: AsyncRuntime>(backup: NodeBackup<RT>) -> Body {
    Body::from_stream(futures_util::stream::unfold((backup, Bytes::new()), |(mut backup, mut left)| async move {
        if left.is_empty() {
            match backup.next().await? {
                Ok(block) => left = block,
                Err(cut) => return Some((Err::<Bytes, BackupCut>(cut), (backup, left))),
            }
        }
        let frame = left.split_to(left.len().min(FRAME_BYTES_MAX));
        Some((Ok(frame), (backup, left)))
    }))
}

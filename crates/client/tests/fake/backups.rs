//! Backups: which server makes one, and what the program learns of it.

use crate::{
    SECOND,
    server::{Action, Server, problem},
};
use fairhold_client::{Error, Revision};
use serde_json::json;

#[tokio::test]
async fn a_backup_comes_from_the_first_server_that_is_not_busy() {
    let busy = Server::start(|_, _| problem(429, "backup_busy")).await;
    let free = Server::start(|_, _| Action::Answer(200, "fairhold-revision: 90\r\n", json!("pieces"))).await;
    let client = busy.client(10 * SECOND);
    let backups = client.backups().local().at_least(Revision(7));
    let mut backup = backups.take_at(vec![busy.url.clone(), free.url.clone()]).await.unwrap();
    assert_eq!(backup.revision(), Some(Revision(90)));
    let mut bytes = Vec::new();
    while let Some(chunk) = backup.chunk().await.unwrap() {
        bytes.extend(chunk);
    }
    assert_eq!((bytes.as_slice(), backup.bytes()), (&br#""pieces""#[..], 8));
    for server in [&busy, &free] {
        let lines: Vec<String> = server.recorded("GET").into_iter().map(|request| request.line).collect();
        assert_eq!(lines, ["GET /v1/cluster/backup?consistency=local HTTP/1.1"]);
    }
}

#[tokio::test]
async fn a_busy_server_and_a_refusal_are_different_errors() {
    let busy = Server::start(|_, _| problem(429, "backup_busy")).await;
    let error = busy.client(SECOND / 2).backups().take().await.unwrap_err();
    assert!(matches!(&error, Error::Busy { .. }) && error.is_retryable(), "{error:?}");
    let denied = Server::start(|_, _| problem(403, "denied")).await;
    let error = denied.client(10 * SECOND).backups().take().await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 403, .. }), "{error:?}");
    assert_eq!(denied.recorded("GET").len(), 1, "it is not repeated");
}

#[tokio::test]
async fn a_backup_that_breaks_off_is_an_error() {
    let server = Server::start(|_, _| Action::Answer(200, "transfer-encoding: chunked\r\n", json!("no chunk"))).await;
    let mut backup = server.client(10 * SECOND).backups().take().await.unwrap();
    let error = backup.chunk().await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

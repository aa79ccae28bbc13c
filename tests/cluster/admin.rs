//! What an administrator may do (break a lock, end a session by its number), and how it proves that it is one.

use crate::{
    client::{Call, new_key, whole},
    harness::{Cluster, SHORT, eventually, run_parallel, write_secret},
    queue::wait_for_contenders,
    streams::Stream,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

/// How long a changed token may take to be valid.
const READ_AGAIN_WITHIN: Duration = Duration::from_secs(20);

/// Waits until the log of every node has a text.
async fn said(cluster: &Cluster, text: &str) {
    eventually(text, READ_AGAIN_WITHIN, || async {
        cluster.nodes.iter().all(|node| node.log_text().contains(text)).then_some(())
    })
    .await;
}

fn break_lock(lock: &str, reason: &str) -> Call {
    Call::delete(&format!("/v1/locks/{lock}/holders?reason={reason}")).key(&new_key())
}

#[test]
fn a_broken_lock_goes_to_the_next_waiter_and_its_holder_learns_why() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let key = new_key();
        let mut stream = Stream::open(&cluster.nodes[1].url, "crane", "ttl=60s", &key);
        let token = whole(&stream.expect("held").await, "token");
        let next = {
            let client = cluster.client(2);
            tokio::spawn(async move { client.acquire("crane", "wait=60s").await })
        };
        wait_for_contenders(&client, "crane", 2).await;

        let order = break_lock("crane", "it+is+stuck");
        client.send(&order).await.expect_status(204);
        let lost = stream.expect_last("lost").await;
        assert_eq!((lost["id"].as_str(), lost["reason"].as_str()), (Some(key.as_str()), Some("broken")));
        let next = next.await.expect("the next waiter's task");
        assert!(next.token > token, "{next:?} after {token}");
        assert!(!client.fence_passes("crane", token).await, "the broken grant's token is dead");

        for node in 0..3 {
            let client = cluster.client(node);
            let gone = client.send(&Call::get(&format!("/v1/grants/{key}"))).await.expect_problem(410, "grant_gone");
            assert_eq!((gone.string("reason"), gone.string("note")), ("broken", "it is stuck"));
            let again = client.send(&Call::post("/v1/locks/crane").key(&key)).await.expect_problem(410, "grant_gone");
            assert_eq!(again.string("note"), "it is stuck");
            client.send(&order).await.expect_status(204);
        }
        assert_eq!(client.holders("crane").await, [next.number], "the repeated request ends no other grant");

        client.send(&break_lock("crane", "")).await.expect_status(204);
        client.send(&break_lock("crane", "")).await.expect_status(204);
        assert_eq!(client.holders("crane").await, [0_u64; 0]);
        let other = Call::delete("/v1/locks/other/holders").key(&next.id);
        client.send(&other).await.expect_problem(422, "idempotency_mismatch");
        let logged = cluster.nodes.iter().any(|node| node.log_text().contains("an administrator broke a lock"));
        assert!(logged, "a log has the break and its reason");
    });
}

#[test]
fn an_administrator_ends_a_session_by_its_number() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "wedged").await;
        let grant = client.acquire("safe", &format!("session={}", session.id)).await;
        let end = Call::delete(&format!("/v1/sessions/{}?reason=wedged", session.number));
        cluster.client(1).send(&end).await.expect_status(204);
        cluster.client(2).send(&end).await.expect_problem(404, "session_not_found");
        client.keepalive(&session).await.expect_problem(410, "session_expired");
        let gone = client.send(&Call::get(&format!("/v1/grants/{}", grant.id))).await.expect_problem(410, "grant_gone");
        assert_eq!((gone.string("reason"), gone.string("note")), ("broken", "wedged"));
        assert!(client.acquire("safe", "").await.token > grant.token);
    });
}

#[test]
fn administrators_need_the_token_if_one_is_set() {
    run_parallel(SHORT, async {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("token");
        write_secret(&file, "s3cret-of-the-file\n");
        let cluster = Cluster::start_with(&["--admin-token-file", file.to_str().expect("a name in UTF-8")]).await;
        let client = cluster.client(0);
        let session = client.open_session("60s", "owner").await;
        let held = client.acquire("guarded", "ttl=60s").await;
        let calls = [break_lock("guarded", "test"), Call::delete(&format!("/v1/sessions/{}", session.number))];
        for call in &calls {
            let refused = client.send(call).await.expect_problem(401, "unauthenticated");
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
            let wrong = call.clone().with("authorization", "Bearer s3cret-of-later-on");
            client.send(&wrong).await.expect_problem(403, "denied");
        }
        assert_eq!(client.holders("guarded").await, [held.number], "nothing was done");
        let secret = Call::delete(&format!("/v1/sessions/{}", session.id));
        client.send(&secret).await.expect_status(204);

        let right = calls[0].clone().with("authorization", "Bearer s3cret-of-the-file");
        client.send(&right).await.expect_status(204);
        // A file that was not written to its end, and one that nobody writes to, change nothing.
        fs::write(&file, "s").expect("the file");
        said(&cluster, "has a token that is too short").await;
        fs::remove_file(&file).expect("the file");
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        said(&cluster, "it is not a regular file").await;
        let cut = break_lock("guarded", "test").with("authorization", "Bearer s");
        client.send(&cut).await.expect_problem(403, "denied");
        client.send(&break_lock("guarded", "test").with("authorization", "Bearer s3cret-of-the-file")).await.expect_status(204);
        fs::remove_file(&file).expect("the FIFO");
        write_secret(&file, "s3cret-of-later-on\n");
        said(&cluster, "reloaded the administrators' token").await;
        let changed = break_lock("guarded", "test").with("authorization", "Bearer s3cret-of-later-on");
        eventually("the new token counts", READ_AGAIN_WITHIN, || async {
            (client.send(&changed).await.status == 204).then_some(())
        })
        .await;
        let open_to_all = "users other than its owner can read or write the file with the administrators' token";
        assert!(cluster.nodes.iter().all(|node| !node.log_text().contains(open_to_all)));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("the rights of the file");
        said(&cluster, open_to_all).await;
        for node in &cluster.nodes {
            assert!(!node.log_text().contains("s3cret"), "the token is never logged");
        }
    });
}

//! The calls that change the members, and a client that learns of new members while it runs.

use crate::{
    SECOND,
    server::{Action, CLUSTER, Server, held, problem, renewed},
};
use fairhold_client::{
    Client, Code, Error, JoinTokenNumber, MemberRole, Revision, Timing, WatchEvent,
    types::{
        call::{CreateJoinToken, MemberPriority, SetMember},
        dto::JoinPhase,
        watch::{WatchLine, What},
    },
};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

fn created(number: u64, token: Option<&str>) -> Action {
    let mut body = json!({"number": number, "role": "voter", "replaces": 2, "standing": false, "command": "fairhold serve"});
    if let Some(token) = token {
        body["token"] = token.into();
    }
    Action::Answer(201, "", body)
}

#[tokio::test]
async fn a_join_token_whose_answer_was_lost_is_revoked_and_another_one_is_created() {
    let server = Server::start(|request, before| match (request.line.starts_with("POST"), before) {
        (false, _) => Action::Answer(204, "", Value::Null),
        // The first answer is lost: the retry learns the number, and not the token.
        (true, 0) => Action::Close,
        (true, 1) => created(7, None),
        (true, _) => created(8, Some("fhj1.abc")),
    })
    .await;
    let cluster = server.client(10 * SECOND).cluster();
    let request: CreateJoinToken = serde_json::from_value(json!({"replaces": 2, "ttl": "1h"})).unwrap();
    let token = cluster.create_join_token(&request).await.unwrap();
    assert_eq!((token.number, token.token.as_deref(), token.replaces), (JoinTokenNumber(8), Some("fhj1.abc"), Some(2)));
    let sent = server.recorded("POST /v1/cluster/join-tokens ");
    assert!(sent.iter().all(|one| one.body == json!({"replaces": 2, "ttl": "3600s"})), "{sent:?}");
    assert!(sent[0].key == sent[1].key && sent[1].key != sent[2].key, "{sent:?}");
    assert_eq!(server.recorded("DELETE /v1/cluster/join-tokens/7 ").len(), 1);
}

#[tokio::test]
async fn the_members_are_read_and_changed() {
    let members = || {
        json!({
            "members": [
                {"id": 1, "url": "http://n1:7171", "peer": "n1:7271", "role": "leader", "priority": 50, "new": 1},
                {"id": 2, "url": "http://n2:7171", "peer": "n2:7271", "role": "follower", "priority": 80, "silent_for": "9s"},
            ],
            "joins": [{"id": 4, "url": "http://n4:7171", "peer": "n4:7271", "role": "voter", "replaces": 2,
                "phase": "catching_up", "lag": 9, "requested_at": "then"}],
            "removed": [{"id": 3, "revision": 9, "by": "curl@n1", "at": "then"}], "joint": false, "from_leader": true,
        })
    };
    let server = Server::start(move |request, _| match request.line.split(' ').next() {
        Some("GET" | "PATCH") => Action::Answer(200, "", members()),
        Some("DELETE") if request.line.contains("/2 ") => problem(409, "would_lose_quorum"),
        _ => Action::Answer(204, "", Value::Null),
    })
    .await;
    let cluster = server.client(10 * SECOND).cluster();
    let shown = cluster.members().await.unwrap();
    assert_eq!((shown.members.len(), shown.joins[0].phase, shown.removed[0].id), (2, JoinPhase::CatchingUp, 3));
    let change = SetMember { priority: MemberPriority::try_from(80).ok(), ..SetMember::default() };
    assert_eq!(cluster.set_member(2, &change).await.unwrap().members[1].priority, 80);
    assert_eq!(server.recorded("PATCH /v1/cluster/members/2 ")[0].body, json!({"priority": 80}));
    cluster.remove_member(3).await.unwrap();
    let refused = cluster.remove_member(2).await;
    assert!(matches!(refused, Err(Error::Refused { code: Some(Code::WouldLoseQuorum), .. })), "{refused:?}");
}

#[tokio::test]
async fn a_watch_of_the_cluster_reports_who_comes_and_goes_and_continues_at_its_revision() {
    let lines = [
        json!({"revision": 9, "type": "joining", "member": 4, "role": "voter", "replaces": 2}),
        json!({"revision": 10, "type": "removed", "member": 2, "by": "replaced by node 4"}),
        json!({"revision": 11, "type": "bookmark"}),
    ];
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let server = Server::start(move |request, _| match request.line.starts_with("GET /v1/watch?cluster&from=9 ") {
        true => Action::Foreign(200, CLUSTER, body.clone()),
        false => Action::Hang,
    })
    .await;
    let mut watching = server.client(10 * SECOND).watch().cluster().from(Revision(9)).await.unwrap();
    let joining = What::MemberJoining { member: 4, role: MemberRole::Voter, replaces: Some(2) };
    let removed = What::MemberRemoved { member: 2, by: "replaced by node 4".to_owned() };
    for (revision, what) in [(9, joining), (10, removed)] {
        assert_eq!(watching.next().await, Some(Ok(WatchEvent::Change(WatchLine::new(Revision(revision), what)))));
    }
    assert_eq!(watching.next().await, Some(Ok(WatchEvent::Bookmark(Revision(11)))));
    server.wait_for_requests("GET /v1/watch?cluster&from=12 ", 1).await;
}

#[tokio::test]
async fn an_unknown_line_of_an_earlier_revision_does_not_move_a_watch_back() {
    let lines = [
        json!({"revision": 9, "type": "created", "path": "/a"}),
        json!({"revision": 9, "type": "created", "path": "/b"}),
        json!({"revision": 9, "type": "bookmark"}),
        json!({"revision": 9, "type": "of_next_year"}),
    ];
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let server = Server::start(move |request, _| match request.line.contains("&from=9 ") {
        true => Action::Foreign(200, CLUSTER, body.clone()),
        false => Action::Hang,
    })
    .await;
    let _watching = server.client(10 * SECOND).watch().from(Revision(9)).await.unwrap();
    let resumed = server.wait_for_requests("GET /v1/watch", 2).await;
    assert!(resumed[1].line.contains("from=10 "), "{resumed:?}");
}

#[tokio::test]
async fn the_timing_comes_from_the_leader() {
    let body = |from_leader: bool| json!({"timing": "lan", "fits": "wan", "members": [], "from_leader": from_leader});
    let leader = Server::start(move |_, _| Action::Answer(200, "", body(true))).await;
    let header: &'static str = format!("fairhold-leader: {}\r\n", leader.url).leak();
    let follower = Server::start(move |request, _| match request.line.starts_with("GET") {
        true => Action::Answer(200, header, body(false)),
        false => Action::Answer(200, "", json!({"timing": "wan", "cluster_version": 2})),
    })
    .await;
    let cluster = follower.client(10 * SECOND).cluster();
    let timing = cluster.timing().await.unwrap();
    assert!(timing.from_leader && timing.timing == Timing::Lan && timing.fits == Some(Timing::Wan), "{timing:?}");
    assert_eq!(cluster.set_timing(Timing::Wan).await.unwrap().timing, Timing::Wan);
    assert_eq!(follower.recorded("PATCH /v1/cluster/settings ")[0].body, json!({"timing": "wan"}));
}

/// A cluster whose only member leads, at this URL.
fn led_by(url: &str) -> Value {
    let member = json!({"id": 4, "url": url, "peer": "n4:7271", "role": "leader"});
    json!({"id": 1, "role": "follower", "term": 7, "leader": 4, "version": "0.2.0", "revision": 9, "grants": 0, "wakeups": 0,
        "members": [member]})
}

#[tokio::test]
async fn a_client_that_only_renews_reads_the_members_soon_after_they_have_changed() {
    let new = Server::start(|_, _| Action::Hang).await;
    let url = new.url.clone();
    let server = Server::start(move |request, before| match &request.line {
        // Another node joins after the first read.
        line if line.starts_with("GET /v1/cluster ") && before == 0 => {
            Action::Answer(200, "fairhold-members: 7\r\n", led_by("http://127.0.0.1:1"))
        }
        line if line.starts_with("GET /v1/cluster ") => Action::Answer(200, "fairhold-members: 9\r\n", led_by(&url)),
        line if line.starts_with("POST /v1/locks") => held(request),
        line if line.starts_with("POST /v1/grants") => {
            let Action::Answer(status, _, body) = renewed(request, "3s") else { panic!("the renewal has an answer") };
            Action::Answer(status, "fairhold-members: 9\r\n", body)
        }
        line if line.starts_with("DELETE") => Action::Answer(204, "", Value::Null),
        _ => Action::Hang,
    })
    .await;
    let client = Client::builder().endpoint(&server.url).timeout(10 * SECOND).build().unwrap();
    let guard = client.lock("a").ttl(3 * SECOND).await.unwrap();
    server.wait_for_requests("POST /v1/grants", 1).await;
    let heard = Instant::now();
    server.wait_for_requests("GET /v1/cluster ", 2).await;
    assert!(heard.elapsed() < 2 * SECOND, "it read them only after {:?}", heard.elapsed());
    let learned = async {
        while !client.endpoints().contains(&new.url) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(10 * SECOND, learned).await.expect("the client learns the new member");
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_client_goes_on_after_every_given_node_was_replaced() {
    // The old node reports the new one, and then it is gone.
    let new = Server::start(|_, _| Action::Answer(200, "", json!({"timing": "lan", "cluster_version": 2}))).await;
    let is_gone = Arc::new(Mutex::new(false));
    let (gone, url) = (Arc::clone(&is_gone), new.url.clone());
    let old = Server::start(move |request, _| {
        if *gone.lock().unwrap() {
            return Action::Close;
        }
        if request.line.starts_with("GET /v1/cluster ") {
            return Action::Answer(200, "", led_by(&url));
        }
        Action::Answer(200, "", json!({"timing": "lan", "cluster_version": 2}))
    })
    .await;
    let client = Client::builder().endpoint(&old.url).timeout(10 * SECOND).build().unwrap();
    let cluster = client.cluster();
    cluster.settings().await.unwrap();
    old.wait_for_requests("GET /v1/cluster ", 1).await;
    // The answer with the new member follows the request.
    let learned = async {
        while !client.endpoints().contains(&new.url) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(10 * SECOND, learned).await.expect("the client learns the new member");
    *is_gone.lock().unwrap() = true;
    assert_eq!(cluster.settings().await.unwrap().timing, Timing::Lan);
    assert!(!new.recorded("GET /v1/cluster/settings ").is_empty());
    assert!(client.endpoints().contains(&old.url), "a given address stays");
}

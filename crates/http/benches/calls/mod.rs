//! Requests as callers send them and values as the node returns them, for the benchmarks of this crate.

use axum::{body::Body, extract::Request};
use fairhold_http::Peer;
use fairhold_node::api::GrantView;
use fairhold_state::{
    record::{NodeKind, NodeRole, Znode},
    value::Value,
};
use fairhold_types::{FencingToken, GrantId, GrantNumber, LockName, Mode, Revision, SessionNumber, dto::Meta, time::WallMillis};
use std::{net::Ipv4Addr, time::Duration};

/// The runtime for reading a body: the timeout for its arrival uses the runtime's clock.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// The time of every request.
pub(crate) const NOW: WallMillis = WallMillis(1_763_700_840_120);

/// The grant's id if the caller gave no key.
pub(crate) fn new_id() -> GrantId {
    GrantId::from_ulid(0x0193_5d2a_7f3c_0123_4567_89ab_cdef_0123)
}

/// An acquire with its parameters in the query.
pub(crate) fn by_query() -> Request {
    post("/v1/locks/orders%2F42?wait=30s&session=0123456789abcdef0123456789abcdef&owner=ci-7", Body::empty())
}

/// The same with a JSON body.
pub(crate) fn by_body() -> Request {
    let body = r#"{"wait":"30s","session":"0123456789abcdef0123456789abcdef","owner":"ci-7"}"#;
    post("/v1/locks/orders%2F42", Body::from(body))
}

fn post(uri: &str, body: Body) -> Request {
    Request::post(uri)
        .header("host", "127.0.0.1:7171")
        .header("user-agent", "curl/8.5.0")
        .header("accept", "*/*")
        .header("content-type", "application/json")
        .header("idempotency-key", "01JD5TMZSW04HMASW9NF6YZR93")
        .extension(Peer::at(Ipv4Addr::LOCALHOST.into()))
        .body(body)
        .expect("a request")
}

/// A grant that holds its lock.
pub(crate) fn grant() -> GrantView {
    GrantView {
        id: new_id(),
        number: GrantNumber(1_000_041),
        lock: LockName::parse("orders/42").expect("a name"),
        others: Vec::new(),
        holds: 1,
        revoked: None,
        session: SessionNumber(1_000_040),
        anonymous: true,
        token: Some(FencingToken(1_000_042)),
        mode: Mode::Exclusive,
        permits: 1,
        owner: "ci-7".to_owned(),
        meta: Meta::new(),
        queue_position: None,
        waits_for: None,
        deadlock_checked: true,
        queued_at: NOW,
        held_since: Some(NOW),
        expires_in: Some(Duration::from_secs(30)),
        attempt_to_abandon: None,
    }
}

/// A node of the tree with 100 bytes.
pub(crate) fn node() -> Znode {
    Znode {
        czxid: Revision(1_000_041),
        mzxid: Revision(1_000_042),
        pzxid: Revision(1_000_041),
        ctime: NOW,
        mtime: NOW,
        version: 7,
        aversion: 0,
        creates: 0,
        num_children: 0,
        ephemeral_owner: SessionNumber(0),
        kind: NodeKind::Persistent.into(),
        value: Value::from(&[7; 100][..]),
        role: NodeRole::Data,
        acl: None,
    }
}

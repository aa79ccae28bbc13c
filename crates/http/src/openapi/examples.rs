//! Examples of parameters and answers. An example on a field of a request's type takes precedence over the one here for its
//! name.

use serde_json::{Value, json};

/// A grant's secret id; an idempotency key has the same format.
pub(super) const GRANT_ID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
/// A session's secret id.
pub(super) const SESSION_ID: &str = "5f2b0c6e9d8a4b1f9c3e7a6d5b4c3d2e";
/// A cluster's id.
const CLUSTER_ID: &str = "448c31b1e13a52809e0db18f63a5bda5";
/// The value of a node.
pub(super) const VALUE: &str = "v1.7";
/// The first lines of the front page as text.
pub(super) const FRONT_PAGE: &str =
    "Fairhold 0.1.0, node 2\nFair locks over HTTP. The cluster serves. This node leads, in term 7.\n";
/// The first lines of `/metrics`.
pub(super) const METRICS: &str =
    "# HELP fairhold_leader Whether this node leads.\n# TYPE fairhold_leader gauge\nfairhold_leader 1\n";

/// Why an upgrade cannot be finalized yet.
pub(super) const BLOCKER: &str = "node 3 runs 0.1.0, which supports cluster version 1: restart it with a newer program";

/// The usual example of a parameter or header with that name; `null` if there is none.
pub(super) fn usual(name: &str) -> Value {
    match name {
        "wait" | "ttl" => json!("30s"),
        "lock_delay" => json!("10s"),
        "max_hold" => json!("1h"),
        "Fairhold-Timeout" => json!("2s"),
        "Fairhold-Cluster" => json!(CLUSTER_ID),
        "session" => json!(SESSION_ID),
        "grant" | "Idempotency-Key" => json!(GRANT_ID),
        "owner" => json!("ci-7"),
        "meta" => json!({ "build": "81" }),
        "name" => json!("worker-3"),
        "value" => json!("http://10.0.0.7:8080"),
        "reason" => json!("ci-7 hangs"),
        "priority" => json!(10),
        "limit" => json!(20),
        "permits" | "to" => json!(2),
        "max_waiters" => json!(100),
        "token" | "after" | "from" => json!(42),
        "Fairhold-Min-Revision" | "Last-Event-ID" => json!("42"),
        "mode" => json!("shared"),
        "hold" => json!("stream"),
        "consistency" => json!("local"),
        "prefix" => json!("orders/"),
        "state" => json!("queued"),
        "sort" => json!("longest_wait"),
        "at" => json!("2026-11-21T14:03:27Z"),
        "Fairhold-Route" => json!("redirect"),
        "If-None-Match" => json!("*"),
        _ => Value::Null,
    }
}

/// The lock of the other examples, with a holder and a waiter.
pub(super) fn queue() -> [Value; 2] {
    let holder = json!({
        "number": 41, "session": 40, "state": "held", "position": 1, "token": 42, "mode": "exclusive", "permits": 1,
        "owner": "ci-7", "since": "2026-01-01T12:00:00.000Z", "queued_at": "2026-01-01T12:00:00.000Z", "held_for": "31s",
        "meta": { "build": "81" },
    });
    let waiter = json!({
        "number": 57, "session": 57, "state": "queued", "position": 2, "mode": "exclusive", "permits": 1, "owner": "ci-9",
        "since": "2026-01-01T12:00:07.000Z", "queued_at": "2026-01-01T12:00:07.000Z", "estimate": "40s",
        "waits_for": { "number": 41, "owner": "ci-7" },
    });
    [holder, waiter]
}

/// A cluster of three, as its leader sees it.
pub(super) fn cluster() -> Value {
    let member = |id: u64, role: &str| {
        json!({
            "id": id, "url": format!("http://n{id}:7171"), "peer": format!("n{id}:7271"), "role": role, "match_index": 4711,
            "lag": 0, "state_bytes_max": 134_217_728,
        })
    };
    json!({
        "cluster": "8c1f4b0e6a2d4e5f9b7a3c2d1e0f4a5b", "id": 1, "role": "leader", "term": 7, "leader": 1,
        "leader_url": "http://n1:7171", "version": env!("CARGO_PKG_VERSION"), "cluster_version": 2, "revision": 9012,
        "last_log_index": 4711, "applied_index": 4711, "state_bytes": 41_000_000, "state_bytes_max": 134_217_728,
        "audit": {
            "seq": 7, "hash": "90b9f254d9630f4ebaead03bc7fdaf375e2fb80b6114ae5bbe4505dbfe373afe",
        },
        "grants": 830, "wakeups": 112,
        "members": [member(1, "leader"), member(2, "follower"), member(3, "follower")],
    })
}

/// The upgrade of a cluster whose node 3 is still to be upgraded.
pub(super) fn upgrade() -> Value {
    let upgraded = |id: u64| json!({ "id": id, "version": "0.2.0", "supports": [1, 2] });
    let mut follower = upgraded(2);
    follower["silent_for"] = "12ms".into();
    let older = json!({ "id": 3, "version": "0.1.0", "supports": [1, 1], "silent_for": "31ms" });
    json!({
        "cluster_version": 1, "next": 2, "ready": false, "members": [upgraded(1), follower, older], "blockers": [BLOCKER],
    })
}

/// The same cluster after the upgrade.
pub(super) fn upgraded() -> Value {
    let member = |id: u64| json!({ "id": id, "version": "0.2.0", "supports": [1, 2] });
    json!({ "cluster_version": 2, "ready": false, "members": [member(1), member(2), member(3)], "blockers": [] })
}

/// The readiness of a server that can serve, or of one that cannot.
pub(super) fn readiness(ready: bool) -> Value {
    let mut readiness = json!({
        "ready": ready, "shutting_down": false, "leader": "http://n1:7171", "revision": 9012,
        "host": {
            "time": "2026-01-01T12:00:00.000Z", "disk_free_bytes": 41_000_000_000_u64, "disk_bytes": 80_000_000_000_u64,
            "open_files": 64, "open_files_max": 1024,
        },
    });
    if !ready {
        readiness["reason"] = "there is no known leader: a majority of the nodes must be able to reach each other".into();
        readiness.as_object_mut().and_then(|fields| fields.remove("leader"));
    }
    readiness
}

/// The stat of a node.
pub(super) fn stat() -> Value {
    json!({
        "path": "/jobs/nightly", "czxid": 42, "mzxid": 57, "pzxid": 42, "ctime": "2026-01-01T12:00:00.000Z",
        "mtime": "2026-01-01T12:00:07.000Z", "version": 1, "cversion": 0, "aversion": 0, "ephemeral_owner": 0,
        "data_length": 4, "num_children": 0,
    })
}

//! Describes the calls about the cluster and this server.

use super::{
    describe::{DescribeCall, Describer, Operation},
    examples,
    operation::OperationKind::{Here, Keyed, Read},
};
use fairhold_types::{Code, call, dto};
use http::{Method, StatusCode};
use serde_json::json;

const TAG: &str = "cluster";
const BACKUP: &str = "application/vnd.fairhold.backup";

pub(super) const CALLS: &[DescribeCall] = &[
    cluster,
    alarms,
    hand_over,
    take_snapshot,
    take_backup,
    show_upgrade,
    finalize_upgrade,
    live,
    ready,
    version,
    metrics,
    openapi,
    front_page,
];

fn cluster(api: &mut Describer) -> Operation<'_> {
    api.call(Here, "/v1/cluster", "getCluster", TAG, "Show the cluster as this server sees it.")
        .about("Every server answers this itself, even without a quorum.")
        .query::<call::ShowCluster>()
        .json::<dto::Cluster>("The cluster.", examples::cluster())
        .with_members()
        .codes(&[Code::BadRequest])
}

fn alarms(api: &mut Describer) -> Operation<'_> {
    let example = json!({ "alarm": "majority_at_risk", "severity": "critical", "since": "2026-01-01T12:00:00.000Z",
        "seen": "node 3 does not answer, and 2 of 3 voters do: one more failure stops the service",
        "do": "start node 3, or repair the network to it; if its machine is lost: fairhold cluster replace 3" });
    api.call(Here, "/v1/cluster/alarms", "getAlarms", TAG, "Show the alarms that this server raises now.")
        .about(
            "Every server answers this itself, even without a quorum, and tells only what it knows itself. The leader knows the \
             other members. An alarm is gone when its cause is.",
        )
        .json::<dto::Alarms>("The alarms.", json!({ "id": 1, "alarms": [example] }))
        .codes(&[Code::BadRequest, Code::WrongCluster])
}

fn hand_over(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/cluster/leader", "handOver", TAG, "Transfer the leadership to another voter.")
        .about(
            "For administrators. The server answers when the other voter leads. You can send the request to any server. With an \
             Idempotency-Key the transfer happens once: the server answers a repeated request with the current leader.",
        )
        .form::<call::HandOver>(None, json!({ "to": 2 }))
        .json::<dto::Leader>("The voter leads.", json!({ "leader": 2, "leader_url": "http://n2:7171", "term": 7 }))
        .codes(&[Code::NotFound, Code::AlreadyLeader, Code::NotCaughtUp])
        .admin()
}

fn take_snapshot(api: &mut Describer) -> Operation<'_> {
    api.call(Keyed(Method::POST), "/v1/cluster/snapshot", "takeSnapshot", TAG, "Take a snapshot of this server's state now.")
        .about(
            "For administrators. The snapshot is of the server that you call; servers also take snapshots on their own. The \
             server answers when the snapshot is stored.",
        )
        .form::<call::Empty>(None, json!({}))
        .json::<dto::SnapshotTaken>("The snapshot is stored.", json!({ "id": 2, "snapshot_index": 4711 }))
        .admin()
}

fn take_backup(api: &mut Describer) -> Operation<'_> {
    let file = json!({ "type": "string", "contentMediaType": BACKUP });
    api.call(Read, "/v1/cluster/backup", "takeBackup", TAG, "Read a backup of the whole state, for a restore.")
        .about(
            "For administrators. Any server answers, with everything that was acknowledged before the request. It encodes the \
             backup while you read it, and nothing else waits for it. A server makes one such backup at a time: another \
             request gets `backup_busy`. A reader that takes more than 30 s for one block, or on average less than 256 KiB \
             a second, is cut off. A backup that ends early, for whatever reason, has no trailer: verify it before you keep \
             it, as `fairhold backup save` does. No session, no grant and no id is in it, but all values are, and the hashes \
             of tokens.",
        )
        .query::<call::TakeBackup>()
        .content("The backup, as it is made.", BACKUP, file, json!("FAIRHOLD-BACKUP…"))
        .codes(&[Code::BackupBusy])
        .admin()
}

fn show_upgrade(api: &mut Describer) -> Operation<'_> {
    api.call(Here, "/v1/cluster/upgrade", "getUpgrade", TAG, "Show the cluster's version, and what its members support.")
        .about(
            "The leader's view. If the leader does not answer within the timeout, this server answers with its own view, even \
             without a quorum.",
        )
        .timeout()
        .json::<dto::ClusterUpgrade>("The version and the members.", examples::upgrade())
        .codes(&[Code::BadRequest, Code::WrongCluster])
}

fn finalize_upgrade(api: &mut Describer) -> Operation<'_> {
    let summary = "Raise the cluster's version to the next one, after every member is upgraded.";
    api.call(Keyed(Method::POST), "/v1/cluster/upgrade/finalize", "finalizeUpgrade", TAG, summary)
        .about(
            "For administrators. There is no way back: a program that does not support the new version cannot start any more. If \
             the cluster has the version already, nothing changes, so the request is safe to repeat, with or without an \
             Idempotency-Key.",
        )
        .form::<call::FinalizeUpgrade>(None, json!({ "to": 2 }))
        .json::<dto::ClusterUpgrade>("The cluster has the version.", examples::upgraded())
        .codes(&[Code::NotAllUpgraded])
        .admin()
}

fn live(api: &mut Describer) -> Operation<'_> {
    api.call(Here, "/livez", "live", TAG, "Check whether the process runs.")
        .content("The process runs.", "text/plain", json!({ "type": "string", "const": "ok\n" }), json!("ok\n"))
        .codes(&[Code::BadRequest])
}

fn ready(api: &mut Describer) -> Operation<'_> {
    api.call(Here, "/readyz", "ready", TAG, "Check whether this server can serve.")
        .about("It can if the leader proves to it that it leads, and if the leader's messages reach it.")
        .query::<call::Ready>()
        .content("The server can serve.", "text/plain", json!({ "type": "string", "const": "ok\n" }), json!("ok\n"))
        .json::<dto::Readiness>("", examples::readiness(true))
        .json_as::<dto::Readiness>(StatusCode::SERVICE_UNAVAILABLE, "The server cannot serve.", examples::readiness(false))
        .codes(&[Code::BadRequest, Code::NoQuorum, Code::ShuttingDown])
}

fn version(api: &mut Describer) -> Operation<'_> {
    api.call(Here, "/version", "version", TAG, "Show the program's name and version.")
        .json::<dto::Version>("The name and the version.", json!({ "name": "fairhold", "version": env!("CARGO_PKG_VERSION") }))
        .codes(&[Code::BadRequest])
}

fn metrics(api: &mut Describer) -> Operation<'_> {
    let text = json!({ "type": "string" });
    let (plain, open) =
        ("text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8");
    api.call(Here, "/metrics", "getMetrics", TAG, "Show this server's metrics.")
        .about("In the text format of Prometheus, or of OpenMetrics if `Accept` names it.")
        .content("The metrics.", plain, text.clone(), examples::METRICS.into())
        .content("", open, text, format!("{}# EOF\n", examples::METRICS).into())
        .codes(&[Code::BadRequest])
}

fn front_page(api: &mut Describer) -> Operation<'_> {
    let text = json!({ "type": "string" });
    api.call(Here, "/", "getFrontPage", TAG, "A page for people: what this is, whether it serves, and where to continue.")
        .about("As text. If `Accept` names HTML, as browsers do, the answer leads to the dashboard.")
        .content("The page.", "text/plain; charset=utf-8", text, examples::FRONT_PAGE.into())
        .empty(StatusCode::SEE_OTHER, "You are a browser: `Location` is the dashboard.")
        .codes(&[Code::BadRequest, Code::NotFound])
}

fn openapi(api: &mut Describer) -> Operation<'_> {
    let example = json!({ "openapi": "3.1.0", "info": { "title": "Fairhold" }, "paths": {} });
    api.call(Here, "/openapi.json", "getDescription", TAG, "This description.")
        .about("Compressed if `Accept-Encoding` names gzip. With `If-None-Match` and the ETag of an earlier answer, `304`.")
        .content("The description.", "application/json", json!({ "type": "object" }), example)
        .empty(StatusCode::NOT_MODIFIED, "You already have this version.")
        .codes(&[Code::BadRequest])
}

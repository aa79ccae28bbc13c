//! Describes the calls about the cluster and this server.

use super::{
    describe::{DescribeCall, Describer},
    examples,
    operation::{DescribedCall, OperationKind},
};
use fairhold_types::{Code, call, dto};
use http::{Method, StatusCode};
use serde_json::json;

const TAG: &str = "cluster";

pub(super) const CALLS: &[DescribeCall] =
    &[cluster, hand_over, take_snapshot, live, ready, version, metrics, openapi, front_page];

fn cluster(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::GET, "/v1/cluster", "getCluster", TAG, "Show the cluster as this server sees it.")
        .about("Every server answers this itself, even without a quorum.")
        .query::<call::ShowCluster>()
        .json::<dto::Cluster>(StatusCode::OK, "The cluster.", examples::cluster())
        .codes(&[Code::BadRequest])
        .finish_as(OperationKind::Here)
}

fn hand_over(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::POST, "/v1/cluster/leader", "handOver", TAG, "Transfer the leadership to another voter.")
        .about(
            "For administrators. The server answers when the other voter leads. You can send the request to any server. With an \
             Idempotency-Key the transfer happens once: the server answers a repeated request with the current leader.",
        )
        .form::<call::HandOver>(None, json!({ "to": 2 }))
        .json::<dto::Leader>(
            StatusCode::OK,
            "The voter leads.",
            json!({ "leader": 2, "leader_url": "http://n2:7171", "term": 7 }),
        )
        .codes(&[Code::NotFound, Code::AlreadyLeader, Code::NotCaughtUp, Code::TooLarge])
        .admin()
        .finish_as(OperationKind::Keyed)
}

fn take_snapshot(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::POST, "/v1/cluster/snapshot", "takeSnapshot", TAG, "Take a snapshot of this server's state now.")
        .about(
            "For administrators. The snapshot is of the server that you call; servers also take snapshots on their own. The \
             server answers when the snapshot is stored.",
        )
        .form::<call::Empty>(None, json!({}))
        .json::<dto::SnapshotTaken>(StatusCode::OK, "The snapshot is stored.", json!({ "id": 2, "snapshot_index": 4711 }))
        .codes(&[Code::TooLarge])
        .admin()
        .finish_as(OperationKind::Keyed)
}

fn live(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::GET, "/livez", "live", TAG, "Check whether the process runs.")
        .content(StatusCode::OK, "The process runs.", "text/plain", json!({ "type": "string", "const": "ok\n" }))
        .example(StatusCode::OK, "text/plain", json!("ok\n"))
        .codes(&[Code::BadRequest])
        .finish_as(OperationKind::Here)
}

fn ready(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::GET, "/readyz", "ready", TAG, "Check whether this server can serve.")
        .query::<call::Ready>()
        .content(StatusCode::OK, "The server can serve.", "text/plain", json!({ "type": "string", "const": "ok\n" }))
        .example(StatusCode::OK, "text/plain", json!("ok\n"))
        .json::<dto::Readiness>(StatusCode::OK, "", examples::readiness(true))
        .json::<dto::Readiness>(StatusCode::SERVICE_UNAVAILABLE, "The server cannot serve.", examples::readiness(false))
        .codes(&[Code::BadRequest, Code::NoQuorum, Code::ShuttingDown])
        .finish_as(OperationKind::Here)
}

fn version(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::GET, "/version", "version", TAG, "Show the program's name and version.")
        .json::<dto::Version>(
            StatusCode::OK,
            "The name and the version.",
            json!({ "name": "fairhold", "version": env!("CARGO_PKG_VERSION") }),
        )
        .codes(&[Code::BadRequest])
        .finish_as(OperationKind::Here)
}

fn metrics(describe: &mut Describer) -> DescribedCall {
    let text = json!({ "type": "string" });
    let (plain, open) =
        ("text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8");
    describe
        .call(Method::GET, "/metrics", "getMetrics", TAG, "Show this server's metrics.")
        .about("In the text format of Prometheus, or of OpenMetrics if `Accept` names it.")
        .content(StatusCode::OK, "The metrics.", plain, text.clone())
        .example(StatusCode::OK, plain, examples::METRICS.into())
        .content(StatusCode::OK, "", open, text)
        .example(StatusCode::OK, open, format!("{}# EOF\n", examples::METRICS).into())
        .codes(&[Code::BadRequest])
        .finish_as(OperationKind::Here)
}

fn front_page(describe: &mut Describer) -> DescribedCall {
    let text = json!({ "type": "string" });
    describe
        .call(Method::GET, "/", "getFrontPage", TAG, "A page for people: what this is, whether it serves, and where to continue.")
        .about("As HTML if `Accept` names it, which browsers do, otherwise as text.")
        .content(StatusCode::OK, "The page.", "text/plain; charset=utf-8", text.clone())
        .example(StatusCode::OK, "text/plain; charset=utf-8", examples::FRONT_PAGE.into())
        .content(StatusCode::OK, "", "text/html; charset=utf-8", text)
        .example(StatusCode::OK, "text/html; charset=utf-8", json!("<!doctype html><html lang=\"en\">…</html>\n"))
        .codes(&[Code::BadRequest])
        .finish_as(OperationKind::Here)
}

fn openapi(describe: &mut Describer) -> DescribedCall {
    describe
        .call(Method::GET, "/openapi.json", "getDescription", TAG, "This description.")
        .about("Compressed if `Accept-Encoding` names gzip. With `If-None-Match` and the ETag of an earlier answer, `304`.")
        .content(StatusCode::OK, "The description.", "application/json", json!({ "type": "object" }))
        .example(StatusCode::OK, "application/json", json!({ "openapi": "3.1.0", "info": { "title": "Fairhold" }, "paths": {} }))
        .empty(StatusCode::NOT_MODIFIED, "You already have this version.")
        .codes(&[Code::BadRequest])
        .finish_as(OperationKind::Here)
}

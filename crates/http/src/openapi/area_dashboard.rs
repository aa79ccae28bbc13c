//! Describes the calls of the dashboard: the overview, the tree of waits, and the pages themselves.

use super::{
    describe::{DescribeCall, Describer, Operation},
    examples,
    operation::OperationKind::Here,
};
use fairhold_node::api::SERIES_NAMES;
use fairhold_types::{Code, call, dto, limits::WAIT_HOLDS_MAX};
use http::StatusCode;
use serde_json::{Value, json};

const TAG: &str = "dashboard";

pub(super) const CALLS: &[DescribeCall] = &[overview, series, waits, folder, index, file];

fn overview(api: &mut Describer) -> Operation<'_> {
    let alarm = json!({
        "severity": "critical", "check": "majority_at_risk", "since": "2026-01-01T11:58:00.000Z",
        "seen": "node 3 does not answer, and 2 of 3 voters do: one more failure stops the service",
        "do": "start node 3, or repair the network to it; if its machine is lost: fairhold cluster replace N",
    });
    let lock = json!({
        "severity": "warning", "check": "held_too_long", "lock": "deploy",
        "seen": "deploy has been held for 3h02m; usual is 40s, and 12 wait",
        "do": "ask its holder what it is doing; if it hangs: fairhold locks revoke, then fairhold locks break",
    });
    let mut members = examples::cluster()["members"].clone();
    members[1]["reachable"] = true.into();
    members[1]["figures"] = json!({
        "as_of": "2026-01-01T12:00:30.000Z", "version": env!("CARGO_PKG_VERSION"), "ready": true, "applied_index": 4709,
        "behind": 2, "snapshot_index": 4000, "log_entries": 712, "disk_free_bytes": 41_000_000_000_u64,
        "disk_bytes": 80_000_000_000_u64, "clock_ahead_ms": 3, "clock_doubt_ms": 2, "open_files": 64, "open_files_max": 1024,
        "started_at": "2026-01-01T08:00:00.000Z",
    });
    let example = json!({
        "id": 1, "version": env!("CARGO_PKG_VERSION"), "cluster": "8c1f4b0e6a2d4e5f9b7a3c2d1e0f4a5b", "role": "leader",
        "term": 7, "leader": 1, "revision": 9012, "as_of": "2026-01-01T12:00:31.000Z",
        "totals": {
            "locks": 700, "held": 640, "queued": 95, "cooling": 1, "sessions": 702, "granted": 83_000,
            "handed_over": 41_000, "lost": 12,
        },
        "recent": { "over": "10s", "grants": 4_123, "handed_over": 3_901, "lost": 0, "refused": 1 },
        "members": members,
        "problems": [alarm, lock],
        "waiting_longest": [{
            "lock": "deploy", "number": 91, "session": 52, "owner": "ci-9", "since": "2026-01-01T09:01:00.000Z",
            "waiting": "10771s", "queue_length": 12, "waits_for": { "number": 88, "owner": "ci-7" },
        }],
        "held_longest": [{
            "lock": "deploy", "number": 88, "session": 41, "owner": "ci-7", "since": "2026-01-01T08:58:00.000Z",
            "held_for": "10951s", "usual": "40s", "queue_length": 12,
        }],
        "hot": [{
            "lock": "orders/42", "grants_per_minute": 352, "hand_overs_per_minute": 340, "wait_p50": "80ms", "queue_length": 18,
        }],
        "refused": [{ "at": "2026-01-01T11:59:58.000Z", "cycle": [
            { "session": 52, "owner": "ci-9", "lock": "stock" }, { "session": 41, "owner": "ci-7", "lock": "deploy" },
        ] }],
        "refused_since": "2026-01-01T08:00:00.000Z",
    });
    api.call(Here, "/v1/overview", "getOverview", TAG, "Show the cluster at a glance.")
        .about(
            "Every server answers this from its own state, even without a quorum, and asks the other members only for their \
             `figures`. Callers that may see the same locks share one answer for a second. The lists leave out what the \
             caller may not see; the totals count everything. `refused` has up to 64 entries, fewer if names are long, and \
             only those whose locks the caller may all see. The other lists of locks have ten entries at most. `refused` and \
             `recent` are in memory only.",
        )
        .query::<call::ShowOverview>()
        .timeout()
        .json::<dto::Overview>("The overview.", example)
        .codes(&[Code::BadRequest, Code::WrongCluster, Code::Overloaded, Code::Unauthenticated, Code::Denied])
}

fn series(api: &mut Describer) -> Operation<'_> {
    let example = json!({
        "step": "1s", "to": "2026-01-01T12:00:31.000Z", "names": SERIES_NAMES,
        "rows": [[1_767_268_831_000_u64, 412, 390, 410, 0, 0, 0, 640, 95, 702, 5_000, 2_500, 0, 7]],
        "continues": true, "next": "1s-5f2b0c6e9d8a4b1f-601",
    });
    api.call(Here, "/v1/overview/series", "getOverviewSeries", TAG, "Show the totals of the last minutes or hours, as rows.")
        .about(
            "Each server answers from its own memory, even without a quorum, and loses the rows when it stops. It keeps 600 \
             rows of a second and 720 rows of a minute. The figures count all locks, including those that you may not see. \
             `refused`, `sync_p99_us` and `errors_5xx` are of this server alone, and only a leader measures `commit_p99_us`. If \
             `after` comes from another server, or from before the last start of this one, you get all rows, and `continues` is \
             `false`.",
        )
        .query::<call::ShowOverviewSeries>()
        .timeout()
        .json::<dto::OverviewSeries>("The rows.", example)
        .codes(&[Code::BadRequest, Code::WrongCluster, Code::Overloaded, Code::Unauthenticated, Code::Denied])
}

fn waits(api: &mut Describer) -> Operation<'_> {
    let row = |depth: u64, owner: &str, rest: Value| {
        let mut row = json!({ "depth": depth, "owner": owner });
        for (name, value) in rest.as_object().into_iter().flatten() {
            row[name] = value.clone();
        }
        row
    };
    let root = json!({ "session": 41, "blocks": 1, "blocks_for": "10771s", "holds": [{
        "lock": "deploy", "number": 88, "token": 88, "since": "2026-01-01T08:58:00.000Z", "held_for": "10951s",
        "holder_count": 1, "queue_length": 1,
    }] });
    let waiter = json!({ "session": 52, "waits": {
        "lock": "deploy", "number": 91, "position": 2, "since": "2026-01-01T09:01:00.000Z", "waiting": "10771s",
    } });
    let example = json!({
        "items": [row(0, "ci-7", root), row(1, "ci-9", waiter)], "left_out": 0, "complete": true,
        "as_of": "2026-01-01T12:00:31.000Z",
    });
    api.call(Here, "/v1/waits", "getWaits", TAG, "Show who waits for whom, as a tree.")
        .about(&format!(
            "The roots come first: they hold what others wait for, and wait for nobody. The waiters of a lock stand below its \
             first holder, in the order of the queue. A row lists {WAIT_HOLDS_MAX} locks at most. Every server answers this from \
             its own state, even without a quorum, and examines 20,000 grants at most. Callers that may see the same locks \
             share one answer to a question for a second. The tree has only locks that the caller may see.",
        ))
        .query::<call::ShowWaits>()
        .timeout()
        .json::<dto::Waits>("The tree.", example)
        .codes(&[Code::BadRequest, Code::WrongCluster, Code::Overloaded, Code::Unauthenticated, Code::Denied])
}

fn folder(api: &mut Describer) -> Operation<'_> {
    api.call(Here, "/ui", "getDashboardFolder", TAG, "Go to the dashboard.")
        .empty(StatusCode::SEE_OTHER, "`Location` is the dashboard.")
        .codes(&[Code::BadRequest, Code::NotFound])
}

fn index(api: &mut Describer) -> Operation<'_> {
    let text = json!({ "type": "string" });
    api.call(Here, "/ui/", "getDashboard", TAG, "The dashboard, for a browser.")
        .about("Compressed if `Accept-Encoding` names gzip. With `If-None-Match` and the ETag of an earlier answer, `304`.")
        .content("The page.", "text/html; charset=utf-8", text, json!("<!doctype html>\n<html lang=\"en\">…</html>\n"))
        .empty(StatusCode::NOT_MODIFIED, "You already have this version.")
        .codes(&[Code::BadRequest, Code::NotFound])
}

fn file(api: &mut Describer) -> Operation<'_> {
    let path = json!({ "type": "string", "example": "8c1f4b0e6a2d4e5f/app/main.js" });
    let text = json!({ "type": "string" });
    api.call(Here, "/ui/{path}", "getDashboardFile", TAG, "A file of the dashboard.")
        .about("The path begins with a hash of all files, so a file never changes.")
        .in_path("path", "The hash and the path, as the page names them.", path)
        .content("The file.", "text/javascript; charset=utf-8", text, json!("import { render } from \"../vendor/preact.js\";\n"))
        .codes(&[Code::BadRequest, Code::NotFound])
}

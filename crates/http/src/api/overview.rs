//! What a person looks at first: the overview, and who waits for whom. This server answers both from its own state.

use crate::{
    api::cluster, edge::answer, edge::error::of_read, edge::paging, edge::problem::Problem, edge::request::Received,
    edge::server_info::ServerInfo,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_health::locks::LockProblem;
use fairhold_node::{
    Node,
    api::{OverviewView, TotalsSample},
};
use fairhold_state::{
    busy::BusyEntry,
    waits::{AwaitedLock, WaitRow, WaitsQuery},
};
use fairhold_types::{
    LockName, SessionNumber, call,
    dto::{self, Alarm},
    duration,
    time::WallMillis,
};
use http::StatusCode;
use openraft_rt::AsyncRuntime;
use std::time::Duration;

/// `GET /v1/overview`
pub(crate) async fn overview<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    info: ServerInfo,
    request: Request,
) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ShowOverview = received.query()?;
    let view = node.overview(received.timeout).await.map_err(of_read)?;
    let cluster = cluster::body(&node, info);
    let now = view.at;
    let body = dto::Overview {
        id: cluster.id,
        version: cluster.version.into_owned(),
        cluster: cluster.cluster,
        role: cluster.role,
        term: cluster.term,
        leader: cluster.leader,
        revision: view.revision,
        as_of: now.to_rfc3339(),
        totals: totals(&view),
        series: if params.series { series(&node.samples()) } else { Vec::new() },
        members: cluster.members,
        problems: problems(node.alarms().alarms, &view),
        waiting_longest: view.locks.waiting.iter().map(|entry| long_wait(entry, now)).collect(),
        held_longest: view.locks.holding.iter().map(|entry| long_hold(entry, now)).collect(),
    };
    answer::json(StatusCode::OK, view.revision, &body)
}

fn totals(view: &OverviewView) -> dto::OverviewTotals {
    let census = &view.census;
    dto::OverviewTotals {
        locks: census.locks as u64,
        held: census.held as u64,
        queued: census.waiting as u64,
        cooling: census.cooling as u64,
        sessions: census.sessions as u64,
        granted: view.totals.granted,
        handed_over: view.totals.handed_over,
        lost: view.totals.lost,
    }
}

/// The differences between neighbours, so the first sample has no entry.
fn series(samples: &[TotalsSample]) -> Vec<dto::OverviewSample> {
    let newer = samples.iter().skip(1);
    let sample = |(before, after): (&TotalsSample, &TotalsSample)| dto::OverviewSample {
        at: after.at.to_rfc3339(),
        // A node that takes over another state counts from there.
        granted: after.granted.saturating_sub(before.granted),
        handed_over: after.handed_over.saturating_sub(before.handed_over),
        lost: after.lost.saturating_sub(before.lost),
        held: after.held,
        queued: after.queued,
        term: after.term,
    };
    samples.iter().zip(newer).map(sample).collect()
}

/// The alarms, which come with the critical ones first, then the problems of locks.
fn problems(alarms: Vec<Alarm>, view: &OverviewView) -> Vec<dto::OverviewProblem> {
    let of_alarm = |alarm: Alarm| dto::OverviewProblem {
        severity: alarm.severity,
        check: alarm.alarm,
        seen: alarm.seen,
        advice: alarm.advice,
        since: Some(alarm.since),
        lock: None,
    };
    let of_lock = |(lock, problem): &(LockName, LockProblem)| dto::OverviewProblem {
        severity: problem.severity,
        check: problem.check.to_owned(),
        seen: problem.seen.clone(),
        advice: problem.advice.to_owned(),
        since: None,
        lock: Some(lock.clone()),
    };
    alarms.into_iter().map(of_alarm).chain(view.problems.iter().map(of_lock)).collect()
}

fn long_wait(entry: &BusyEntry, now: WallMillis) -> dto::LongWait {
    dto::LongWait {
        lock: entry.lock.clone(),
        number: entry.number,
        session: entry.session,
        owner: entry.owner.clone(),
        since: entry.since.to_rfc3339(),
        waiting: answer::span(entry.since, now),
        queue_length: entry.waiting as u64,
        waits_for: entry.holder.as_ref().map(|(number, owner)| answer::named(*number, owner.clone())),
    }
}

fn long_hold(entry: &BusyEntry, now: WallMillis) -> dto::LongHold {
    dto::LongHold {
        lock: entry.lock.clone(),
        number: entry.number,
        session: entry.session,
        owner: entry.owner.clone(),
        since: entry.since.to_rfc3339(),
        held_for: answer::span(entry.since, now),
        usual: entry.usual_hold_ms.map(|usual| duration::format(Duration::from_millis(usual))),
        queue_length: entry.waiting as u64,
    }
}

/// `GET /v1/waits`
pub(crate) async fn waits<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ShowWaits = received.query()?;
    let query = WaitsQuery {
        owner: params.owner.map(call::OwnerName::into_string),
        lock: params.lock,
        session: params.session.map(|number| SessionNumber(number.get())),
        limit: paging::limit(params.limit),
    };
    let view = node.waits(&query, received.timeout).await.map_err(of_read)?;
    let (tree, now) = (&view.tree, view.at);
    let body = dto::Waits {
        items: tree.rows.iter().map(|row| wait_item(row, now)).collect(),
        left_out: tree.left_out as u64,
        complete: tree.complete,
        as_of: now.to_rfc3339(),
    };
    answer::json(StatusCode::OK, view.revision, &body)
}

fn wait_item(row: &WaitRow, now: WallMillis) -> dto::WaitItem {
    let is_root = row.waits.is_none();
    let waits = row.waits.as_ref().map(|waits| dto::WaitPlace {
        lock: waits.lock.clone(),
        number: waits.number,
        position: waits.position,
        since: waits.since.to_rfc3339(),
        waiting: answer::span(waits.since, now),
    });
    dto::WaitItem {
        depth: row.depth as u64,
        owner: row.owner.clone(),
        session: row.session,
        waits,
        holds: row.holds.iter().map(|held| awaited_hold(held, now)).collect(),
        holds_left_out: (row.holds_left_out > 0).then_some(row.holds_left_out as u64),
        blocks: is_root.then_some(row.blocks as u64),
        blocks_for: row.blocks_since.map(|since| answer::span(since, now)),
        repeated: row.repeated,
    }
}

fn awaited_hold(held: &AwaitedLock, now: WallMillis) -> dto::AwaitedHold {
    dto::AwaitedHold {
        lock: held.lock.clone(),
        number: held.number,
        token: held.token,
        since: held.since.to_rfc3339(),
        held_for: answer::span(held.since, now),
        holder_count: held.holders as u64,
        queue_length: held.waiting as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_has_the_differences_of_counters_and_the_values_of_gauges() {
        let sample = |at, granted, held| TotalsSample {
            at: WallMillis(at),
            granted,
            handed_over: granted / 2,
            lost: 0,
            held,
            queued: 1,
            term: 7,
        };
        let series = series(&[sample(0, 10, 5), sample(1_000, 30, 6), sample(2_000, 20, 4)]);
        let figures: Vec<_> = series.iter().map(|second| (second.granted, second.handed_over, second.held)).collect();
        assert_eq!(figures, [(20, 10, 6), (0, 0, 4)], "a counter that went back counts as nothing");
        assert_eq!((series[0].at.as_str(), series[0].term), ("1970-01-01T00:00:01.000Z", 7));
        assert_eq!(super::series(&[sample(0, 1, 1)]), []);
    }
}

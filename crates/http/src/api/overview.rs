//! What a person looks at first: the overview, and who waits for whom. This server answers both from its own state.

use crate::{
    api::cluster,
    edge::answer,
    edge::error::of_read,
    edge::paging,
    edge::params::{digits, expected},
    edge::problem::Problem,
    edge::request::Received,
    edge::server_info::ServerInfo,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_health::locks::LockProblem;
use fairhold_node::{
    Node,
    api::{MemberAnswer, MemberLook, OverviewView, RecentTotals, RefusedWait, SERIES_NAMES, SeriesKey},
};
use fairhold_state::{
    busy::{BusyEntry, HotLock},
    command::Blocked,
    waits::{AwaitedLock, WaitRow, WaitsQuery},
};
use fairhold_types::{
    LockName, NodeId, SessionNumber,
    call::{self, SeriesStep},
    dto::{self, Alarm},
    duration, problem,
    time::WallMillis,
};
use http::StatusCode;
use openraft_rt::AsyncRuntime;
use std::{collections::BTreeMap, time::Duration};

/// `GET /v1/overview`
pub(crate) async fn overview<RT: AsyncRuntime>(
    State(node): State<Node<RT>>,
    info: ServerInfo,
    request: Request,
) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let call::ShowOverview { series: _ } = received.query()?;
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
        recent: view.recent.map(recent),
        members: members(cluster.members, &view.looks),
        problems: problems(node.alarms().alarms, &view),
        waiting_longest: view.locks.waiting.iter().map(|entry| long_wait(entry, now)).collect(),
        held_longest: view.locks.holding.iter().map(|entry| long_hold(entry, now)).collect(),
        hot: view.locks.hot.iter().map(hot_lock).collect(),
        refused: view.refused.waits.iter().map(|wait| refused_wait(wait)).collect(),
        refused_since: Some(view.refused.since.to_rfc3339()),
    };
    answer::json(StatusCode::OK, view.revision, &body)
}

/// The members, with what each says about itself.
fn members(members: Vec<dto::Member>, looks: &BTreeMap<NodeId, MemberLook>) -> Vec<dto::Member> {
    let newest = looks.values().filter_map(|look| look.said.as_ref()?.report.applied).max();
    let with_look = |member: dto::Member| match looks.get(&member.id) {
        Some(MemberLook { reachable, said }) => {
            let figures = said.as_ref().map(|said| figures(said, newest));
            dto::Member { reachable: Some(*reachable), figures, ..member }
        }
        None => member,
    };
    members.into_iter().map(with_look).collect()
}

/// What a member said. `newest` is the largest index that a member has applied.
fn figures(said: &MemberAnswer, newest: Option<u64>) -> dto::MemberFigures {
    let MemberAnswer { at, clock, report } = said;
    let behind = |applied: u64| Some(newest?.saturating_sub(applied));
    dto::MemberFigures {
        as_of: at.to_rfc3339(),
        version: report.version.clone(),
        ready: report.ready,
        applied_index: report.applied,
        behind: report.applied.and_then(behind),
        snapshot_index: report.snapshot,
        log_entries: report.log_entries,
        disk_free_bytes: report.disk.map(|(free, _)| free),
        disk_bytes: report.disk.map(|(_, total)| total),
        clock_ahead_ms: clock.map(|clock| clock.offset),
        clock_doubt_ms: clock.and_then(|clock| u64::try_from(clock.uncertainty).ok()),
        open_files: report.open_files.map(|(open, _)| open),
        open_files_max: report.open_files.and_then(|(_, max)| max),
        started_at: report.started_at.to_rfc3339(),
    }
}

fn totals(view: &OverviewView) -> dto::OverviewTotals {
    let (census, totals) = (&view.census, &view.totals);
    dto::OverviewTotals {
        locks: census.locks as u64,
        held: census.held as u64,
        queued: census.waiting as u64,
        cooling: census.cooling as u64,
        sessions: census.sessions as u64,
        granted: totals.waited.total(),
        handed_over: totals.hand_overs,
        lost: totals.expired + totals.broken + totals.abandoned,
    }
}

fn recent(recent: RecentTotals) -> dto::OverviewRecent {
    let RecentTotals { over, granted, handed_over, lost, refused } = recent;
    dto::OverviewRecent { over: duration::format(over), grants: granted, handed_over, lost, refused }
}

/// `GET /v1/overview/series`
pub(crate) async fn series<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let params: call::ShowOverviewSeries = received.query()?;
    let step = params.step.unwrap_or_default();
    let view = node.series(step, series_key(params.after)?, received.timeout).await.map_err(of_read)?;
    let body = dto::OverviewSeries {
        step: step.as_str().to_owned(),
        to: view.to.map(WallMillis::to_rfc3339),
        names: SERIES_NAMES.map(str::to_owned).to_vec(),
        rows: view.rows.iter().map(|row| row.to_vec()).collect(),
        continues: view.continues,
        next: series_cursor(view.next),
    };
    answer::json(StatusCode::OK, node.revision(), &body)
}

/// A position in a series as text.
fn series_cursor(key: SeriesKey) -> String {
    format!("{}-{:016x}-{}", key.step.as_str(), key.series, key.number)
}

/// The position of a cursor in a series.
fn series_key(given: Option<call::SeriesCursor>) -> Result<Option<SeriesKey>, Problem> {
    let Some(text) = given.as_ref().map(call::SeriesCursor::as_str) else { return Ok(None) };
    let key = read_series_cursor(text);
    key.map(Some).ok_or_else(|| expected("after", "the next of an earlier answer of this call; to get all rows, leave it out"))
}

fn read_series_cursor(text: &str) -> Option<SeriesKey> {
    let (step, rest) = text.split_once('-')?;
    let step = [SeriesStep::Second, SeriesStep::Minute].into_iter().find(|known| known.as_str() == step)?;
    let (series, number) = rest.split_once('-')?;
    let is_hex = series.len() == 16 && series.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let series = u64::from_str_radix(series, 16).ok().filter(|_| is_hex)?;
    Some(SeriesKey { step, series, number: digits(number)? })
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
        since: problem.since.map(WallMillis::to_rfc3339),
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

fn hot_lock(hot: &HotLock) -> dto::HotLockRow {
    dto::HotLockRow {
        lock: hot.lock.clone(),
        grants_per_minute: hot.grants_per_minute,
        hand_overs_per_minute: hot.hand_overs_per_minute,
        wait_p50: duration::format(Duration::from_millis(hot.wait_p50_ms)),
        queue_length: hot.waiting as u64,
    }
}

fn refused_wait(wait: &RefusedWait) -> dto::RefusedWaitRow {
    let blocked = |one: &Blocked| problem::Blocked { session: one.session, owner: one.owner.clone(), lock: one.lock.clone() };
    dto::RefusedWaitRow {
        at: wait.at.to_rfc3339(),
        cycle: wait.cycle.iter().map(blocked).collect(),
        cycle_left_out: (wait.left_out > 0).then_some(wait.left_out as u64),
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
    use crate::edge::params;
    use fairhold_health::answer::ClockOffset;
    use fairhold_node::api::MemberReport;

    #[test]
    fn the_flag_of_dashboards_of_earlier_programs_is_no_error() {
        for query in ["series", "series=true", "series=false"] {
            let parsed = params::parse::<call::ShowOverview>(Some(query), &[]);
            assert!(parsed.is_ok(), "{query} is refused: {parsed:?}");
        }
        assert!(params::parse::<call::ShowOverview>(Some("step=1s"), &[]).is_err());
    }

    fn said(applied: Option<u64>) -> MemberAnswer {
        let report = MemberReport {
            version: None,
            ready: true,
            applied,
            snapshot: None,
            log_entries: 0,
            disk: None,
            started_at: WallMillis(0),
            now: WallMillis(0),
            open_files: None,
            round_trip_ms: None,
        };
        MemberAnswer { at: WallMillis(0), clock: None, report }
    }

    #[test]
    fn a_member_is_behind_the_one_that_has_applied_most() {
        let behind = |applied: Option<u64>, newest: Option<u64>| figures(&said(applied), newest).behind;
        assert_eq!(behind(Some(9), Some(9)), Some(0));
        assert_eq!(behind(Some(4), Some(9)), Some(5));
        assert_eq!(behind(None, Some(9)), None);
        assert_eq!(behind(None, None), None);
    }

    #[test]
    fn a_figure_that_is_not_known_is_missing() {
        let unknown = figures(&said(None), None);
        assert_eq!((unknown.clock_ahead_ms, unknown.clock_doubt_ms), (None, None));
        assert_eq!((unknown.open_files, unknown.open_files_max), (None, None));
        let report = MemberReport { open_files: Some((64, None)), ..said(None).report };
        let clock = Some(ClockOffset { offset: -3, uncertainty: 2 });
        let known = figures(&MemberAnswer { clock, report, ..said(None) }, None);
        assert_eq!((known.clock_ahead_ms, known.clock_doubt_ms), (Some(-3), Some(2)));
        assert_eq!((known.open_files, known.open_files_max), (Some(64), None), "there is no limit");
    }

    #[test]
    fn a_position_in_a_series_is_read_back_from_its_cursor() {
        for key in [
            SeriesKey { step: SeriesStep::Second, series: u64::MAX, number: 605 },
            SeriesKey { step: SeriesStep::Minute, series: 0, number: 0 },
        ] {
            assert_eq!(read_series_cursor(&series_cursor(key)), Some(key));
        }
        assert_eq!(series_cursor(SeriesKey { step: SeriesStep::Second, series: 7, number: 5 }), "1s-0000000000000007-5");
        for text in
            ["", "7", "1h-0000000000000007-5", "1s-7-5", "1s-000000000000000G-5", "1s-0000000000000007", "1s-+000000000000007-5"]
        {
            assert_eq!(read_series_cursor(text), None, "{text}");
        }
    }
}

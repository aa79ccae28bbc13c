//! From the node's values to JSON answers.

use crate::{
    edge::body::{self, HEADERS, JSON},
    edge::headers::{MEMBERS, REVISION},
    edge::problem::Problem,
};
use axum::response::Response;
use fairhold_node::api::{Ahead, GrantView, QueueItem, SessionView};
use fairhold_state::{command::HolderFacts, listing::LockEntry};
use fairhold_types::{
    Code, GrantId, GrantNumber, Revision, SessionId,
    dto::{self, Contender, GrantState},
    duration,
    limits::AHEAD_BYTES_MAX,
    time::WallMillis,
};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use std::time::Duration;

/// An answer with a JSON body.
pub(crate) fn json<T: Serialize>(status: StatusCode, revision: Revision, body: &T) -> Result<Response, Problem> {
    // Most answers fit into this, so the buffer does not grow step by step.
    let mut bytes = Vec::with_capacity(512);
    serde_json::to_writer(&mut bytes, body)
        .map_err(|error| Problem::new(Code::Internal, format!("the answer could not be encoded as JSON: {error}")))?;
    // The shell's prompt then starts on its own line.
    bytes.push(b'\n');
    let mut response = stamped(body::answer(JSON, bytes), revision);
    *response.status_mut() = status;
    Ok(response)
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode, revision: Revision) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response.headers_mut().reserve(HEADERS);
    stamped(response, revision)
}

/// The answer with the revision that it reflects.
pub(crate) fn stamped(mut response: Response, revision: Revision) -> Response {
    response.headers_mut().insert(REVISION, HeaderValue::from(revision.0));
    response
}

/// The answer with the number of the members, from [`Node::members_index`](fairhold_node::Node::members_index).
pub(crate) fn with_members(mut response: Response, index: Option<u64>) -> Response {
    if let Some(index) = index {
        response.headers_mut().insert(MEMBERS, HeaderValue::from(index));
    }
    response
}

/// A header value from text that must be visible ASCII.
pub(crate) fn header_value(text: String) -> Result<HeaderValue, Problem> {
    HeaderValue::try_from(text)
        .map_err(|error| Problem::new(Code::Internal, format!("an answer's header could not be written: {error}")))
}

/// The wall-clock time at the end of a span that begins now.
pub(crate) fn after(now: WallMillis, span: Duration) -> String {
    let millis = duration::millis(span);
    WallMillis(now.0.saturating_add(millis)).to_rfc3339()
}

/// A live grant.
pub(crate) fn grant(view: GrantView, now: WallMillis) -> dto::Grant {
    let want = |name, mode| dto::Want { name, mode };
    let mut locks: Vec<_> = view.others.into_iter().map(|other| want(other.lock, other.mode)).collect();
    if !locks.is_empty() {
        locks.insert(0, want(view.lock.clone(), view.mode));
    }
    dto::Grant {
        id: view.id,
        lock: view.lock,
        state: if view.token.is_some() { GrantState::Held } else { GrantState::Queued },
        token: view.token,
        mode: view.mode,
        locks,
        holds: (view.holds > 1).then_some(view.holds),
        revoked: view.revoked.map(|revocation| dto::Revoked { by: revocation.by, reason: revocation.reason }),
        owner: view.owner,
        expires_in: view.expires_in.map(duration::format),
        expires_at: view.expires_in.map(|span| after(now, span)),
        number: view.number,
        session: view.session,
        permits: view.permits,
        position: view.queue_position.as_ref().map(|queue_position| queue_position.position),
        waits_for: view.waits_for.map(|holder| contender(holder, Some(now))),
        deadlock_checked: (view.token.is_none() && !view.deadlock_checked).then_some(false),
        estimate: view.queue_position.as_ref().and_then(|queue_position| queue_position.estimate).map(duration::format),
        ahead: view.queue_position.map(|queue_position| ahead(queue_position.ahead, Some(now))).unwrap_or_default(),
        queued_at: view.queued_at.to_rfc3339(),
        held_since: view.held_since.map(WallMillis::to_rfc3339),
        meta: view.meta,
    }
}

/// A grant that was just renewed.
pub(crate) fn renewed_grant(id: GrantId, ttl: Duration, now: WallMillis) -> dto::RenewedGrant {
    let text = duration::format(ttl);
    dto::RenewedGrant { id, expires_in: text.clone(), ttl: text, expires_at: after(now, ttl) }
}

/// A session that was just kept alive.
pub(crate) fn renewed_session(id: SessionId, ttl: Duration, now: WallMillis) -> dto::RenewedSession {
    let text = duration::format(ttl);
    dto::RenewedSession { id, expires_in: text.clone(), ttl: text, expires_at: after(now, ttl) }
}

/// A grant of which only the number and the owner are known.
pub(crate) fn named(number: GrantNumber, owner: String) -> Contender {
    Contender { number, owner, since: None, token: None, held_for: None, meta: dto::Meta::new() }
}

/// A grant that holds a lock or is ahead of the caller, with its holding time if that is known.
pub(crate) fn contender(holder: HolderFacts, now: Option<WallMillis>) -> Contender {
    Contender {
        since: Some(holder.since.to_rfc3339()),
        token: holder.token,
        held_for: now.and_then(|now| holder.token.map(|_| span(holder.since, now))),
        ..named(holder.number, holder.owner)
    }
}

/// The first grants ahead of a caller: as many as fit into `AHEAD_BYTES_MAX`, but at least one.
pub(crate) fn ahead(ahead: Vec<Ahead>, now: Option<WallMillis>) -> Vec<Contender> {
    let mut bytes = 0;
    let fits = |(index, one): &(usize, Ahead)| {
        bytes += one.facts.owner.len() + one.meta.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        *index == 0 || bytes <= AHEAD_BYTES_MAX
    };
    let named = ahead.into_iter().enumerate().take_while(fits);
    named.map(|(_, one)| Contender { meta: one.meta, ..contender(one.facts, now) }).collect()
}

/// A grant in a queue.
pub(crate) fn queue_item(item: QueueItem, now: WallMillis) -> dto::QueueItem {
    let state = match (item.cooling, item.token) {
        (true, _) => GrantState::Cooling,
        (false, Some(_)) => GrantState::Held,
        (false, None) => GrantState::Queued,
    };
    dto::QueueItem {
        number: item.number,
        session: item.session,
        state,
        position: item.position,
        token: item.token,
        mode: item.mode,
        permits: item.permits,
        owner: item.owner,
        since: item.held_since.unwrap_or(item.queued_at).to_rfc3339(),
        queued_at: item.queued_at.to_rfc3339(),
        held_for: item.held_since.filter(|_| state == GrantState::Held).map(|since| span(since, now)),
        waits_for: item.waits_for.map(|(number, owner)| named(number, owner)),
        estimate: item.estimate.map(duration::format),
        locks: item.locks.into_iter().map(|want| dto::Want { name: want.lock, mode: want.mode }).collect(),
        meta: item.meta,
    }
}

/// A lock in the list of locks.
pub(crate) fn listed_lock(lock: LockEntry, now: WallMillis) -> dto::ListedLock {
    let state = match (lock.holders, lock.cooling) {
        (1.., _) => dto::LockState::Held,
        (0, 1..) => dto::LockState::Cooling,
        (0, 0) => dto::LockState::Idle,
    };
    dto::ListedLock {
        lock: lock.name,
        state,
        holders: lock.holders as u64,
        queue_length: lock.waiting as u64,
        mode: lock.mode,
        limit: lock.limit,
        last_token: lock.last_token,
        owner: lock.holder.as_ref().map(|holder| holder.owner.clone()),
        holder: lock.holder.map(|holder| dto::ListedHolder {
            number: holder.number,
            owner: holder.owner,
            session: holder.session,
        }),
        since: lock.held_since.map(WallMillis::to_rfc3339),
        held_for: lock.held_since.map(|since| span(since, now)),
        usual_hold: lock.usual_hold_ms.map(|usual| duration::format(Duration::from_millis(usual))),
        waiting_since: lock.waiting_since.map(WallMillis::to_rfc3339),
        waited: duration::format(Duration::from_millis(lock.waited_ms)),
        held: duration::format(Duration::from_millis(lock.held_ms)),
        hand_overs: lock.hand_overs,
    }
}

/// A session without its secrets, with the cursor of its next page.
pub(crate) fn session(view: SessionView, next_cursor: Option<String>) -> dto::Session {
    let grants = view.grants.into_iter().map(|(number, lock, token)| dto::SessionGrant {
        number,
        lock,
        state: if token.is_some() { GrantState::Held } else { GrantState::Queued },
        token,
    });
    dto::Session {
        number: view.number,
        name: view.name,
        ttl: duration::format(view.timeout),
        anonymous: view.anonymous,
        opened_at: view.opened_at.to_rfc3339(),
        heard_ago: view.heard_ago.map(duration::format),
        grants: grants.collect(),
        grant_count: view.grant_count,
        ephemeral_nodes: view.ephemeral_nodes,
        ephemeral_count: view.ephemeral_count,
        meta: view.meta,
        next_cursor,
    }
}

/// The time from `since` to `now`, as text. Zero if the clocks of two nodes make it negative.
pub(crate) fn span(since: WallMillis, now: WallMillis) -> String {
    duration::format(Duration::from_millis(now.0.saturating_sub(since.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_node::api::QueuePosition;
    use fairhold_types::{
        FencingToken, GrantId, LockName, Mode, SessionNumber,
        limits::{ANSWER_BYTES_FREE, LOCK_NAME_BYTES_MAX, META_BYTES_MAX, OWNER_BYTES_MAX},
    };

    fn view(token: Option<u64>) -> GrantView {
        let held_since = token.map(|_| WallMillis(2_000));
        GrantView {
            id: GrantId::from_ulid(1),
            number: GrantNumber(41),
            lock: LockName::parse("deploy").unwrap(),
            others: Vec::new(),
            holds: 1,
            revoked: None,
            session: SessionNumber(40),
            anonymous: true,
            token: token.map(FencingToken),
            mode: Mode::Exclusive,
            permits: 1,
            owner: "curl@127.0.0.1".to_owned(),
            meta: dto::Meta::new(),
            queue_position: None,
            waits_for: None,
            deadlock_checked: true,
            queued_at: WallMillis(1_000),
            held_since,
            expires_in: held_since.map(|_| Duration::from_secs(30)),
            attempt_to_abandon: None,
        }
    }

    #[test]
    fn a_held_grant_has_the_documented_json() {
        let json = serde_json::to_string(&grant(view(Some(42)), WallMillis(5_000))).unwrap();
        let contract = r#"{"id":"00000000000000000000000001","lock":"deploy","state":"held","token":42,"mode":"exclusive","#;
        assert!(json.starts_with(contract), "{json}");
        let contract = r#""owner":"curl@127.0.0.1","expires_in":"30s","expires_at":"1970-01-01T00:00:35.000Z","number":41,"#;
        assert!(json.contains(contract), "{json}");
    }

    #[test]
    fn a_queued_grant_names_the_holder_that_it_waits_for() {
        let holder = HolderFacts {
            number: GrantNumber(7),
            owner: "ci-7".to_owned(),
            token: Some(FencingToken(9)),
            since: WallMillis(1_000),
        };
        let meta = dto::Meta::from([("build".to_owned(), "7".to_owned())]);
        let queue_position = QueuePosition {
            position: 2,
            ahead: vec![Ahead { facts: holder.clone(), meta }],
            estimate: Some(Duration::from_secs(40)),
        };
        let queued = GrantView { queue_position: Some(queue_position), waits_for: Some(holder), ..view(None) };
        let json = serde_json::to_value(grant(queued, WallMillis(5_000))).unwrap();
        assert_eq!((&json["state"], &json["position"], json.get("token")), (&"queued".into(), &2.into(), None));
        let waits_for =
            serde_json::json!({"number": 7, "owner": "ci-7", "since": "1970-01-01T00:00:01.000Z", "token": 9, "held_for": "4s"});
        assert_eq!(json["waits_for"], waits_for);
        assert_eq!((&json["ahead"][0]["meta"]["build"], &json["estimate"]), (&"7".into(), &"40s".into()));
    }

    #[test]
    fn the_longest_answer_with_grants_ahead_fits_into_a_connections_own_memory() {
        let text = |bytes: usize| "\"".repeat(bytes);
        let facts = HolderFacts {
            number: GrantNumber(u64::MAX),
            owner: text(OWNER_BYTES_MAX),
            token: Some(FencingToken(u64::MAX)),
            since: WallMillis(1_000),
        };
        let meta = dto::Meta::from([("k".to_owned(), text(META_BYTES_MAX - 1))]);
        let one = Ahead { facts: facts.clone(), meta: meta.clone() };
        let queue_position = QueuePosition { position: 10_001, ahead: vec![one; 16], estimate: Some(Duration::from_secs(40)) };
        let lock = LockName::parse(&text(LOCK_NAME_BYTES_MAX)).unwrap();
        let owner = text(OWNER_BYTES_MAX);
        let queued = GrantView { queue_position: Some(queue_position), waits_for: Some(facts), lock, owner, meta, ..view(None) };
        let answer = grant(queued, WallMillis(5_000));
        assert_eq!(answer.ahead.len(), 2, "the grants ahead with short fields are all named");
        let length = serde_json::to_vec(&answer).unwrap().len();
        assert!(length <= ANSWER_BYTES_FREE, "{length} bytes");
    }

    #[test]
    fn a_grant_not_checked_for_deadlocks_says_so_while_it_waits() {
        let shown = |token, deadlock_checked| {
            let view = GrantView { deadlock_checked, ..view(token) };
            serde_json::to_value(grant(view, WallMillis(5_000))).unwrap().get("deadlock_checked").cloned()
        };
        assert_eq!(shown(None, false), Some(false.into()));
        assert_eq!((shown(None, true), shown(Some(42), false)), (None, None));
    }

    #[test]
    fn a_cooling_grant_neither_holds_nor_waits() {
        let item = |token: Option<u64>, cooling| QueueItem {
            number: GrantNumber(41),
            session: SessionNumber(40),
            position: 1,
            token: token.map(FencingToken),
            cooling,
            mode: Mode::Exclusive,
            permits: 1,
            owner: String::new(),
            meta: dto::Meta::new(),
            queued_at: WallMillis(1_000),
            held_since: token.map(|_| WallMillis(2_000)),
            waits_for: None,
            estimate: None,
            locks: Vec::new(),
        };
        for (token, cooling, state, since) in [
            (Some(42), false, GrantState::Held, "1970-01-01T00:00:02.000Z"),
            (None, false, GrantState::Queued, "1970-01-01T00:00:01.000Z"),
            (None, true, GrantState::Cooling, "1970-01-01T00:00:01.000Z"),
        ] {
            let shown = queue_item(item(token, cooling), WallMillis(5_000));
            assert_eq!((shown.state, shown.since.as_str()), (state, since));
        }
    }
}

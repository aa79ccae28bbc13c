//! Pages of listings: the cursor of the next page, and the link to it.

use crate::{
    edge::answer,
    edge::params::{decode, digits, expected},
    edge::problem::Problem,
};
use axum::response::Response;
use fairhold_node::{
    api::{OwnedAfter, PageQuery},
    events::EventPosition,
};
use fairhold_state::{
    grant_list::{GrantKey, GrantSort},
    histories::HistoriesKey,
    history::HistoryKey,
    listing::{LockKey, LockSort},
    owned::OwnedKey,
    queue_view::{QueueAnchor, QueueKey},
};
use fairhold_types::{
    GrantNumber, LockName, Path, Revision,
    call::{
        BoundedText, EventCursor, GrantsCursor, HistoriesCursor, LockCursor, OwnedCursor, PageLimit, QueueAround, QueueCursor,
    },
    limits::PAGE_DEFAULT,
};
use http::{Uri, header};
use std::fmt::Write;

/// The most entries of a page.
pub(crate) fn limit(limit: Option<PageLimit>) -> usize {
    limit.and_then(|limit| usize::try_from(limit.get()).ok()).unwrap_or(PAGE_DEFAULT)
}

/// The requested page, after the position of its cursor.
pub(crate) fn page<K>(limit: Option<PageLimit>, after: Option<K>) -> PageQuery<K> {
    PageQuery { after, limit: self::limit(limit) }
}

/// Converts a cursor back to its position.
fn cursor<K, const MAX: usize>(
    cursor: Option<BoundedText<MAX>>,
    read: impl FnOnce(&str) -> Option<K>,
) -> Result<Option<K>, Problem> {
    let Some(cursor) = cursor else { return Ok(None) };
    read(cursor.as_str()).map(Some).ok_or_else(|| expected("cursor", "the next_cursor of an earlier page of the same listing"))
}

/// Adds `Link: <…>; rel="next"` to a page: the same listing, from that cursor.
pub(crate) fn link_next(mut response: Response, uri: &Uri, cursor: Option<&str>) -> Result<Response, Problem> {
    let Some(cursor) = cursor else { return Ok(response) };
    let mut target = format!("{}?", uri.path());
    // Both say where a page begins.
    let is_start = |pair: &&str| {
        let name = decode(pair.split_once('=').map_or(*pair, |(name, _)| name));
        name.is_ok_and(|name| matches!(&*name, "cursor" | "around"))
    };
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty() && !is_start(pair)) {
        target.push_str(pair);
        target.push('&');
    }
    let link = answer::header_value(format!("<{target}cursor={cursor}>; rel=\"next\""))?;
    response.headers_mut().insert(header::LINK, link);
    Ok(response)
}

/// A position among the locks as text. It is valid for this order only.
pub(crate) fn lock_cursor(sort: LockSort, key: &LockKey) -> String {
    to_hex(&format!("{}{}:{}", letter(sort), key.rank, key.name.as_str()))
}

/// The position of a cursor among the locks in this order.
pub(crate) fn lock_key(given: Option<LockCursor>, sort: LockSort) -> Result<Option<LockKey>, Problem> {
    cursor(given, |cursor| read_lock_cursor(cursor, sort))
}

fn read_lock_cursor(cursor: &str, sort: LockSort) -> Option<LockKey> {
    let text = from_hex(cursor)?;
    let (rank, name) = text.strip_prefix(letter(sort))?.split_once(':')?;
    Some(LockKey { rank: digits(rank)?, name: LockName::parse(name).ok()? })
}

/// A position in the history of a lock as text.
pub(crate) fn history_cursor(key: HistoryKey) -> String {
    format!("{}-{}", key.ended.0, key.number)
}

/// The position of a text in the history of a lock.
pub(crate) fn read_history_cursor(cursor: &str) -> Option<HistoryKey> {
    let (ended, grant) = cursor.split_once('-')?;
    Some(HistoryKey { ended: Revision(digits(ended)?), number: GrantNumber(digits(grant)?) })
}

/// A position among the histories of all locks as text.
pub(crate) fn histories_cursor(key: &HistoriesKey) -> String {
    to_hex(&format!("{}:{}", history_cursor(key.hold), key.lock.as_str()))
}

/// The position of a cursor among the histories of all locks.
pub(crate) fn histories_key(given: Option<HistoriesCursor>) -> Result<Option<HistoriesKey>, Problem> {
    cursor(given, read_histories_cursor)
}

fn read_histories_cursor(cursor: &str) -> Option<HistoriesKey> {
    let text = from_hex(cursor)?;
    let (hold, lock) = text.split_once(':')?;
    Some(HistoriesKey { lock: LockName::parse(lock).ok()?, hold: read_history_cursor(hold)? })
}

/// A position among grants as text. It is valid for this order only.
pub(crate) fn grant_cursor(key: &GrantKey) -> String {
    to_hex(&match key {
        GrantKey::Queued(key) => format!("s{}-{}", key.number, key.lock),
        GrantKey::Lock(lock, place) => format!("l{}:{}", queue_cursor(*place), lock.as_str()),
    })
}

/// The position of a cursor among grants in this order.
pub(crate) fn grant_key(given: Option<GrantsCursor>, sort: GrantSort) -> Result<Option<GrantKey>, Problem> {
    cursor(given, |cursor| read_grant_cursor(cursor, sort))
}

fn read_grant_cursor(cursor: &str, sort: GrantSort) -> Option<GrantKey> {
    let text = from_hex(cursor)?;
    match sort {
        GrantSort::Queued => read_owned_key(text.strip_prefix('s')?).map(GrantKey::Queued),
        GrantSort::Lock => {
            let (place, lock) = text.strip_prefix('l')?.split_once(':')?;
            Some(GrantKey::Lock(LockName::parse(lock).ok()?, read_queue_cursor(place)?))
        }
    }
}

/// A position in a queue as text.
pub(crate) fn queue_cursor(key: QueueKey) -> String {
    match key {
        QueueKey::Holder(number) => format!("held-{number}"),
        QueueKey::Waiter { effective_priority, number } => format!("queued-{effective_priority}-{number}"),
    }
}

/// The position of a cursor in a queue.
pub(crate) fn queue_key(given: Option<QueueCursor>) -> Result<Option<QueueKey>, Problem> {
    cursor(given, read_queue_cursor)
}

fn read_queue_cursor(cursor: &str) -> Option<QueueKey> {
    let number = |text: &str| digits(text).map(GrantNumber);
    match cursor.split_once('-')? {
        ("held", text) => number(text).map(QueueKey::Holder),
        ("queued", text) => {
            let (priority, text) = text.rsplit_once('-')?;
            let effective_priority = priority.parse().ok().filter(|_| !priority.starts_with('+'))?;
            Some(QueueKey::Waiter { effective_priority, number: number(text)? })
        }
        _ => None,
    }
}

/// The contender in the middle of a page of a queue.
pub(crate) fn queue_anchor(given: Option<QueueAround>) -> Result<Option<QueueAnchor>, Problem> {
    let Some(text) = given.as_ref().map(QueueAround::as_str) else { return Ok(None) };
    let anchor = match text {
        "last" => Some(QueueAnchor::Last),
        number => digits(number).map(|number| QueueAnchor::Grant(GrantNumber(number))),
    };
    anchor.map(Some).ok_or_else(|| expected("around", "the number of a grant in the queue, or \"last\""))
}

/// A position among events as text.
pub(crate) fn event_cursor(position: EventPosition) -> String {
    format!("{}-{}", position.revision, position.index)
}

/// The position of a cursor among events.
pub(crate) fn event_position(given: Option<EventCursor>) -> Result<Option<EventPosition>, Problem> {
    cursor(given, read_event_cursor)
}

fn read_event_cursor(cursor: &str) -> Option<EventPosition> {
    let (revision, index) = cursor.split_once('-')?;
    Some(EventPosition { revision: Revision(digits(revision)?), index: usize::try_from(digits(index)?).ok()? })
}

/// A position among a session's grants and nodes, as text.
pub(crate) fn owned_cursor(after: &OwnedAfter) -> String {
    let grant = after.grant.map_or_else(String::new, |key| format!("{}-{}", key.number, key.lock));
    to_hex(&format!("{grant}:{}", after.node.as_ref().map_or("", Path::as_str)))
}

/// The position of a cursor among a session's grants and nodes.
pub(crate) fn owned_after(given: Option<OwnedCursor>) -> Result<Option<OwnedAfter>, Problem> {
    cursor(given, read_owned_cursor)
}

fn read_owned_cursor(cursor: &str) -> Option<OwnedAfter> {
    let text = from_hex(cursor)?;
    let (grant, node) = text.split_once(':')?;
    Some(OwnedAfter {
        grant: if grant.is_empty() { None } else { Some(read_owned_key(grant)?) },
        node: if node.is_empty() { None } else { Some(Path::parse(node).ok()?) },
    })
}

fn read_owned_key(text: &str) -> Option<OwnedKey> {
    let (number, lock) = text.split_once('-')?;
    Some(OwnedKey { number: GrantNumber(digits(number)?), lock: usize::try_from(digits(lock)?).ok()? })
}

fn to_hex(text: &str) -> String {
    text.bytes().fold(String::with_capacity(2 * text.len()), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _written = write!(hex, "{byte:02x}");
        hex
    })
}

fn from_hex(hex: &str) -> Option<String> {
    let digits = hex.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let bytes = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

fn letter(sort: LockSort) -> char {
    match sort {
        LockSort::Name => 'n',
        LockSort::Waiters => 'w',
        LockSort::LongestWait => 'l',
        LockSort::HeldFor => 'f',
        LockSort::Wait => 't',
        LockSort::Hold => 'h',
        LockSort::Contention => 'c',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{call::INTEGER_MAX, limits::PATH_BYTES_MAX};
    use http::StatusCode;

    #[test]
    fn a_cursor_leads_back_to_its_position_among_the_locks() {
        for (rank, name) in [(0, "deploy"), (u64::MAX, "orders/42"), (7, "café au:lait")] {
            let key = LockKey { rank, name: LockName::parse(name).unwrap() };
            let cursor = lock_cursor(LockSort::Waiters, &key);
            assert_eq!(read_lock_cursor(&cursor, LockSort::Waiters), Some(key));
            assert_eq!(read_lock_cursor(&cursor, LockSort::Name), None, "a cursor of another order was accepted");
        }
        for wrong in ["", "6e", "6e30", "6e303a", "zz", "6e303a2f", "+1+1", "é"] {
            assert_eq!(read_lock_cursor(wrong, LockSort::Name), None, "{wrong} was accepted");
        }
    }

    #[test]
    fn a_cursor_is_of_one_order_only() {
        let sorts = [
            LockSort::Name,
            LockSort::Waiters,
            LockSort::LongestWait,
            LockSort::HeldFor,
            LockSort::Wait,
            LockSort::Hold,
            LockSort::Contention,
        ];
        let key = LockKey { rank: 7, name: LockName::parse("deploy").unwrap() };
        for (one, other) in sorts.iter().flat_map(|one| sorts.iter().map(move |other| (*one, *other))) {
            assert_eq!(read_lock_cursor(&lock_cursor(one, &key), other).is_some(), one == other, "{one:?} {other:?}");
        }
    }

    #[test]
    fn a_cursor_leads_back_to_its_position_among_the_histories() {
        let hold = HistoryKey { ended: Revision(u64::MAX), number: GrantNumber(u64::MAX) };
        for (hold, name) in [(HistoryKey { ended: Revision(57), number: GrantNumber(41) }, "café au:lait"), (hold, "orders/42")]
        {
            let key = HistoriesKey { lock: LockName::parse(name).unwrap(), hold };
            assert_eq!(read_histories_cursor(&histories_cursor(&key)), Some(key));
        }
        let longest = HistoriesKey { lock: LockName::parse(&"x".repeat(512)).unwrap(), hold };
        assert_eq!(histories_cursor(&longest).len(), HistoriesCursor::BYTES_MAX);
        for wrong in ["", "57-41", &to_hex("57-41"), &to_hex("57-41:"), &to_hex("57:a"), &to_hex("-41:a"), &to_hex("57-41:/a")] {
            assert_eq!(read_histories_cursor(wrong), None, "{wrong} was accepted");
        }
    }

    #[test]
    fn a_cursor_leads_back_to_its_position_among_grants_in_the_same_order_only() {
        let queued = GrantKey::Queued(OwnedKey { number: GrantNumber(u64::MAX), lock: usize::MAX });
        let place = QueueKey::Waiter { effective_priority: i32::MIN, number: GrantNumber(u64::MAX) };
        let by_lock = |name: &str, place| GrantKey::Lock(LockName::parse(name).unwrap(), place);
        let longest = by_lock(&"x".repeat(512), place);
        for (key, sort, other) in [
            (queued, GrantSort::Queued, GrantSort::Lock),
            (by_lock("café au:lait", QueueKey::Holder(GrantNumber(41))), GrantSort::Lock, GrantSort::Queued),
            (longest.clone(), GrantSort::Lock, GrantSort::Queued),
        ] {
            let cursor = grant_cursor(&key);
            assert!(cursor.len() <= GrantsCursor::BYTES_MAX, "{cursor}");
            assert_eq!(read_grant_cursor(&cursor, sort), Some(key), "{cursor}");
            assert_eq!(read_grant_cursor(&cursor, other), None, "a cursor of another order was accepted");
        }
        assert_eq!(grant_cursor(&longest).len(), GrantsCursor::BYTES_MAX);
        for wrong in ["", "s41-0", &to_hex("s41"), &to_hex("s41-"), &to_hex("s-0"), &to_hex("41-0"), &to_hex("s41-0-1")] {
            assert_eq!(read_grant_cursor(wrong, GrantSort::Queued), None, "{wrong} was accepted");
        }
        for wrong in ["lheld-41:a", &to_hex("lheld-41"), &to_hex("lheld-41:"), &to_hex("lheld-41:/a"), &to_hex("lidle-41:a")] {
            assert_eq!(read_grant_cursor(wrong, GrantSort::Lock), None, "{wrong} was accepted");
        }
    }

    #[test]
    fn a_cursor_leads_back_to_its_position_in_a_queue() {
        let waiter = |effective_priority| QueueKey::Waiter { effective_priority, number: GrantNumber(u64::MAX) };
        for key in [QueueKey::Holder(GrantNumber(41)), waiter(0), waiter(i32::MIN), waiter(i32::MAX)] {
            let cursor = queue_cursor(key);
            assert!(cursor.len() <= QueueCursor::BYTES_MAX, "{cursor}");
            assert_eq!(read_queue_cursor(&cursor), Some(key), "{cursor}");
        }
        for wrong in [
            "",
            "held",
            "held-",
            "held--1",
            "held-a",
            "queued-1",
            "queued-1-",
            "queued--57",
            "queued-0-1-2",
            "queued-+1-2",
            "x-1",
        ] {
            assert_eq!(read_queue_cursor(wrong), None, "{wrong} was accepted");
        }
    }

    #[test]
    fn a_page_of_a_queue_is_around_a_number_or_the_last_contender() {
        let anchor = |text: &str| queue_anchor(Some(QueueAround::try_from(text.to_owned()).unwrap()));
        assert_eq!(anchor("last").unwrap(), Some(QueueAnchor::Last));
        for number in [41, INTEGER_MAX] {
            assert_eq!(anchor(&number.to_string()).unwrap(), Some(QueueAnchor::Grant(GrantNumber(number))));
        }
        assert_eq!(queue_anchor(None).unwrap(), None);
        for wrong in ["", "-1", "+1", "#41", "first", "LAST", "41 "] {
            assert!(anchor(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn a_cursor_leads_back_to_its_position_among_events() {
        for (revision, index) in [(1, 0), (57, 3), (u64::MAX, usize::MAX)] {
            let position = EventPosition { revision: Revision(revision), index };
            let cursor = event_cursor(position);
            assert!(cursor.len() <= EventCursor::BYTES_MAX, "{cursor}");
            assert_eq!(read_event_cursor(&cursor), Some(position), "{cursor}");
        }
        for wrong in ["", "57", "57-", "-3", "57-3-1", "+57-3", "57--3", "57-x"] {
            assert_eq!(read_event_cursor(wrong), None, "{wrong} was accepted");
        }
    }

    #[test]
    fn a_cursor_leads_back_to_its_position_in_a_sessions_list() {
        let grant = Some(OwnedKey { number: GrantNumber(u64::MAX), lock: usize::MAX });
        let path = |bytes: usize| Some(Path::parse(&format!("/{}", "a".repeat(bytes - 1))).unwrap());
        for after in [
            OwnedAfter::default(),
            OwnedAfter { grant, node: None },
            OwnedAfter { grant: None, node: Some(Path::parse("/a:b/café").unwrap()) },
            OwnedAfter { grant, node: path(PATH_BYTES_MAX) },
        ] {
            let cursor = owned_cursor(&after);
            assert!(cursor.len() <= OwnedCursor::BYTES_MAX, "{cursor}");
            assert_eq!(read_owned_cursor(&cursor), Some(after), "{cursor}");
        }
        for wrong in ["", "x", "zz", "41", &to_hex("1:/a"), &to_hex("1-:/a"), &to_hex("1-2:a"), &to_hex("1-2"), &to_hex("-2:/a")]
        {
            assert_eq!(read_owned_cursor(wrong), None, "{wrong} was accepted");
        }
    }

    #[test]
    fn the_longest_name_has_a_cursor() {
        let key = LockKey { rank: u64::MAX, name: LockName::parse(&"x".repeat(512)).unwrap() };
        assert_eq!(lock_cursor(LockSort::Waiters, &key).len(), LockCursor::BYTES_MAX);
    }

    #[test]
    fn the_link_keeps_the_other_parameters() {
        let link = |uri: &'static str, cursor| {
            let response = answer::empty(StatusCode::OK, fairhold_types::Revision(1));
            let response = link_next(response, &Uri::from_static(uri), cursor).unwrap();
            response.headers().get(header::LINK).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(link("/v1/locks", Some("6e")).unwrap(), "</v1/locks?cursor=6e>; rel=\"next\"");
        let next = link("/v1/locks?prefix=a%2F&cursor=00&limit=2", Some("6e")).unwrap();
        assert_eq!(next, "</v1/locks?prefix=a%2F&limit=2&cursor=6e>; rel=\"next\"");
        let next = link("/v1/locks/a/queue?around=41&limit=2", Some("queued-0-57")).unwrap();
        assert_eq!(next, "</v1/locks/a/queue?limit=2&cursor=queued-0-57>; rel=\"next\"");
        let next = link("/v1/locks/a/queue?%61round=41&limit=2", Some("queued-0-57")).unwrap();
        assert_eq!(next, "</v1/locks/a/queue?limit=2&cursor=queued-0-57>; rel=\"next\"", "an escaped name");
        assert_eq!(link("/v1/locks?cursor=00", None), None);
    }
}

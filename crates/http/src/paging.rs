//! Listings in pages: the cursor in which the caller is told where the next one begins, and the link to it.

use crate::{answer, error::Problem, params::Params, params::expected};
use axum::response::Response;
use fairhold_state::listing::{LockKey, LockSort};
use fairhold_types::{
    LockName,
    limits::{PAGE_DEFAULT, PAGE_MAX},
};
use http::{Uri, header};
use std::fmt::Write;

/// The longest cursor: the order's letter, a rank and a name, two digits a byte.
const CURSOR_BYTES_MAX: usize = 2 * (1 + 20 + 1 + fairhold_types::limits::LOCK_NAME_BYTES_MAX);

/// How many entries a page may have.
pub(crate) fn limit(params: &mut Params<'_>) -> Result<usize, Problem> {
    let limit = params.integer("limit", 1..=PAGE_MAX as u64)?;
    Ok(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(PAGE_DEFAULT))
}

/// `Link: <…>; rel="next"`: the same listing from that cursor on.
pub(crate) fn link_next(response: &mut Response, uri: &Uri, cursor: Option<&str>) -> Result<(), Problem> {
    let Some(cursor) = cursor else { return Ok(()) };
    let mut target = format!("{}?", uri.path());
    let is_cursor = |pair: &&str| pair.split('=').next() == Some("cursor");
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty() && !is_cursor(pair)) {
        target.push_str(pair);
        target.push('&');
    }
    let link = answer::header_value(format!("<{target}cursor={cursor}>; rel=\"next\""))?;
    response.headers_mut().insert(header::LINK, link);
    Ok(())
}

/// A place among the locks as text, good for the order in which it was given.
pub(crate) fn lock_cursor(sort: LockSort, key: &LockKey) -> String {
    let text = format!("{}{}:{}", letter(sort), key.rank, key.name.as_str());
    text.bytes().fold(String::with_capacity(2 * text.len()), |mut cursor, byte| {
        // Writing to a text cannot fail.
        let _written = write!(cursor, "{byte:02x}");
        cursor
    })
}

/// The place among the locks that a page gave as its cursor, in the same order.
pub(crate) fn lock_key(params: &mut Params<'_>, sort: LockSort) -> Result<Option<LockKey>, Problem> {
    let Some(cursor) = params.text("cursor", CURSOR_BYTES_MAX)? else { return Ok(None) };
    match read_lock_cursor(&cursor, sort) {
        Some(key) => Ok(Some(key)),
        None => Err(expected("cursor", "the next_cursor of a page of the same listing")),
    }
}

fn read_lock_cursor(cursor: &str, sort: LockSort) -> Option<LockKey> {
    let digits = cursor.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let bytes = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let text = String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()?;
    let (rank, name) = text.strip_prefix(letter(sort))?.split_once(':')?;
    Some(LockKey { rank: crate::params::digits(rank)?, name: LockName::parse(name).ok()? })
}

fn letter(sort: LockSort) -> char {
    match sort {
        LockSort::Name => 'n',
        LockSort::Waiters => 'w',
        LockSort::LongestWait => 'l',
        LockSort::Wait => 't',
        LockSort::Hold => 'h',
        LockSort::Contention => 'c',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    #[test]
    fn a_cursor_comes_back_as_the_place_that_it_was_made_of() {
        for (rank, name) in [(0, "deploy"), (u64::MAX, "orders/42"), (7, "café au:lait")] {
            let key = LockKey { rank, name: LockName::parse(name).unwrap() };
            let cursor = lock_cursor(LockSort::Waiters, &key);
            assert_eq!(read_lock_cursor(&cursor, LockSort::Waiters), Some(key));
            assert_eq!(read_lock_cursor(&cursor, LockSort::Name), None, "a cursor of another order was taken");
        }
        for wrong in ["", "6e", "6e30", "6e303a", "zz", "6e303a2f", "+1+1", "é"] {
            assert_eq!(read_lock_cursor(wrong, LockSort::Name), None, "{wrong} was taken");
        }
    }

    #[test]
    fn the_longest_name_has_a_cursor() {
        let key = LockKey { rank: u64::MAX, name: LockName::parse(&"x".repeat(512)).unwrap() };
        assert_eq!(lock_cursor(LockSort::Waiters, &key).len(), CURSOR_BYTES_MAX);
    }

    #[test]
    fn the_link_keeps_what_else_was_asked() {
        let link = |uri: &'static str, cursor| {
            let mut response = answer::empty(StatusCode::OK, fairhold_types::Revision(1));
            link_next(&mut response, &Uri::from_static(uri), cursor).unwrap();
            response.headers().get(header::LINK).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(link("/v1/locks", Some("6e")).unwrap(), "</v1/locks?cursor=6e>; rel=\"next\"");
        let next = link("/v1/locks?prefix=a%2F&cursor=00&limit=2", Some("6e")).unwrap();
        assert_eq!(next, "</v1/locks?prefix=a%2F&limit=2&cursor=6e>; rel=\"next\"");
        assert_eq!(link("/v1/locks?cursor=00", None), None);
    }
}

//! Times as people type them, for calls that take a revision or an RFC 3339 time. Times without a zone are UTC, like
//! every time that `fairhold` prints.

use fairhold_types::{duration, time::WallMillis};
use std::time::{SystemTime, UNIX_EPOCH};

/// A day in milliseconds.
const DAY: u64 = 86_400_000;

/// Parses a revision, `2026-11-21T14:03:27Z`, `2026-11-21 14:03`, `14:03` (its last occurrence), or `10m ago`.
pub(crate) fn parse(text: &str) -> Result<String, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    at(text, WallMillis(duration::millis(now))).ok_or_else(|| {
        "expected a revision, or a time in UTC like 14:03, 2026-11-21 14:03:27, 2026-11-21T14:03:27Z or '10m ago'".to_owned()
    })
}

fn at(text: &str, now: WallMillis) -> Option<String> {
    let text = text.trim();
    let is_revision = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_revision || WallMillis::from_rfc3339(text).is_some() {
        return Some(text.to_owned());
    }
    if let Some(age) = text.strip_suffix("ago") {
        let age = u64::try_from(duration::parse(age.trim()).ok()?.as_millis()).ok()?;
        return now.0.checked_sub(age).map(|then| WallMillis(then).to_rfc3339());
    }
    if let Some((date, time)) = text.split_once([' ', 'T']) {
        return on(date, time.trim_start()).map(WallMillis::to_rfc3339);
    }
    let now_text = now.to_rfc3339();
    let today = on(now_text.get(..10)?, text)?;
    let last = if today > now { WallMillis(today.0.checked_sub(DAY)?) } else { today };
    Some(last.to_rfc3339())
}

/// A time of day on a date; the seconds are optional.
fn on(date: &str, time: &str) -> Option<WallMillis> {
    let seconds = if time.matches(':').count() == 1 { ":00" } else { "" };
    WallMillis::from_rfc3339(&format!("{date}T{time}{seconds}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_as_people_type_them() {
        let now = WallMillis::from_rfc3339("2026-11-22T04:48:05.500Z").unwrap();
        for (text, moment) in [
            ("34246", Some("34246")),
            ("2026-11-21T14:03:27Z", Some("2026-11-21T14:03:27Z")),
            ("2026-11-21T14:03:27+01:00", Some("2026-11-21T14:03:27+01:00")),
            ("2026-11-21 14:03:27", Some("2026-11-21T14:03:27.000Z")),
            ("2026-11-21 14:03", Some("2026-11-21T14:03:00.000Z")),
            ("03:12", Some("2026-11-22T03:12:00.000Z")),
            ("04:48:05", Some("2026-11-22T04:48:05.000Z")),
            ("14:03", Some("2026-11-21T14:03:00.000Z")),
            ("10m ago", Some("2026-11-22T04:38:05.500Z")),
            ("1h30m ago", Some("2026-11-22T03:18:05.500Z")),
            ("yesterday", None),
            ("25:00", None),
            ("", None),
            ("ago", None),
            ("99999999h ago", None),
        ] {
            assert_eq!(at(text, now).as_deref(), moment, "{text}");
        }
    }
}

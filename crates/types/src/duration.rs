//! Durations as text: `"30s"`, `"250ms"`, `"1m 30s"`; a bare number means seconds.

use std::time::Duration;

/// Why a string is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a duration is a number with a unit, like 30s, 250ms or 10m (a bare number means seconds)")]
pub struct ParseDurationError;

/// Parses a duration. A number without a unit, such as `1.5`, means seconds. Negative and infinite durations are refused, and
/// durations over 584 years, whose nanoseconds do not fit into 64 bits.
pub fn parse(text: &str) -> Result<Duration, ParseDurationError> {
    if text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        let seconds: f64 = text.parse().map_err(|_| ParseDurationError)?;
        return Duration::try_from_secs_f64(seconds).ok().filter(fits).ok_or(ParseDurationError);
    }
    humantime::parse_duration(text).ok().filter(fits).ok_or(ParseDurationError)
}

fn fits(duration: &Duration) -> bool {
    u64::try_from(duration.as_nanos()).is_ok()
}

/// The whole milliseconds of a duration, rounded down; `u64::MAX` if they do not fit.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a duration in the largest unit that needs no fraction: `"30s"`, `"250ms"`.
#[must_use]
pub fn format(duration: Duration) -> String {
    if duration.subsec_millis() == 0 { format!("{}s", duration.as_secs()) } else { format!("{}ms", duration.as_millis()) }
}

/// Formats a duration for people: `"840ms"`, `"2.4s"`, `"13s"`, `"1m24s"`, `"2h05m"`, `"3d04h"`. It rounds down, so it never
/// shows too much time.
#[must_use]
pub fn rounded(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        0 if millis == 0 => "0s".to_owned(),
        0 => format!("{millis}ms"),
        1..10 if millis >= 100 => format!("{seconds}.{}s", millis / 100),
        1..60 => format!("{seconds}s"),
        60..3_600 => two_units(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two_units(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two_units(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// Two units, or only the first if the second would be zero.
fn two_units(many: u64, unit: &str, rest: u64, smaller: &str) -> String {
    if rest == 0 { format!("{many}{unit}") } else { format!("{many}{unit}{rest:02}{smaller}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_with_few_digits() {
        let spans = [
            (0, "0s"),
            (840, "840ms"),
            (1_000, "1s"),
            (2_499, "2.4s"),
            (10_962, "10s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (84_769, "1m24s"),
            (3_600_000, "1h"),
            (7_500_000, "2h05m"),
            (273_600_000, "3d04h"),
        ];
        for (millis, text) in spans {
            assert_eq!(rounded(Duration::from_millis(millis)), text);
        }
        assert_eq!(rounded(Duration::from_nanos(1)), "0s");
    }

    #[test]
    fn durations_are_parsed_as_people_write_them() {
        for (text, millis) in
            [("30s", 30_000), ("250ms", 250), ("10m", 600_000), ("30", 30_000), ("1.5", 1_500), ("0", 0), ("1m 30s", 90_000)]
        {
            assert_eq!(parse(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
    }

    #[test]
    fn an_invalid_duration_is_refused() {
        for text in ["", "-1", "s", "1 parsec", "1e3", "NaN", "inf", "1..5", "99999999999999999999999", "18446744073709551615m"] {
            assert!(parse(text).is_err(), "{text} was accepted");
        }
    }

    #[test]
    fn a_formatted_duration_parses_to_the_same_value() {
        for millis in [0, 1, 250, 1_000, 30_000, 90_500] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse(&format(duration)).unwrap(), duration);
        }
    }
}

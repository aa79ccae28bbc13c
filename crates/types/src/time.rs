//! Wall-clock times, for people to read. No rule of the system depends on one.

/// Milliseconds since the Unix epoch, by the clock of the node that received the request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct WallMillis(pub u64);

impl WallMillis {
    /// RFC 3339 in UTC with milliseconds, like `2026-11-21T04:54:00.123Z`.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        jiff_time(self).map_or_else(|| "invalid".to_owned(), |time| format!("{time:.3}"))
    }

    /// The same, and a number for a time that no calendar has.
    #[must_use]
    pub fn to_text(self) -> String {
        match jiff_time(self) {
            Some(_) => self.to_rfc3339(),
            None => format!("{} ms after 1970", self.0),
        }
    }

    /// Parses the output of `to_rfc3339`.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<WallMillis> {
        let time: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(time.as_millisecond()).ok().map(WallMillis)
    }
}

fn jiff_time(at: WallMillis) -> Option<jiff::Timestamp> {
    i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_formatted_as_rfc_3339() {
        assert_eq!(WallMillis(1_763_700_840_120).to_rfc3339(), "2025-11-21T04:54:00.120Z");
        assert_eq!(WallMillis::from_rfc3339("2025-11-21T04:54:00.120Z"), Some(WallMillis(1_763_700_840_120)));
        assert_eq!(WallMillis::from_rfc3339("yesterday"), None);
        assert_eq!(WallMillis(u64::MAX).to_rfc3339(), "invalid");
        assert_eq!(WallMillis(u64::MAX).to_text(), "18446744073709551615 ms after 1970");
        assert_eq!(WallMillis(1_763_700_840_120).to_text(), "2025-11-21T04:54:00.120Z");
    }
}

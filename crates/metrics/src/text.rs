//! The text of all series, in the two formats that scrapers use.

use prometheus_client::{encoding::text::encode, registry::Registry};
use std::fmt;

/// A text format for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The Prometheus text format, version 0.0.4, for scrapers and `promtool check metrics`.
    Plain,
    /// OpenMetrics 1.0, for scrapers that accept it.
    OpenMetrics,
}

impl Format {
    /// The format that a client's `Accept` header selects.
    #[must_use]
    pub fn accepted(accept: Option<&str>) -> Format {
        let names_openmetrics =
            |accept: &str| accept.split(',').any(|kind| kind.trim().starts_with("application/openmetrics-text"));
        if accept.is_some_and(names_openmetrics) { Format::OpenMetrics } else { Format::Plain }
    }

    /// Its media type.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All series of a registry with their current values.
pub fn text(registry: &Registry, format: Format) -> Result<String, fmt::Error> {
    let mut open = String::new();
    encode(&mut open, registry)?;
    Ok(match format {
        Format::OpenMetrics => open,
        Format::Plain => plain(&open),
    })
}

/// OpenMetrics names a counter's family without the `_total` of its samples; the plain format names it like its
/// samples. `# EOF` is a comment in the plain format. It stays, as a sign that the text is complete.
fn plain(open: &str) -> String {
    let mut plain = String::with_capacity(open.len() + open.len() / 16);
    let mut lines = open.lines().peekable();
    while let Some(line) = lines.next() {
        let help = line.strip_prefix("# HELP ");
        let kind = help.and(lines.peek().copied()).unwrap_or(line).strip_prefix("# TYPE ");
        let is_counter = kind.is_some_and(|kind| kind.ends_with(" counter"));
        match line.strip_prefix("# ").and_then(|comment| comment.split_once(' ')).filter(|_| is_counter) {
            Some((word @ ("HELP" | "TYPE"), rest)) => {
                let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                plain.extend(["# ", word, " ", name, "_total ", rest]);
            }
            Some(_) | None => plain.push_str(line),
        }
        plain.push('\n');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counter, Gauge, registry};

    #[test]
    fn each_format_names_the_family_of_a_counter_by_its_rules() {
        let mut registry = registry();
        registry.register("reads", "Reads", Counter::default());
        registry.register("open", "Open", Gauge::default());
        let open = text(&registry, Format::OpenMetrics).unwrap();
        let rest = "# HELP fairhold_open Open.\n# TYPE fairhold_open gauge\nfairhold_open 0\n# EOF\n";
        let reads = "# HELP fairhold_reads Reads.\n# TYPE fairhold_reads counter\nfairhold_reads_total 0\n";
        assert_eq!(open, format!("{reads}{rest}"));
        let plain = text(&registry, Format::Plain).unwrap();
        let reads = "# HELP fairhold_reads_total Reads.\n# TYPE fairhold_reads_total counter\nfairhold_reads_total 0\n";
        assert_eq!(plain, format!("{reads}{rest}"));
    }

    #[test]
    fn openmetrics_needs_an_accept_header() {
        for (accept, format) in [
            (None, Format::Plain),
            (Some("*/*"), Format::Plain),
            (Some("text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), Format::Plain),
            (Some("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"), Format::OpenMetrics),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept:?}");
        }
    }
}

//! Prints the figures of a run: one JSON object on one line, or rows for people and `cut`.

use super::measure::{RunOutcome, Tally};

use crate::remote::{
    Failure,
    format::{self, OutputFormat, Table, cell},
};
use serde_json::{Map, Value};

/// The fields of a histogram, in the order of the columns.
const SHAPE: [&str; 6] = ["mean", "p50", "p90", "p99", "p99_9", "max"];

/// Prints the figures.
pub(super) fn write(figures: &Map<String, Value>, requested: Option<OutputFormat>) -> Result<(), Failure> {
    match OutputFormat::resolve(requested) {
        OutputFormat::Json | OutputFormat::Ndjson => format::write(&format!("{}\n", Value::from(figures.clone()))),
        form @ (OutputFormat::Table | OutputFormat::Plain) => format::write(&text(&Value::from(figures.clone()), form)),
    }
}

fn text(figures: &Value, form: OutputFormat) -> String {
    let mut table = Table::new(&["", "A SECOND", "MEAN", "P50", "P90", "P99", "P99.9", "MAX"]);
    let mut row = |name: &str, per_second: String, times: &Value| {
        let times = SHAPE.iter().map(|field| milliseconds(&times[*field]));
        table.row([name.to_owned(), per_second].into_iter().chain(times).collect());
    };
    let name = format!("{} {}", cell(figures, "workload"), cell(figures, "client"));
    row(&name, format!("{:.0}", figures["per_second"].as_f64().unwrap_or_default()), &figures["latency_ms"]);
    for (step, times) in figures["steps_ms"].as_object().into_iter().flatten() {
        row(&format!("  {step}"), String::new(), times);
    }
    let text = table.take(form);
    if form == OutputFormat::Plain { text } else { text + &summary(figures) }
}

fn milliseconds(value: &Value) -> String {
    value.as_f64().map(|number| format!("{number:.2}")).unwrap_or_default()
}

fn summary(figures: &Value) -> String {
    let number = |field: &str| figures[field].as_f64().unwrap_or_default();
    let loop_kind = match figures["rate"].as_f64() {
        Some(rate) => format!("{rate} started a second"),
        None => "each starts the next operation when the previous one is done".to_owned(),
    };
    let cores = number("load_cpu_seconds") / number("seconds").max(f64::MIN_POSITIVE);
    let mut text = format!(
        "\nmilliseconds; {} clients for {} s, {loop_kind}; {} done, {} failed\n\
         the load generator used {cores:.2} of a core, {:.1} µs per operation; longest gap without a completed operation: {}\n",
        cell(figures, "clients"),
        cell(figures, "seconds"),
        cell(figures, "done"),
        cell(figures, "failed"),
        number("load_cpu_micros_each"),
        gaps(figures),
    );
    for part in figures["profile_ms"].as_array().into_iter().flatten() {
        text.push_str(&format!("{:>9} ms  {}\n", milliseconds(&part["ms"]), cell(part, "part")));
    }
    if let Some(why) = figures["first_failure"].as_str() {
        text.push_str(&format!("first failure: {}\n", format::terminal_safe(why)));
    }
    text
}

/// The longest gap, and the next ones, to tell one stall from many.
fn gaps(figures: &Value) -> String {
    let number = |gap: &Value, field: &str| gap[field].as_f64().unwrap_or_default();
    let gaps = figures["gaps"].as_array().into_iter().flatten();
    let gaps: Vec<String> =
        gaps.map(|gap| format!("{:.1} ms at {:.2} s", number(gap, "ms"), number(gap, "at_seconds"))).collect();
    match gaps.split_first() {
        None => "none".to_owned(),
        Some((longest, [])) => longest.clone(),
        Some((longest, next)) => format!("{longest}\nnext longest: {}", next.join(", ")),
    }
}

/// Prints the results. A run without any completed operation is a failure.
pub(super) fn written(outcome: &RunOutcome, figures: Map<String, Value>, output: Option<OutputFormat>) -> Result<(), Failure> {
    write(&figures, output)?;
    match &outcome.tally {
        Tally { done: 0, first_failure: Some(why), .. } => Err(Failure::Unavailable(format!("no operation completed: {why}"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_has_rows_and_plain_output_has_tabs() {
        let times = json!({"mean": 1.0, "p50": 1.0, "p90": 2.0, "p99": 3.0, "p99_9": 4.0, "max": 5.25});
        let figures = json!({
            "workload": "lock", "client": "http", "clients": 2, "seconds": 1.0, "rate": null, "done": 100, "failed": 1,
            "first_failure": "no", "per_second": 100.0, "latency_ms": times, "steps_ms": {"acquire": times},
            "load_cpu_seconds": 0.5, "load_cpu_micros_each": 5.0,
            "gaps": [{"ms": 171.25, "at_seconds": 0.5}, {"ms": 9.0, "at_seconds": 0.25}],
        });
        let plain = text(&figures, OutputFormat::Plain);
        assert_eq!(plain.lines().next(), Some("lock http\t100\t1.00\t1.00\t2.00\t3.00\t4.00\t5.25"));
        assert_eq!(plain.lines().count(), 2, "{plain}");
        let table = text(&figures, OutputFormat::Table);
        assert!(table.contains("0.50 of a core") && table.contains("first failure: no"), "{table}");
        assert!(table.contains("171.2 ms at 0.50 s\nnext longest: 9.0 ms at 0.25 s"), "{table}");
    }
}

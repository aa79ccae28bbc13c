//! Open dashboards, and what they cost the nodes. Each makes the calls of its page as a browser does: the next one a
//! fixed pause after the answer to the last, and the calls of a page side by side, each over its own connection.

mod page;

use self::page::{DashboardPage, PageCall};
use super::{
    load::{seconds, up_to},
    measure::{Times, round},
    servers,
    target::Target,
    wire::{Wire, WireAnswer},
};
use crate::remote::{
    Failure,
    format::{self, OutputFormat},
};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// The dashboards open one after the other within this time, so that their calls are spread over each second.
const OPENED_WITHIN: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub(super) struct DashboardArgs {
    /// Open this many dashboards, 1 to 1000
    #[arg(short, long, value_name = "N", default_value_t = 100, value_parser = up_to(1_000))]
    clients: usize,
    /// Measure for this many seconds, up to 86400
    #[arg(short, long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    seconds: Duration,
    /// Run for this many seconds before measuring; the first answers are longer than the following ones
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    warmup: Duration,
    /// Show this page on all of them
    #[arg(long, value_enum, default_value_t = DashboardPage::Overview)]
    page: DashboardPage,
}

/// Runs the workload and prints the figures.
pub(super) async fn run(target: &Target, args: &DashboardArgs, requested: Option<OutputFormat>) -> Result<(), Failure> {
    if args.seconds.is_zero() {
        return Err(Failure::Usage("--seconds must be greater than 0".to_owned()));
    }
    let calls = args.page.calls();
    let opened = Instant::now();
    let begin = opened + args.warmup;
    let end = begin + args.seconds;
    let every = OPENED_WITHIN / u32::try_from(args.clients).unwrap_or(u32::MAX).max(1);
    let mut polls = Vec::new();
    for (client, number) in (0..args.clients).zip(0_u32..) {
        for call in calls {
            let wire = target.wire_within(client, call.within);
            let poll = Poll { wire, call: *call, after: None, answers: PolledAnswers::new() };
            polls.push(tokio::spawn(poll.run(opened + every * number, begin, end)));
        }
    }
    tokio::time::sleep_until(begin.into()).await;
    let before = servers::sum(target, servers::CPU_SECONDS).await?;
    tokio::time::sleep_until(end.into()).await;
    let servers_cpu = servers::sum(target, servers::CPU_SECONDS).await? - before;
    let mut of_calls = vec![PolledAnswers::new(); calls.len()];
    for (poll, number) in polls.into_iter().zip((0..calls.len()).cycle()) {
        of_calls[number].add(poll.await.map_err(|error| Failure::Ended(error.to_string()))?);
    }
    let figures = figures(args, &of_calls, servers_cpu);
    let is_json = matches!(OutputFormat::resolve(requested), OutputFormat::Json | OutputFormat::Ndjson);
    format::write(&if is_json { format!("{figures}\n") } else { words(&figures) })?;
    match figures["first_failure"].as_str() {
        Some(why) if figures["done"] == 0 => Err(Failure::Unavailable(format!("no call was answered: {why}"))),
        _ => Ok(()),
    }
}

fn figures(args: &DashboardArgs, of_calls: &[PolledAnswers], servers_cpu: f64) -> Value {
    let mut all = PolledAnswers::new();
    let mut latency_of_calls = Map::new();
    for (call, answers) in args.page.calls().iter().zip(of_calls) {
        latency_of_calls.insert(call.url_path().to_owned(), answers.latency.json());
        all.add(answers.clone());
    }
    let seconds = args.seconds.as_secs_f64();
    let done = all.latency.count();
    json!({
        "workload": "dashboard", "page": args.page.name(), "clients": args.clients, "seconds": seconds,
        "done": done, "failed": all.failed, "first_failure": all.first_failure,
        "per_second": round(done as f64 / seconds), "body_bytes_per_second": round(all.body_bytes as f64 / seconds),
        "latency_ms": all.latency.json(), "calls_ms": latency_of_calls,
        "servers_cpu_seconds": round(servers_cpu), "servers_cores": round(servers_cpu / seconds),
        "servers_cpu_micros_each": round(servers_cpu * 1e6 / done.max(1) as f64),
    })
}

fn words(figures: &Value) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let text = |value: &Value| value.as_str().map(format::terminal_safe).unwrap_or_default();
    let times = |value: &Value| format!("{:.2} ms (p50), {:.2} ms (p99)", number(&value["p50"]), number(&value["p99"]));
    let mut words = format!(
        "{} dashboards with the page {} for {} s: {} calls answered, {:.1} a second, {} failed\n\
         answered after {}; the bodies have {:.1} KiB a second\n",
        figures["clients"],
        text(&figures["page"]),
        figures["seconds"],
        figures["done"],
        number(&figures["per_second"]),
        figures["failed"],
        times(&figures["latency_ms"]),
        number(&figures["body_bytes_per_second"]) / 1_024.0,
    );
    for (url_path, latency) in figures["calls_ms"].as_object().into_iter().flatten() {
        words.push_str(&format!("  {url_path}: {}\n", times(latency)));
    }
    words.push_str(&format!(
        "the given nodes used {:.2} s of processor time, {:.3} of a core, {:.1} µs per call, including all their other work\n",
        number(&figures["servers_cpu_seconds"]),
        number(&figures["servers_cores"]),
        number(&figures["servers_cpu_micros_each"]),
    ));
    if !figures["first_failure"].is_null() {
        words.push_str(&format!("first failure: {}\n", text(&figures["first_failure"])));
    }
    words
}

/// One call of one open dashboard.
struct Poll {
    wire: Wire,
    call: PageCall,
    /// The position up to which it has what the call lists.
    after: Option<String>,
    answers: PolledAnswers,
}

/// The answers in the measured time.
#[derive(Debug, Clone)]
struct PolledAnswers {
    latency: Times,
    body_bytes: u64,
    failed: u64,
    /// The error of the first failed call, which may be before the measured time.
    first_failure: Option<String>,
}

impl PolledAnswers {
    fn new() -> PolledAnswers {
        PolledAnswers { latency: Times::new(), body_bytes: 0, failed: 0, first_failure: None }
    }

    fn add(&mut self, other: PolledAnswers) {
        self.latency.add(&other.latency);
        self.body_bytes += other.body_bytes;
        self.failed += other.failed;
        self.first_failure = self.first_failure.take().or(other.first_failure);
    }
}

impl Poll {
    /// Makes the call again and again, from `first` on until `end`.
    async fn run(mut self, first: Instant, begin: Instant, end: Instant) -> PolledAnswers {
        let mut next = first;
        loop {
            tokio::time::sleep_until(next.min(end).into()).await;
            let started = Instant::now();
            if started >= end {
                return self.answers;
            }
            let outcome = self.ask().await;
            let now = Instant::now();
            let counts = now >= begin && now < end;
            match outcome {
                Ok(body_bytes) if counts => {
                    self.answers.latency.record(now - started);
                    self.answers.body_bytes += body_bytes;
                }
                Ok(_) => {}
                Err(why) => {
                    self.answers.failed += u64::from(counts);
                    self.answers.first_failure.get_or_insert(why);
                }
            }
            next = now + self.call.pause;
        }
    }

    /// Makes the call once, and returns the length of the answer's body.
    async fn ask(&mut self) -> Result<u64, String> {
        // After a failure, the call starts again with all that it lists.
        let target = self.call.target(self.after.take().as_deref());
        let answer = self.wire.send("GET", &target, self.call.headers, &[]).await?.success()?;
        if let Some(field) = self.call.position {
            self.after = Some(position(&answer, field)?);
        }
        Ok(answer.body.len() as u64)
    }
}

/// The position in an answer, which the next call passes on.
fn position(answer: &WireAnswer, field: &str) -> Result<String, String> {
    let body: Value = serde_json::from_slice(&answer.body).map_err(|error| format!("the answer is invalid: {error}"))?;
    let value = &body[field];
    let text = value.as_str().map(str::to_owned).or_else(|| value.as_u64().map(|number| number.to_string()));
    text.ok_or_else(|| format!("the answer has no {field}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_a_text_or_a_number() {
        let answer = |body: &str| WireAnswer { status: 200, body: body.as_bytes().to_vec() };
        assert_eq!(position(&answer(r#"{"next":"1s-0f-5"}"#), "next"), Ok("1s-0f-5".to_owned()));
        assert_eq!(position(&answer(r#"{"revision":42}"#), "revision"), Ok("42".to_owned()));
        for wrong in [r#"{"next":null}"#, "[]", "{"] {
            assert!(position(&answer(wrong), "next").is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_figures_add_up_all_calls_of_a_page() {
        let args =
            DashboardArgs { clients: 2, seconds: Duration::from_secs(2), warmup: Duration::ZERO, page: DashboardPage::Overview };
        let mut look = PolledAnswers::new();
        look.latency.record(Duration::from_millis(2));
        look.latency.record(Duration::from_millis(2));
        look.body_bytes = 2_000;
        let mut series = PolledAnswers::new();
        series.latency.record(Duration::from_millis(1));
        series.failed = 1;
        series.first_failure = Some("no answer".to_owned());
        let figures = figures(&args, &[look, series], 0.3);
        assert_eq!((&figures["done"], &figures["failed"], &figures["per_second"]), (&json!(3), &json!(1), &json!(1.5)));
        assert_eq!((&figures["body_bytes_per_second"], &figures["servers_cores"]), (&json!(1_000.0), &json!(0.15)));
        assert_eq!((&figures["servers_cpu_micros_each"], &figures["latency_ms"]["count"]), (&json!(100_000.0), &json!(3)));
        assert_eq!(figures["calls_ms"]["/v1/overview/series"]["count"], 1);
        let words = words(&figures);
        assert!(words.contains("3 calls answered, 1.5 a second, 1 failed\n"), "{words}");
        assert!(words.contains("0.150 of a core") && words.ends_with("first failure: no answer\n"), "{words}");
    }
}

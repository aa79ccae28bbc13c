//! `/metrics`: the page is well formed, costs little, names no lock or owner, and agrees with `docs/metrics.md`.

use crate::{
    client::{Call, Client, Grant},
    harness::{Cluster, LONG, NODES, SHORT, all, eventually, report, run_exclusive, run_parallel},
    trial,
    without::PROMTOOL,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// For each series: its type and the names of its labels.
type Series = BTreeMap<String, (String, BTreeSet<String>)>;

/// Parses a page of the Prometheus text format, and panics on every violation.
fn parse(page: &str) -> Series {
    let mut series = Series::new();
    let mut seen = BTreeSet::new();
    let mut buckets: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    let (mut name, mut kind, mut help) = (String::new(), String::new(), String::new());
    let body = page.strip_suffix("# EOF\n").unwrap_or_else(|| panic!("it does not end with # EOF: {page}"));
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (of, text) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(text.len() > 5, "it says nothing: {line}");
            of.clone_into(&mut help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (of, what) = rest.split_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert_eq!(of, help, "its HELP comes first");
            assert!(["counter", "gauge", "histogram"].contains(&what), "{line}");
            assert_eq!(what == "counter", of.ends_with("_total"), "{line}");
            assert!(of.starts_with("fairhold_") && of.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{line}");
            (name, kind) = (of.to_owned(), what.to_owned());
            let before = series.insert(name.clone(), (kind.clone(), BTreeSet::new()));
            assert_eq!(before, None, "{name} comes twice");
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(seen.insert(sample.to_owned()), "twice: {line}");
            let (of, labels) = sample.split_once('{').map_or((sample, ""), |(of, rest)| (of, rest.trim_end_matches('}')));
            let suffix = of.strip_prefix(&name).unwrap_or_else(|| panic!("not below its own TYPE: {line}"));
            assert_eq!(["_bucket", "_sum", "_count"].contains(&suffix), kind == "histogram", "{line}");
            let labels = label_pairs(labels);
            let own = labels.iter().filter(|(label, _)| *label != "le");
            let key: String = own.clone().map(|(label, text)| format!("{label}={text},")).collect();
            let known = &mut series.get_mut(&name).expect("its TYPE was read").1;
            known.extend(own.map(|(label, _)| (*label).to_owned()));
            let last = buckets.entry(format!("{name}{key}")).or_insert((0.0, f64::NAN));
            match (suffix, labels.iter().find(|(label, _)| *label == "le")) {
                ("_bucket", Some((_, "+Inf"))) => assert_eq!(value, last.1, "all that was counted: {line}"),
                ("_bucket", Some(_)) => {
                    assert!(value >= last.0, "each bucket includes the ones before it: {line}");
                    last.0 = value;
                }
                ("_count", None) => last.1 = value,
                (_, le) => assert!(le.is_none(), "{line}"),
            }
        }
    }
    let unfinished: Vec<_> =
        series.iter().filter(|(name, (kind, _))| kind == "histogram" && !page.contains(&format!("{name}_bucket{{"))).collect();
    assert!(unfinished.is_empty(), "no buckets: {unfinished:?}");
    series
}

/// Pairs such as `a="x",b="y"`; values contain no quotes.
fn label_pairs(text: &str) -> Vec<(&str, &str)> {
    let pairs = text.split("\",").filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once("=\"").map(|(label, value)| (label, value.trim_end_matches('"'))).expect("a label"))
        .collect()
}

#[test]
fn the_parser_finds_violations() {
    let fine = "# HELP fairhold_x_total What it is\n# TYPE fairhold_x_total counter\nfairhold_x_total{a=\"b\"} 1\n# EOF\n";
    assert_eq!(parse(fine)["fairhold_x_total"], ("counter".to_owned(), BTreeSet::from(["a".to_owned()])));
    for (from, to) in [
        ("# EOF\n", ""),
        ("# HELP fairhold_x_total What it is\n", ""),
        ("_total", ""),
        ("{a=\"b\"} 1\n", "{a=\"b\"} 1\nfairhold_x_total{a=\"b\"} 2\n"),
        ("} 1", "} one"),
        ("counter", "histogram"),
        ("fairhold_x_total{", "fairhold_y_total{"),
    ] {
        let wrong = fine.replace(from, to);
        assert!(std::panic::catch_unwind(|| parse(&wrong)).is_err(), "not found: {wrong}");
    }
}

async fn page(client: &Client, node: usize) -> String {
    let answer = client.send_to(node, &Call::get("/metrics")).await.expect("the node runs").expect_status(200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    answer.text
}

/// Runs `promtool check metrics`, a second opinion in addition to `parse`. The long form requires it.
fn promtool(page: &str) {
    let child = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(_) if trial::size(true, false) => return,
        Err(error) => {
            let Some(child) = PROMTOOL.or_without(Err(error.to_string())) else { return };
            child
        }
    };
    child.stdin.take().expect("its input").write_all(page.as_bytes()).expect("promtool reads");
    let output = child.wait_with_output().expect("promtool ends");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaints.is_empty(), "{}: {complaints}", output.status);
}

/// Uses every feature once, so that every series exists. Returns texts that must not be on the page.
async fn use_everything(cluster: &Cluster) -> Vec<String> {
    let client = cluster.client(0);
    let session = client.open_session("60s", "private-session").await;
    client.keepalive(&session).await.expect_status(200);
    let held = client.acquire("private-lock", &format!("session={}&owner=private-owner", session.id)).await;
    client.send(&Call::post("/v1/locks/private-lock")).await.expect_problem(409, "lock_held");
    client.send(&Call::post("/v1/locks/private-lock?wait=100ms")).await.expect_problem(409, "wait_timeout");
    client.release(&held.id).await;
    client.write(&Call::put("/v1/nodes/private-node", "private-value")).await;
    client.value("private-node").await;
    client.send(&Call::get("/nowhere/private-path")).await.expect_status(404);
    vec![session.id, held.id, "private".to_owned()]
}

/// The series in the page of the documentation.
fn documented(page: &str) -> Series {
    let rows = page.lines().filter(|line| line.starts_with("| `fairhold_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert_eq!(cells.len(), 5, "series, type, labels, meaning, alert: {row}");
        let labels = cells[2].split(", ").map(|label| label.trim_matches('`').to_owned()).filter(|label| !label.is_empty());
        (cells[0].trim_matches('`').to_owned(), (cells[1].to_owned(), labels.collect()))
    })
    .collect()
}

/// The series that a text names, without the suffixes of histograms.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("fairhold_"));
    let bare = |word: &str| {
        ["_bucket", "_sum", "_count"].iter().fold(word.to_owned(), |word, end| word.trim_end_matches(end).to_owned())
    };
    words.map(bare).collect()
}

#[test]
fn the_page_is_well_formed_anonymous_and_as_documented() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let secrets = use_everything(&cluster).await;
        let client = cluster.client(0);
        let mut served = Series::new();
        for node in 0..NODES {
            // The second page includes the first request.
            page(&client, node).await;
            let page = page(&client, node).await;
            promtool(&page);
            let revealed: Vec<_> = secrets.iter().filter(|secret| page.contains(*secret)).collect();
            assert!(revealed.is_empty(), "{revealed:?} can be read in {page}");
            served.extend(parse(&page));
        }
        let open = Call::get("/metrics").with("accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
        let open = client.send(&open).await.expect_status(200);
        assert_eq!(open.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
        assert!(open.text.ends_with("# EOF\n") && open.text.contains("# TYPE fairhold_keepalives counter\n"), "{}", open.text);

        let text = fs::read_to_string("../../docs/metrics.md").expect("the page is there");
        let documented = documented(&text);
        for (name, series) in &served {
            assert_eq!(documented.get(name), Some(series), "docs/metrics.md and a node disagree on {name}");
        }
        let gone: Vec<_> = documented.keys().filter(|name| !served.contains_key(*name)).collect();
        assert!(gone.is_empty(), "docs/metrics.md has series that no node serves: {gone:?}");
        let unknown: Vec<_> = named(&text).into_iter().filter(|name| !served.contains_key(name)).collect();
        assert!(unknown.is_empty(), "docs/metrics.md queries series that no node serves: {unknown:?}");
        let dashboard = fs::read_to_string("../../deploy/grafana/fairhold.json");
        let dashboard = dashboard.expect("the dashboard is there");
        let _valid: serde_json::Value = serde_json::from_str(&dashboard).expect("it is JSON");
        let unknown: Vec<_> = named(&dashboard).into_iter().filter(|name| !served.contains_key(name)).collect();
        assert!(unknown.is_empty(), "the dashboard queries series that no node serves: {unknown:?}");
    });
}

/// Concurrent requests while sessions are opened.
const AT_ONCE: usize = 64;
/// A longer scrape walks over the state. Most of this time is spent in the tests' own machine.
const SCRAPE_MAX: Duration = Duration::from_millis(50);

/// Opens many sessions, at all nodes.
pub(crate) async fn open_sessions(cluster: &Cluster, count: usize, ttl: &'static str) -> Vec<String> {
    let opening = (0..AT_ONCE).map(|one| {
        let client = cluster.client(one);
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in (one..count).step_by(AT_ONCE) {
                ids.push(client.open_session(ttl, "idle").await.id);
            }
            ids
        })
    });
    all(opening.collect()).await.concat()
}

/// The value of a series without labels.
pub(crate) fn value(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {page}"))
}

#[test]
fn a_scrape_costs_little_however_many_sessions_there_are() {
    run_exclusive(LONG * 2, async {
        let count = trial::size(500, 100_000);
        let cluster = Cluster::start().await;
        open_sessions(&cluster, count, "1h").await;
        let client = cluster.client(0);
        let mut times = Vec::new();
        for _ in 0..21 {
            let started = Instant::now();
            let page = page(&client, 0).await;
            times.push(started.elapsed());
            assert!(value(&page, "fairhold_sessions") <= count as f64, "{page}");
        }
        times.sort_unstable();
        report(&format!("{count} sessions: a scrape takes {:.1?} (median), {:.1?} (longest of 21)", times[10], times[20]));
        assert!(times[10] < SCRAPE_MAX, "{times:?}");
    });
}

/// The value of a series on a page.
fn sample(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {page}")).parse().expect("a number")
}

#[test]
fn a_grant_of_several_locks_counts_once_and_an_upgrade_is_not_another_grant() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        let locks = json!({ "locks": [{ "name": "orders" }, { "name": "stock" }, { "name": "till" }] });
        let several = Grant::from_answer(&client.send(&Call::post("/v1/locks").json(&locks)).await);
        client.release(&several.id).await;
        let reader = client.acquire("map", "mode=shared").await;
        let upgraded = client.send(&Call::post(&format!("/v1/grants/{}/upgrade", reader.id))).await;
        assert!(Grant::from_answer(&upgraded).token > reader.token, "it is upgraded: {upgraded:?}");
        client.release(&reader.id).await;
        let ended = "fairhold_grants_ended_total{reason=\"released\"}";
        for node in 0..NODES {
            let page = eventually("both have ended", SHORT, || async {
                Some(page(&client, node).await).filter(|page| sample(page, ended) >= 2.0)
            })
            .await;
            for (series, count) in [
                ("fairhold_grants_queued_total", 2.0),
                ("fairhold_grants_given_total", 2.0),
                ("fairhold_grants_handed_over_total", 0.0),
                (ended, 2.0),
                ("fairhold_history_hand_overs_total", 0.0),
                // Counts of each lock, and of each mode.
                ("fairhold_history_entries", 5.0),
            ] {
                assert_eq!(sample(&page, series), count, "{series} at node {node}");
            }
        }
    });
}

#[test]
fn a_request_after_a_long_poll_on_its_connection_does_not_count_as_a_wait() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let client = cluster.client(0);
        for call in ["/v1/locks/orders?wait=0s", "/v1/locks/orders", "/v1/locks/orders"] {
            client.send(&Call::get(call)).await;
        }
        let page = page(&client, 0).await;
        let count =
            |series: &str| sample(&page, &format!("fairhold_http_{series}_seconds_count{{route=\"/v1/locks/{{name}}\"}}"));
        assert_eq!((count("waiting_request"), count("request")), (1.0, 2.0), "{page}");
    });
}

//! `fairhold bench`: its figures agree with those of the nodes.

use crate::{
    client::Call,
    harness::{Cluster, SHORT, free_ports, run_parallel},
    metrics::value,
};
use serde_json::Value;
use tokio::process::Command;

/// Runs a load on all nodes, and reads the last line that it prints.
async fn bench(cluster: &Cluster, arguments: &[&str]) -> Value {
    let endpoints = cluster.nodes.iter().map(|node| node.url.as_str()).collect::<Vec<_>>().join(",");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhold"));
    command.arg("bench").args(arguments).args(["--output", "json", "--endpoint", &endpoints]).kill_on_drop(true);
    let output = command.output().await.expect("fairhold runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().last().unwrap_or_else(|| panic!("{arguments:?} printed nothing"));
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{arguments:?} printed no JSON: {error}: {line}"))
}

fn count(figures: &Value, field: &str) -> u64 {
    figures[field].as_u64().unwrap_or_else(|| panic!("no {field} in {figures}"))
}

/// How often all nodes together granted, at once or after a wait.
async fn held(cluster: &Cluster) -> f64 {
    let mut sum = 0.0;
    for node in 0..cluster.nodes.len() {
        let page = cluster.client(node).send(&Call::get("/metrics")).await.expect_status(200).text;
        sum += value(&page, "fairhold_acquires_total{outcome=\"held\"}");
    }
    sum
}

/// How many requests for a route all nodes together have answered.
async fn answered(cluster: &Cluster, route: &str) -> f64 {
    let mut sum = 0.0;
    for node in 0..cluster.nodes.len() {
        let page = cluster.client(node).send(&Call::get("/metrics")).await.expect_status(200).text;
        sum += value(&page, &format!("fairhold_http_request_seconds_count{{route=\"{route}\"}}"));
    }
    sum
}

#[test]
fn the_count_of_a_lock_load_equals_the_count_of_the_nodes() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        for (workload, client) in [("lock", "http"), ("contended", "http"), ("lock", "rust"), ("contended", "rust")] {
            let before = held(&cluster).await;
            let arguments = [workload, "--clients", "4", "--seconds", "1", "--warmup", "0.2", "--client", client];
            let figures = bench(&cluster, &arguments).await;
            let (done, in_all) = (count(&figures, "done"), count(&figures, "in_all"));
            assert!(done > 0 && done < in_all && count(&figures, "failed") == 0, "{figures}");
            assert_eq!(figures["per_second"], done as f64, "in one second: {figures}");
            let granted = held(&cluster).await - before;
            if client == "http" {
                assert_eq!(granted, in_all as f64, "each operation is one grant: {figures}");
            } else {
                // The loader may request first and learn the result from the watch: each operation is one grant,
                // whichever counter has it.
                assert!(granted <= in_all as f64, "{granted} grants: {figures}");
            }
            let (p50, p99) = (figures["latency_ms"]["p50"].as_f64(), figures["latency_ms"]["p99"].as_f64());
            assert!(p50.is_some_and(|p50| p50 > 0.0) && p99 >= p50, "{figures}");
        }
        let locks = cluster.client(0).holders("bench").await;
        assert_eq!(locks, [0_u64; 0], "nothing is left held");
    });
}

#[test]
fn a_load_beyond_the_capacity_includes_the_waiting_times() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        // One client that must start ten thousand operations a second is late at once, and falls further behind.
        let arguments = ["lock", "--clients", "1", "--seconds", "1", "--warmup", "0", "--rate", "10000"];
        let figures = bench(&cluster, &arguments).await;
        let (whole, step) = (&figures["latency_ms"]["p50"], &figures["steps_ms"]["acquire"]["p50"]);
        assert!(whole.as_f64() > step.as_f64().map(|step| 3.0 * step), "the waiting counts: {figures}");
        assert!(
            count(&figures["latency_ms"], "count") > count(&figures, "done"),
            "operations that never started count too: {figures}"
        );
    });
}

#[test]
fn open_dashboards_make_the_calls_of_their_page_and_continue_their_lists() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        let clients = cluster.nodes.len().to_string();
        for (page, own) in [("overview", "/v1/overview/series"), ("events", "/v1/events")] {
            let arguments = ["dashboard", "--clients", &clients, "--seconds", "2", "--warmup", "1.2", "--page", page];
            let figures = bench(&cluster, &arguments).await;
            assert!(count(&figures, "failed") == 0 && figures["first_failure"].is_null(), "{figures}");
            let mut done = 0;
            for route in ["/v1/overview", own] {
                let of_route = count(&figures["calls_ms"][route], "count");
                let by_nodes = answered(&cluster, route).await;
                assert!(of_route > 0 && by_nodes >= of_route as f64, "{route} was answered {by_nodes} times: {figures}");
                done += of_route;
            }
            assert_eq!(count(&figures, "done"), done, "{figures}");
            assert!(figures["body_bytes_per_second"].as_f64() > Some(0.0), "{figures}");
            assert!(figures["servers_cpu_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{figures}");
        }
    });
}

#[test]
fn each_other_load_runs_and_leaves_nothing_behind() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        for operation in ["write", "read", "local-read"] {
            let figures = bench(&cluster, &["kv", "--operation", operation, "--clients", "4", "--seconds", "0.3"]).await;
            assert!(count(&figures, "done") > 0 && count(&figures, "failed") == 0, "{figures}");
        }
        let figures = bench(&cluster, &["watch", "--clients", "3", "--seconds", "0.3", "--rate", "50"]).await;
        assert_eq!((count(&figures, "missed"), count(&figures, "events")), (0, 3 * count(&figures, "writes")), "{figures}");
        assert!(figures["servers_cpu_seconds"].as_f64().is_some_and(|seconds| seconds >= 0.0), "{figures}");
        let figures = bench(&cluster, &["sessions", "--sessions", "50", "--seconds", "0.3"]).await;
        assert_eq!(count(&figures, "sessions"), 50);
        let figures = bench(&cluster, &["failover", "--clients", "2", "--seconds", "1"]).await;
        assert!(figures["longest_gap_ms"].as_f64().is_some_and(|gap| gap < 1_000.0), "it wrote: {figures}");
        let gaps = figures["gaps"].as_array().expect("the longest gaps");
        assert_eq!((gaps.len(), &gaps[0]["ms"]), (5, &figures["longest_gap_ms"]), "the longest comes first: {figures}");
        assert!(
            gaps.iter().all(|gap| gap["at_seconds"].as_f64().is_some_and(|at| at <= 1.0)),
            "each started within the time: {figures}"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let (directory, port) = (folder.path().join("log"), free_ports(&[0, 1, 2]).to_string());
        let directory = directory.to_str().expect("text");
        let figures = bench(&cluster, &["log", "--seconds", "0.3", "--dir", directory, "--port", &port]).await;
        assert!(count(&figures, "done") > 0 && count(&figures, "failed") == 0, "{figures}");
        assert!(!folder.path().join("log").exists(), "its directory is gone");
        let left = cluster.client(0).send(&Call::get("/v1/nodes/bench?children")).await.expect_status(200);
        assert_eq!(left.json["items"], serde_json::json!([]), "{}", left.text);
    });
}

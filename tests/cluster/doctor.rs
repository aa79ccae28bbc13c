//! `fairhold doctor`: its findings on a healthy cluster and on unhealthy ones.

use crate::harness::{Cluster, SHORT, eventually, free_port, run_exclusive, run_parallel};
use serde_json::Value;
use std::{process::Output, time::Duration};
use tokio::process::Command;

async fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairhold"));
    command.arg("doctor").args(arguments).env_remove("FAIRHOLD_ENDPOINT").kill_on_drop(true);
    command.output().await.expect("fairhold doctor runs")
}

/// Its exit code, and its findings: grade, check, observation and advice.
async fn found(endpoints: &[&str]) -> (Option<i32>, Vec<[String; 4]>) {
    let mut arguments = vec!["-o", "json", "--timeout", "3s"];
    arguments.extend(endpoints.iter().flat_map(|url| ["-e", *url]));
    let output = run(&arguments).await;
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let findings = report["findings"].as_array().expect("findings").iter();
    let findings = findings.map(|finding| ["grade", "check", "seen", "do"].map(|field| text(finding, field)));
    (output.status.code(), findings.collect())
}

#[track_caller]
fn assert_has(findings: &[[String; 4]], grade: &str, check: &str, seen: &str, advice: &str) {
    let there = findings
        .iter()
        .any(|[found, at, observed, todo]| found == grade && at == check && observed.contains(seen) && todo.contains(advice));
    assert!(there, "{grade} {check}: {seen} -> {advice} is not among {findings:#?}");
}

/// The checks that failed, except those that depend on this machine.
fn failed(findings: &[[String; 4]]) -> Vec<&str> {
    let failed = findings.iter().filter(|[grade, check, ..]| grade == "fail" && check != "disk" && check != "open_files");
    failed.map(|[_, _, seen, _]| seen.as_str()).collect()
}

#[test]
fn doctor_finds_all_nodes_of_a_healthy_cluster_from_one_endpoint() {
    run_parallel(SHORT, async {
        let cluster = Cluster::start().await;
        // A new leader and its followers need a moment to exchange messages.
        let findings = eventually("nothing is wrong", Duration::from_secs(20), || async {
            let (code, findings) = found(&[&cluster.nodes[0].url]).await;
            (code == Some(0) || findings.iter().any(|[grade, check, ..]| grade == "fail" && check == "disk")).then_some(findings)
        })
        .await;
        assert!(failed(&findings).is_empty(), "{findings:#?}");
        for node in &cluster.nodes {
            assert_has(&findings, "ok", "endpoint", &format!("{} is node {}", node.url, node.id), "");
            assert_has(&findings, "ok", "peer", &node.peer_address, "");
            assert_has(&findings, "ok", "clock", &format!("node {}'s clock", node.id), "");
            assert!(findings.iter().any(|[_, check, seen, _]| check == "disk" && seen.starts_with(&format!("node {}", node.id))));
        }
        assert_has(&findings, "ok", "quorum", "3 of 3", "");
        assert_has(&findings, "ok", "version", env!("CARGO_PKG_VERSION"), "");
        let text = run(&["-e", &cluster.nodes[0].url]).await;
        let text = String::from_utf8(text.stdout).expect("text");
        assert!(text.starts_with("ok    endpoint    http://") && text.contains(" fail\n") && !text.contains('\x1b'), "{text}");
        assert!(!text.contains("the same state"), "the nodes read their states only if they are asked to: {text}");
        let text = run(&["--digest", "-e", &cluster.nodes[0].url]).await;
        let text = String::from_utf8(text.stdout).expect("text");
        assert!(text.contains("nodes 1, 2, 3: the same state at "), "{text}");
    });
}

#[test]
fn doctor_tells_a_dead_node_a_lost_quorum_and_a_stranger_apart_with_advice() {
    run_exclusive(SHORT, async {
        let (mut cluster, other) = (Cluster::start().await, Cluster::start().await);
        let leader = cluster.leader().await;
        let [one, two] = cluster.followers().await;
        let (url, stranger) = (cluster.nodes[leader].url.clone(), other.nodes[0].url.clone());
        let second = cluster.nodes[two].url.clone();
        let (code, findings) = found(&[&url, &second, &stranger]).await;
        assert_eq!(code, Some(1), "{findings:#?}");
        assert_has(&findings, "fail", "endpoint", &format!("{stranger} is node 1 of another cluster"), "remove it from");
        assert_eq!(failed(&findings).len(), 1, "nothing else is wrong: {findings:#?}");

        cluster.nodes[one].kill().await;
        let dead = cluster.nodes[one].id;
        let (code, findings) = found(&[&url]).await;
        assert_eq!(code, Some(1), "{findings:#?}");
        assert_has(&findings, "fail", "endpoint", &format!("node {dead} at {}", cluster.nodes[one].url), "start it");
        assert_has(&findings, "fail", "quorum", "2 of 3", "one more failure would stop the service");
        assert_has(&findings, "warn", "peer", &cluster.nodes[one].peer_address, "firewall");

        cluster.nodes[two].kill().await;
        let findings = eventually("the loss of the leader is noticed", Duration::from_secs(20), || async {
            let (code, findings) = found(&[&url]).await;
            assert_eq!(code, Some(1), "{findings:#?}");
            findings.iter().any(|[grade, check, ..]| grade == "fail" && check == "ready").then_some(findings)
        })
        .await;
        assert_has(&findings, "fail", "quorum", "1 of 3", "until then the cluster grants no locks and accepts no writes");
        let is_ok = findings.iter().any(|[grade, check, ..]| grade == "ok" && check == "leader");
        assert!(!is_ok, "a node without a majority is no leader: {findings:#?}");
    });
}

#[test]
fn doctor_has_its_own_exit_code_if_no_node_answers() {
    run_parallel(SHORT, async {
        let url = format!("http://127.0.0.1:{}", free_port());
        let (code, findings) = found(&[&url]).await;
        assert_eq!(code, Some(69), "{findings:?}");
        assert_has(&findings, "fail", "endpoint", &url, "correct the URL");
    });
}

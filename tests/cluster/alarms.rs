//! Alarms: raised while their cause is there, gone by themselves, and the same in the API, the metrics, the command line
//! and `doctor`.

use crate::{
    client::Call,
    harness::{Cluster, LONG, SHORT, eventually, free_port, program, run_exclusive, run_parallel},
    trial,
    without::PROMTOOL,
};
use serde_json::Value;
use std::{process::Output, time::Duration};

/// An alarm is raised or gone within this time. It takes about four seconds at most.
const CHANGED_WITHIN: Duration = Duration::from_secs(30);

/// A leader has the states compared a minute after its election.
const COMPARED_WITHIN: Duration = Duration::from_secs(120);
/// How often the planted bug leaves out an entry.
const LOST_ENTRY_EVERY: usize = 16;

/// The alarms of a node, by name.
async fn raised(cluster: &Cluster, index: usize) -> Vec<String> {
    let answer = cluster.client(index).send_to(index, &Call::get("/v1/cluster/alarms")).await.expect("the node runs");
    let answer = answer.expect_status(200);
    assert_eq!(answer.json["id"], cluster.nodes[index].id, "a node tells only what it knows itself");
    let alarms = answer.json["alarms"].as_array().expect("a list").iter();
    alarms.map(|alarm| alarm["alarm"].as_str().expect("a name").to_owned()).collect()
}

/// Waits until the alarms of a node are these, apart from those about the machine of the test.
async fn until_raised(cluster: &Cluster, index: usize, wanted: &[&str]) {
    until_raised_within(CHANGED_WITHIN, cluster, index, wanted).await;
}

async fn until_raised_within(within: Duration, cluster: &Cluster, index: usize, wanted: &[&str]) {
    eventually(&format!("node {index} raises {wanted:?}"), within, || async {
        let raised = raised(cluster, index).await;
        let raised: Vec<&str> = raised.iter().map(String::as_str).filter(|name| !is_of_machine(name)).collect();
        (raised == wanted).then_some(())
    })
    .await;
}

fn is_of_machine(name: &str) -> bool {
    ["disk", "disk_slow", "memory", "timing"].contains(&name)
}

/// The value of the metric of an alarm at a node.
async fn metric(cluster: &Cluster, index: usize, alarm: &str) -> String {
    let page = cluster.client(index).send_to(index, &Call::get("/metrics")).await.expect("the node runs").text;
    let series = format!("fairhold_alarm{{alarm=\"{alarm}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&series)).unwrap_or_else(|| panic!("no {series} in {page}")).to_owned()
}

async fn run(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = program();
    command.args(arguments).env_remove("FAIRHOLD_ENDPOINT").kill_on_drop(true);
    for node in &cluster.nodes {
        command.args(["-e", &node.url]);
    }
    command.output().await.expect("the program runs")
}

/// The names in the output of `fairhold cluster alarms -o json`, with the node of each, and the exit code.
async fn listed(cluster: &Cluster) -> (Option<i32>, Vec<(usize, String)>, Value) {
    let output = run(cluster, &["cluster", "alarms", "-o", "json"]).await;
    let told: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let name = |alarm: &Value| {
        let node = alarm["node"].as_u64().and_then(|node| usize::try_from(node).ok()).expect("a node");
        (node, alarm["alarm"].as_str().expect("a name").to_owned())
    };
    let names = told["alarms"].as_array().expect("a list").iter().map(name);
    (output.status.code(), names.collect(), told["silent"].clone())
}

#[test]
fn the_loss_of_nodes_raises_alarms_that_go_by_themselves() {
    run_exclusive(2 * SHORT, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [one, two] = cluster.followers().await;
        for index in [leader, one, two] {
            until_raised(&cluster, index, &[]).await;
        }
        assert_eq!(metric(&cluster, leader, "majority_at_risk").await, "0");

        cluster.nodes[one].kill().await;
        until_raised(&cluster, leader, &["majority_at_risk"]).await;
        assert_eq!(metric(&cluster, leader, "majority_at_risk").await, "1");
        assert_eq!(raised(&cluster, two).await.iter().filter(|name| !is_of_machine(name)).count(), 0, "only the leader knows");
        let (id, dead) = (cluster.nodes[leader].id, cluster.nodes[one].id);
        let (code, names, silent) = listed(&cluster).await;
        assert_eq!(code, Some(1));
        assert!(names.contains(&(id, "majority_at_risk".to_owned())), "{names:?}");
        assert_eq!(silent, serde_json::json!([dead]));
        let doctor = run(&cluster, &["doctor", "--timeout", "3s"]).await;
        let text = String::from_utf8(doctor.stdout).expect("text");
        let finding = format!("fail  alarm       node {id} raises the alarm majority_at_risk since ");
        assert!(
            text.contains(&finding) && text.contains(&format!("node {dead} does not answer, and 2 of 3 voters do")),
            "{text}"
        );

        // The follower that is left still names its last leader.
        cluster.nodes[leader].kill().await;
        until_raised(&cluster, two, &["no_quorum"]).await;
        assert_eq!(metric(&cluster, two, "no_quorum").await, "1");

        cluster.expect_elections(2, "the cluster had no majority");
        cluster.restart(one).await;
        let next = cluster.leader().await;
        until_raised(&cluster, next, &["majority_at_risk"]).await;
        cluster.restart(leader).await;
        for index in [leader, one, two] {
            until_raised(&cluster, index, &[]).await;
        }
        assert_eq!(metric(&cluster, two, "no_quorum").await, "0");
        let (code, names, silent) = listed(&cluster).await;
        let is_quiet = names.iter().all(|(_, name)| is_of_machine(name));
        assert!(is_quiet && silent == serde_json::json!([]), "{names:?} {silent}");
        assert_eq!(code, Some(i32::from(!names.is_empty())));
    });
}

/// One node leaves out every sixteenth entry of the log, as a defect or a bad disk may do it.
#[test]
fn a_node_with_another_state_is_named_and_not_ready_until_it_is_replaced() {
    run_exclusive(LONG, async {
        let mut cluster = Cluster::start().await;
        let leader = cluster.leader().await;
        let [odd, good] = cluster.followers().await;
        assert!(cluster.nodes[odd].terminate().await.success());
        cluster.nodes[odd].environment = vec![("FAIRHOLD_PLANTED".to_owned(), "LosesAnEntry".into())];
        cluster.restart(odd).await;
        let client = cluster.client(leader);
        for number in 0..LOST_ENTRY_EVERY * 2 {
            client.write(&Call::put("/v1/nodes/counted", number.to_string())).await;
        }
        let readiness = async |cluster: &Cluster, index: usize| {
            cluster.client(index).send_to(index, &Call::get("/readyz")).await.expect("the node runs")
        };
        assert_eq!(readiness(&cluster, odd).await.status, 200, "nobody has compared the states yet");

        for index in [leader, good, odd] {
            until_raised_within(COMPARED_WITHIN, &cluster, index, &["divergence"]).await;
        }
        let [id, first, second] = [odd, leader, good].map(|index| cluster.nodes[index].id);
        let output = run(&cluster, &["cluster", "alarms"]).await;
        let text = String::from_utf8(output.stdout).expect("text");
        let same = format!("nodes {}, {}", first.min(second), first.max(second));
        let advice = format!("The state of {same} has a majority, so keep it: fairhold cluster replace {id}");
        assert!(text.contains("nodes have different states at revision") && text.contains(&advice), "{text}");
        let refused = readiness(&cluster, odd).await;
        assert_eq!(refused.status, 503);
        assert!(refused.text.contains("is not that of a majority"), "{}", refused.text);
        assert_eq!(readiness(&cluster, good).await.status, 200);

        cluster.nodes[odd].kill().await;
        let new = cluster.replace(odd).await;
        for index in [leader, good, new] {
            until_raised(&cluster, index, &[]).await;
            assert_eq!(readiness(&cluster, index).await.status, 200);
        }
    });
}

#[test]
fn the_command_that_lists_alarms_says_if_no_node_answers() {
    run_parallel(SHORT, async {
        let url = format!("http://127.0.0.1:{}", free_port());
        let mut command = program();
        command.args(["cluster", "alarms", "--timeout", "1s", "-e", &url]).kill_on_drop(true);
        let output = command.output().await.expect("the program runs");
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(69), &b""[..]), "{output:?}");
    });
}

#[test]
fn the_rules_for_prometheus_fire_when_they_should() {
    let run = |arguments: [&str; 3]| std::process::Command::new("promtool").args(arguments).output();
    let rules = "../../deploy/prometheus/alerts.yml";
    let checked = match run(["check", "rules", rules]) {
        Ok(checked) => checked,
        Err(_) if trial::size(true, false) => return,
        Err(error) => {
            let Some(checked) = PROMTOOL.or_without(Err(error.to_string())) else { return };
            checked
        }
    };
    assert!(checked.status.success(), "{checked:?}");
    let tested = run(["test", "rules", "../../deploy/prometheus/alerts_test.yml"]).expect("promtool runs");
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stdout));
}

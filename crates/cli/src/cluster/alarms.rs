//! `fairhold cluster alarms`: what the nodes raise alarms about. Each node knows only a part, so all of them are asked.

use super::older_program;
use crate::{
    output, probe,
    remote::{
        Api, ApiRequest, Failure, RemoteArgs,
        format::{self, OutputFormat, Table},
    },
};
use fairhold_health::cluster_probe::ClusterProbe;
use fairhold_types::{
    NodeId,
    dto::{Alarm, AlarmSeverity, Alarms},
};
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::json;
use std::time::Duration;

const PATH: &str = "/v1/cluster/alarms";
/// How long the probe of the nodes may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The alarms of a cluster.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct ClusterAlarms {
    /// What the nodes raise.
    alarms: Vec<RaisedAt>,
    /// The members that did not tell.
    silent: Vec<NodeId>,
}

/// An alarm of one node.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct RaisedAt {
    node: NodeId,
    #[serde(flatten)]
    alarm: Alarm,
}

/// Prints the alarms of all nodes. Any alarm is a failure, so that a script can wait until there is none.
pub(super) async fn show(api: &Api, args: &RemoteArgs) -> Result<(), Failure> {
    let client = crate::local_http::probe_client(&args.connect, PROBE_TIMEOUT.min(api.timeout()))?;
    let mut seen = probe::brief(&client, &args.connect.endpoint).await;
    if seen.nodes().is_empty() {
        // Waits until a node answers, or fails with the reason.
        api.call(&ApiRequest::get("/v1/cluster")).await?;
        seen = probe::brief(&client, &args.connect.endpoint).await;
    }
    let ask = |url: String| {
        let api = api.at(vec![url]);
        async move { api.call(&ApiRequest::get(PATH)).await?.read::<Alarms>() }
    };
    let urls = seen.nodes().into_values().map(|(endpoint, _)| endpoint.url.clone());
    let (mut told, mut refused) = (Vec::new(), None);
    for answer in join_all(urls.map(ask)).await {
        match answer {
            Ok(alarms) => told.push(alarms),
            // An older program may run there. It is listed as silent.
            Err(failure @ Failure::Refused { .. }) => refused = Some(failure),
            // It has just stopped, and is listed as silent.
            Err(Failure::Unavailable(_)) => {}
            Err(failure @ (Failure::Usage(_) | Failure::Local(_) | Failure::Ended(_))) => return Err(failure),
        }
    }
    if let Some(failure) = refused.filter(|_| told.is_empty()) {
        return Err(older_program::explain(failure, "alarms"));
    }
    let found = collected(&seen, told);
    print(&found, args)?;
    match found.alarms.len() {
        0 => Ok(()),
        1 => Err(Failure::Ended("1 alarm is raised".to_owned())),
        count => Err(Failure::Ended(format!("{count} alarms are raised"))),
    }
}

/// The alarms, the critical ones first, and the members that did not tell.
fn collected(seen: &ClusterProbe, told: Vec<Alarms>) -> ClusterAlarms {
    let silent = seen.members().into_keys().filter(|id| told.iter().all(|alarms| alarms.id != *id)).collect();
    let of_node = |Alarms { id, alarms, .. }: Alarms| alarms.into_iter().map(move |alarm| RaisedAt { node: id, alarm });
    let mut alarms: Vec<RaisedAt> = told.into_iter().flat_map(of_node).collect();
    alarms.sort_by_key(|raised| (raised.alarm.severity != AlarmSeverity::Critical, raised.node));
    ClusterAlarms { alarms, silent }
}

fn print(found: &ClusterAlarms, args: &RemoteArgs) -> Result<(), Failure> {
    match args.output {
        Some(OutputFormat::Json) => return format::write_line(&json!(found)),
        Some(OutputFormat::Ndjson) => return found.alarms.iter().try_for_each(|raised| format::write_line(&json!(raised))),
        Some(OutputFormat::Table | OutputFormat::Plain) | None => {}
    }
    format::write(&table(found, OutputFormat::resolve(args.output)))?;
    if !found.silent.is_empty() && !args.connect.quiet {
        output::note(&may_raise_more(&found.silent));
    }
    Ok(())
}

fn may_raise_more(silent: &[NodeId]) -> String {
    let ids: Vec<String> = silent.iter().map(ToString::to_string).collect();
    let (nodes, does) = if ids.len() == 1 { ("node", "does") } else { ("nodes", "do") };
    format!("{nodes} {} {does} not answer, and may raise more", ids.join(", "))
}

fn table(found: &ClusterAlarms, format: OutputFormat) -> String {
    let mut table = Table::new(&["NODE", "SEVERITY", "ALARM", "SINCE", "SEEN", "DO"]);
    for RaisedAt { node, alarm } in &found.alarms {
        let severity = match alarm.severity {
            AlarmSeverity::Warning => "warning",
            AlarmSeverity::Critical => "critical",
        };
        table.row(vec![
            node.to_string(),
            severity.to_owned(),
            alarm.alarm.clone(),
            alarm.since.clone(),
            alarm.seen.clone(),
            alarm.advice.clone(),
        ]);
    }
    table.take(format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local_http::http_client;
    use crate::probe::nodes_for_tests::{TestNode, view};

    fn alarm(name: &str, severity: AlarmSeverity) -> Alarm {
        let (since, seen, advice) = ("2027-01-01T00:00:00.000Z".to_owned(), "seen".to_owned(), "advice".to_owned());
        Alarm { alarm: name.to_owned(), severity, since, seen, advice }
    }

    #[test]
    fn one_silent_node_or_several_are_named() {
        assert_eq!(may_raise_more(&[2]), "node 2 does not answer, and may raise more");
        assert_eq!(may_raise_more(&[2, 3]), "nodes 2, 3 do not answer, and may raise more");
    }

    #[tokio::test]
    async fn the_alarms_of_all_nodes_are_listed_with_the_members_that_are_silent() {
        let (one, two) = (TestNode::start().await, TestNode::start().await);
        one.answers(Some(view(1, 1, 3, &[(1, &one), (2, &two)])));
        let seen = probe::brief(&http_client(PROBE_TIMEOUT), std::slice::from_ref(&one.url)).await;
        let alarms = vec![alarm("no_quorum", AlarmSeverity::Critical), alarm("disk", AlarmSeverity::Warning)];
        let found = collected(&seen, vec![Alarms { id: 1, alarms }]);
        assert_eq!(found.silent, [2]);
        let text = table(&found, OutputFormat::Plain);
        let first = "1\tcritical\tno_quorum\t2027-01-01T00:00:00.000Z\tseen\tadvice\n";
        assert_eq!(text, format!("{first}{}", first.replace("critical", "warning").replace("no_quorum", "disk")));
        let one_of_two = json!({
            "node": 1, "alarm": "no_quorum", "severity": "critical", "since": "2027-01-01T00:00:00.000Z", "seen": "seen",
            "do": "advice",
        });
        assert_eq!(json!(found)["alarms"][0], one_of_two);
    }

    #[test]
    fn critical_alarms_of_any_node_come_first() {
        let of = |id, severity| Alarms { id, alarms: vec![alarm("disk", severity)] };
        let told = vec![of(1, AlarmSeverity::Warning), of(3, AlarmSeverity::Critical), of(2, AlarmSeverity::Critical)];
        let nodes: Vec<NodeId> = collected(&ClusterProbe::default(), told).alarms.iter().map(|raised| raised.node).collect();
        assert_eq!(nodes, [2, 3, 1]);
    }
}

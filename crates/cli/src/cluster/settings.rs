//! `fairhold cluster settings`, `set` and `timing`: the settings of the cluster, and whether its timing profile suits the
//! round trips between its nodes.

use super::older_program;
use crate::{
    output, probe,
    remote::{
        Api, ApiRequest, Failure, ReadArgs, RemoteArgs,
        format::{self, OutputFormat, Table, cell, rounded},
        reply::ApiReply,
    },
};
use fairhold_client::Method;
use fairhold_types::{Timing, dto::ClusterTiming, duration, membership::ParseTimingError};
use serde_json::{Value, json};
use std::time::Duration;

const PATH: &str = "/v1/cluster/settings";
/// How long the probe of the nodes may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// A setting with its new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    /// The timing profile.
    Timing(Timing),
}

/// Parses `KEY=VALUE`.
pub(super) fn parse(text: &str) -> Result<Setting, String> {
    match text.split_once('=') {
        Some(("timing", value)) => value.parse().map(Setting::Timing).map_err(|error: ParseTimingError| error.to_string()),
        Some((key, _)) => Err(format!("there is no setting `{key}`: write timing=PROFILE")),
        None => Err("write KEY=VALUE, such as timing=wan".to_owned()),
    }
}

/// Prints the settings.
pub(super) async fn show(api: &Api, read: &ReadArgs, args: &RemoteArgs) -> Result<(), Failure> {
    let reply = api.call(&read.apply(ApiRequest::get(PATH))).await.map_err(explain)?;
    print(&reply, args)
}

/// Changes a setting, and says what is left to do.
pub(super) async fn set(api: &Api, setting: Setting, force: bool, args: &RemoteArgs) -> Result<(), Failure> {
    let Setting::Timing(timing) = setting;
    let request = ApiRequest::change(Method::PATCH, PATH).json(&json!({ "timing": timing, "force": force }));
    let reply = api.call(&request).await.map_err(explain)?;
    print(&reply, args)?;
    if !args.connect.quiet {
        let next = format!("each node uses the timing profile {timing} from its next start on");
        output::note(&format!("restart the nodes, one after the other: {next}"));
    }
    Ok(())
}

/// Prints the timing profile, the one that fits, and the round trips.
pub(super) async fn timing(api: &Api, args: &RemoteArgs) -> Result<(), Failure> {
    // Only the leader knows the round trips.
    let client = crate::local_http::probe_client(&args.connect, PROBE_TIMEOUT.min(api.timeout()))?;
    let seen = probe::brief(&client, &args.connect.endpoint).await;
    let best = seen.best_urls();
    let api = if best.is_empty() { api.clone() } else { api.at(best) };
    let reply = api.call(&ApiRequest::get("/v1/cluster/timing")).await.map_err(explain)?;
    if OutputFormat::is_body(args.output) {
        return format::write_body(&reply);
    }
    format::write(&timing_text(&reply.read()?, OutputFormat::resolve(args.output)))
}

fn explain(failure: Failure) -> Failure {
    older_program::explain(failure, "settings of the cluster")
}

fn print(reply: &ApiReply, args: &RemoteArgs) -> Result<(), Failure> {
    if OutputFormat::is_body(args.output) {
        return format::write_body(reply);
    }
    let settings: Value = reply.read()?;
    let mut table = Table::new(&["SETTING", "VALUE"]);
    for name in settings.as_object().into_iter().flatten().map(|(name, _)| name) {
        table.row(vec![name.clone(), cell(&settings, name)]);
    }
    format::write(&table.take(OutputFormat::resolve(args.output)))
}

fn timing_text(known: &ClusterTiming, format: OutputFormat) -> String {
    let mut table = Table::new(&["ID", "VOTES", "ROUND TRIP", "MEDIAN", "99 %"]);
    for member in &known.members {
        let cell = |time: &Option<String>| time.as_deref().map_or_else(|| "-".to_owned(), rounded);
        let votes = if member.voter { "yes" } else { "no" };
        table.row(vec![
            member.id.to_string(),
            votes.to_owned(),
            cell(&member.round_trip),
            cell(&member.round_trip_p50),
            cell(&member.round_trip_p99),
        ]);
    }
    format!("{}\n{}", verdict(known), table.take(format))
}

/// Whether the profile suits the round trips, and what to do if it does not.
fn verdict(known: &ClusterTiming) -> String {
    let timing = known.timing;
    let max = duration::format(timing.round_trip_max());
    let profile = format!("timing profile {timing}, for round trips up to {max}");
    if !known.from_leader {
        return format!("{profile}; no leader answers, and only the leader knows the round trips: run this again in a second");
    }
    let is_measured = known.members.iter().any(|member| member.voter && member.round_trip_p99.is_some());
    match known.fits {
        Some(fits) if fits == timing => format!("{profile}: it fits"),
        Some(fits) if fits < timing => {
            format!("{profile}: it fits; the profile {fits} does too, and replaces a dead leader faster")
        }
        Some(fits) => format!("{profile}: it does not fit. To change it, run fairhold cluster set timing={fits}"),
        None if is_measured => format!("{profile}: no profile fits. Move the voters closer together, or repair the network"),
        None => format!("{profile}; the round trips are not known yet: run this again in a minute"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn known(timing: &str, fits: &Value, p99: &Value) -> ClusterTiming {
        let body = json!({
            "timing": timing, "fits": fits, "from_leader": true,
            "members": [{ "id": 1, "voter": true }, { "id": 2, "voter": true, "round_trip": "9ms", "round_trip_p99": p99 }],
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn a_setting_is_a_key_and_a_value() {
        assert_eq!(parse("timing=wan"), Ok(Setting::Timing(Timing::Wan)));
        let wrong = [("timing=slow", "use lan, metro, wan or global"), ("ttl=3s", "no setting `ttl`"), ("wan", "KEY=VALUE")];
        for (text, why) in wrong {
            assert!(parse(text).unwrap_err().contains(why), "{text}");
        }
    }

    #[test]
    fn the_verdict_on_the_timing_profile_says_what_to_do() {
        let says = |timing, fits, p99| verdict(&known(timing, &fits, &p99));
        assert_eq!(says("lan", json!("lan"), json!("9ms")), "timing profile lan, for round trips up to 10ms: it fits");
        assert!(says("wan", json!("lan"), json!("9ms")).contains("the profile lan does too"));
        assert!(says("lan", json!("wan"), json!("99ms")).ends_with("fairhold cluster set timing=wan"));
        assert!(says("global", Value::Null, json!("999ms")).contains("no profile fits"));
        assert!(says("lan", Value::Null, Value::Null).contains("not known yet"));
        let without_leader = ClusterTiming { from_leader: false, ..known("lan", &json!("lan"), &json!("9ms")) };
        assert!(verdict(&without_leader).contains("no leader answers"));
        let text = timing_text(&known("lan", &json!("lan"), &json!("9ms")), OutputFormat::Plain);
        assert!(text.ends_with("1\tyes\t-\t-\t-\n2\tyes\t9ms\t-\t9ms\n"), "{text}");
    }

    #[test]
    fn the_guide_has_the_figures_of_every_profile() {
        let page = fs::read_to_string("../../docs/guides/regions.md").unwrap();
        for timing in Timing::ALL {
            let (shorter, longer) = timing.election_timeouts();
            let elections = if shorter.as_secs() == 0 {
                format!("{} to {} ms", shorter.as_millis(), longer.as_millis())
            } else {
                format!("{} to {} s", shorter.as_secs_f64(), longer.as_secs_f64())
            };
            let row = format!(
                "| `{timing}` | {} ms | {} ms | {elections} | {} s |",
                timing.round_trip_max().as_millis(),
                timing.heartbeat().as_millis(),
                timing.ttl_min().as_secs()
            );
            assert!(page.contains(&row), "docs/guides/regions.md lacks the row {row}");
        }
    }
}

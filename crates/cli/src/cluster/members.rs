//! `fairhold cluster members`, and the commands that change a member.

use super::older_program;
use crate::{
    output, probe,
    remote::{
        Api, ApiRequest, Failure, RemoteArgs,
        format::{self, OutputFormat, Table, rounded},
    },
};
use clap::{ArgGroup, value_parser};
use fairhold_client::Method;
use fairhold_health::{answer::NOT_ADMITTED, cluster_probe::ProbedMember};
use fairhold_types::{
    NodeId,
    dto::{Join, JoinPhase, MemberEntry, RemovedMember},
    limits::MEMBER_PRIORITY_MAX,
};
use serde_json::{Value, json};
use std::time::Duration;

/// The members and the changes that are under way.
pub(super) type MembersView = fairhold_types::dto::Members;

const PATH: &str = "/v1/cluster/members";
/// How long one probe of the nodes may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("change").args(["url", "peer", "priority", "zone"]).required(true).multiple(true)))]
pub(super) struct SetMemberArgs {
    /// Number of the member
    id: NodeId,
    /// Set its address for clients
    #[arg(long, value_name = "http://HOST:PORT")]
    url: Option<String>,
    /// Set its address for the other nodes, where it must answer already
    #[arg(long, value_name = "HOST:PORT")]
    peer: Option<String>,
    /// Set the address although no node answers there yet
    #[arg(long)]
    force: bool,
    /// Prefer it as the leader over voters with a lower priority, from 0 to 100 [default of a member: 50]
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(0..=i64::from(MEMBER_PRIORITY_MAX)))]
    priority: Option<u8>,
    /// Set the place where it runs, for people and for `doctor`; an empty text removes it
    #[arg(long, value_name = "TEXT")]
    zone: Option<String>,
}

/// The members as the leader knows them.
pub(super) async fn view(api: &Api) -> Result<MembersView, Failure> {
    api.call(&ApiRequest::get(PATH)).await.map_err(|failure| older_program::explain(failure, "join tokens"))?.read()
}

/// Asks every member: what one node reports about another may be stale. The joins and removals are the leader's.
pub(super) async fn list(api: &Api, with_removed: bool, args: &RemoteArgs) -> Result<(), Failure> {
    let requested = args.output;
    let client = crate::local_http::probe_client(&args.connect, PROBE_TIMEOUT.min(api.timeout()))?;
    let ask = async || probe::brief(&client, &args.connect.endpoint).await;
    let mut seen = ask().await;
    if seen.nodes().is_empty() {
        // Waits until a node answers, or fails with the reason.
        api.call(&ApiRequest::get("/v1/cluster")).await?;
        seen = ask().await;
    }
    let best = seen.best_urls();
    let api = if best.is_empty() { api.clone() } else { api.at(best) };
    let reply = match api.call(&ApiRequest::get(PATH)).await {
        Ok(reply) => Some(reply),
        // An older program has no such call, and no joins and removals.
        Err(Failure::Refused { status: 404, .. }) => None,
        Err(failure) => return Err(failure),
    };
    if OutputFormat::is_body(requested) {
        let reply = match reply {
            Some(reply) => reply,
            None => api.call(&ApiRequest::get("/v1/cluster")).await?,
        };
        if requested == Some(OutputFormat::Json) {
            return format::write_body(&reply);
        }
        let cluster: Value = reply.read()?;
        return cluster["members"].as_array().into_iter().flatten().try_for_each(format::write_line);
    }
    let format = OutputFormat::resolve(requested);
    format::write(&member_table(seen.member_rows(), format))?;
    let known: Option<MembersView> = reply.map(|reply| reply.read()).transpose()?;
    if let Some(known) = &known {
        format::write(&changes(known, with_removed, format))?;
    }
    if seen.leader().is_none() && !args.connect.quiet {
        output::note("no leader answers: only the leader knows the LAG and SILENT FOR of the others");
    }
    Ok(())
}

fn member_table(rows: Vec<ProbedMember>, format: OutputFormat) -> String {
    let mut table = Table::new(&["ID", "ROLE", "URL", "PEER", "LAG", "SILENT FOR", "ANSWERS", "PRIORITY", "ZONE"]);
    for ProbedMember { id, url, peer, role, lag, silent_for, priority, zone } in rows {
        let (role, answers) = role.map_or_else(|why| (dash(), format!("no: {}", short(&why))), |role| (role, "yes".to_owned()));
        let silent_for = silent_for.map_or_else(dash, |time| rounded(&time));
        table.row(vec![
            id.to_string(),
            role,
            url,
            peer,
            lag.map_or_else(dash, |lag| lag.to_string()),
            silent_for,
            answers,
            priority.map_or_else(dash, |priority| priority.to_string()),
            zone.unwrap_or_else(dash),
        ]);
    }
    table.take(format)
}

/// Why a node does not answer as a member, without a list of reasons that is wider than the table.
fn short(why: &str) -> &str {
    if why.contains(NOT_ADMITTED) { "it waits to be admitted; its log says why" } else { why }
}

fn dash() -> String {
    "-".to_owned()
}

/// The joins, the removals that wait, and the removed nodes: a table each, if there are any.
fn changes(known: &MembersView, with_removed: bool, format: OutputFormat) -> String {
    let mut text = joins(&known.joins, format) + &removals(&known.members, format);
    if with_removed {
        text += &removed(&known.removed, format);
    }
    text
}

fn joins(joins: &[Join], format: OutputFormat) -> String {
    if joins.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["JOINS", "AS", "REPLACES", "URL", "PEER", "STEP", "LAG", "SINCE", "STATUS"]);
    for join in joins {
        let step = match join.phase {
            JoinPhase::Pending => "admitted",
            JoinPhase::CatchingUp => "catching up",
            JoinPhase::Promoting => "becoming a voter",
        };
        table.row(vec![
            join.id.to_string(),
            join.role.to_string(),
            join.replaces.map_or_else(dash, |id| id.to_string()),
            join.url.clone(),
            join.peer.clone(),
            step.to_owned(),
            join.lag.map_or_else(dash, |lag| lag.to_string()),
            join.requested_at.clone(),
            join.waits_for.clone().unwrap_or_else(|| "in progress".to_owned()),
        ]);
    }
    format!("\n{}", table.take(format))
}

fn removals(members: &[MemberEntry], format: OutputFormat) -> String {
    let mut table = Table::new(&["TO BE REMOVED", "STATUS"]);
    let mut count = 0;
    for (id, removal) in members.iter().filter_map(|member| Some((member.id, member.removal.as_ref()?))) {
        count += 1;
        table.row(vec![id.to_string(), removal.clone()]);
    }
    if count == 0 { String::new() } else { format!("\n{}", table.take(format)) }
}

fn removed(removed: &[RemovedMember], format: OutputFormat) -> String {
    if removed.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["REMOVED", "AT", "BY", "REVISION"]);
    for one in removed {
        let by = if one.by.is_empty() { dash() } else { one.by.clone() };
        table.row(vec![one.id.to_string(), one.at.clone(), by, one.revision.to_string()]);
    }
    format!("\n{}", table.take(format))
}

/// Removes a member, or gives up a join.
pub(super) async fn remove(api: &Api, id: NodeId, args: &RemoteArgs) -> Result<(), Failure> {
    api.call(&ApiRequest::unkeyed(Method::DELETE, format!("{PATH}/{id}"))).await?;
    note(args, &format!("node {id} is removed: if it runs, it stops by itself, and its data directory is of no more use"));
    warn_of_too_few(api, args).await;
    Ok(())
}

/// Warns if the voters that are left survive no failure. The change is done, whether or not they can be counted.
async fn warn_of_too_few(api: &Api, args: &RemoteArgs) {
    if !args.connect.quiet
        && let Ok(left) = view(api).await
        && let Some(warning) = too_few(&left)
    {
        note(args, warning);
    }
}

/// What to say if the members that are left survive no failure.
fn too_few(left: &MembersView) -> Option<&'static str> {
    let voters = left.members.iter().filter(|member| member.role != "learner").count();
    match voters {
        1 if left.from_leader => Some("1 voter remains: it survives no failure. To add two: fairhold cluster invite"),
        2 if left.from_leader => Some("2 voters remain: they survive no failure. To add one: fairhold cluster invite"),
        _ => None,
    }
}

/// Makes a learner a voter, or a voter a learner.
pub(super) async fn set_voter(api: &Api, id: NodeId, voter: bool, args: &RemoteArgs) -> Result<(), Failure> {
    let text = if voter { format!("node {id} is a voter") } else { format!("node {id} is a learner") };
    change(api, id, &json!({ "voter": voter }), &text, args).await?;
    if !voter {
        warn_of_too_few(api, args).await;
    }
    Ok(())
}

/// Changes the addresses, the priority or the zone of a member.
pub(super) async fn set(api: &Api, member: &SetMemberArgs, args: &RemoteArgs) -> Result<(), Failure> {
    let SetMemberArgs { id, url, peer, force, priority, zone } = member;
    let body = json!({ "url": url, "peer": peer, "force": force, "priority": priority, "zone": zone });
    change(api, *id, &body, &format!("node {id} is changed"), args).await
}

async fn change(api: &Api, id: NodeId, body: &Value, done: &str, args: &RemoteArgs) -> Result<(), Failure> {
    let reply = api.call(&ApiRequest::change(Method::PATCH, format!("{PATH}/{id}")).json(body)).await?;
    if OutputFormat::is_body(args.output) {
        format::write_body(&reply)?;
    }
    note(args, done);
    Ok(())
}

fn note(args: &RemoteArgs, text: &str) {
    if !args.connect.quiet {
        output::note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> MembersView {
        let body = json!({
            "members": [
                { "id": 1, "url": "http://a:7171", "peer": "a:7271", "role": "leader", "priority": 50 },
                {
                    "id": 3, "url": "http://c:7171", "peer": "c:7271", "role": "follower", "priority": 50,
                    "removal": "waits: node 2",
                },
            ],
            "joins": [{
                "id": 4, "url": "http://d:7171", "peer": "d:7271", "role": "voter", "replaces": 2, "phase": "catching_up",
                "lag": 7, "requested_at": "then",
            }],
            "removed": [{ "id": 2, "revision": 9, "by": "", "at": "then" }],
            "joint": false, "from_leader": true,
        });
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn changes_have_tables_of_their_own() {
        let joins = "\n4\tvoter\t2\thttp://d:7171\td:7271\tcatching up\t7\tthen\tin progress\n";
        let removals = "\n3\twaits: node 2\n";
        assert_eq!(changes(&known(), false, OutputFormat::Plain), format!("{joins}{removals}"));
        assert_eq!(changes(&known(), true, OutputFormat::Plain), format!("{joins}{removals}\n2\tthen\t-\t9\n"));
        assert!(changes(&known(), true, OutputFormat::Table).contains("\nTO BE REMOVED  STATUS\n"));
        let settled = MembersView { members: Vec::new(), joins: Vec::new(), ..known() };
        assert_eq!(changes(&settled, false, OutputFormat::Table), "");
    }

    #[test]
    fn one_or_two_voters_that_are_left_are_too_few() {
        let two = known();
        let one = MembersView { members: two.members[..1].to_vec(), ..known() };
        assert!(too_few(&one).is_some_and(|text| text.starts_with("1 voter remains")));
        assert!(too_few(&two).is_some_and(|text| text.contains("fairhold cluster invite")));
        let members = [two.members.clone(), two.members.clone()].concat();
        assert_eq!(too_few(&MembersView { members, ..known() }), None);
        assert_eq!(too_few(&MembersView { from_leader: false, ..two }), None, "only the leader knows");
    }

    #[test]
    fn a_member_shows_its_priority_and_zone_after_what_it_has_always_shown() {
        let row = ProbedMember {
            id: 3,
            url: "http://c:7171".to_owned(),
            peer: "c:7271".to_owned(),
            role: Ok("learner".to_owned()),
            lag: Some(7),
            silent_for: Some("84769ms".to_owned()),
            priority: Some(80),
            zone: None,
        };
        let text = member_table(vec![row.clone()], OutputFormat::Plain);
        assert_eq!(text, "3\tlearner\thttp://c:7171\tc:7271\t7\t1m24s\tyes\t80\t-\n");
        let waiting = ProbedMember { role: Err(format!("{NOT_ADMITTED} (a:7271: no leader); the log of this node …")), ..row };
        let text = member_table(vec![waiting], OutputFormat::Plain);
        assert!(text.contains("\tno: it waits to be admitted; its log says why\t"), "{text}");
    }
}

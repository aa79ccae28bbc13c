//! The commands of scripts about members. The secret of a join token is a number.
//!
//! ```text
//! create-token [role=learner] [replaces=2] [standing] [up_to=5] [ttl=1h] [secret=1] [key=k]      revoke-token 1
//! admit TOKEN directory=7 [secret=1] [replaces=2] [through=3]        settle 4
//! request-removal 4 [by=admin] [through=3] [others=1,2,3]            record-removal 4 [directory=7] [through=3]
//! set-member 2 [priority=] [zone=] [address] [key=k]                 set-timing wan [key=k]
//! ```

use crate::language::{Fallible, key, number, word};
use fairhold_state::{
    State,
    command::{AdmitNode, ClusterEvent, Command, CreateJoinToken, RequestRemoval, SetMember},
    membership::{JoinToken, Placement},
};
use fairhold_types::{Incarnation, JoinTokenNumber, MemberRole, NodeId, duration, time::WallMillis};
use goldenscript::ArgumentConsumer;

pub(crate) const NAMES: [&str; 8] =
    ["create-token", "revoke-token", "admit", "settle", "request-removal", "record-removal", "set-member", "set-timing"];

/// A voter that no script removes.
const STAYS: NodeId = 100;

/// The hash of the secret with a number.
fn secret_hash(args: &mut ArgumentConsumer<'_>) -> Fallible<[u8; 32]> {
    Ok([args.take_key("secret").map_or(Ok(1), str::parse)?; 32])
}

fn node(args: &mut ArgumentConsumer<'_>, key: &str) -> Fallible<Option<NodeId>> {
    Ok(args.take_key(key).map(str::parse).transpose()?)
}

fn through(args: &mut ArgumentConsumer<'_>) -> Fallible<NodeId> {
    Ok(node(args, "through")?.unwrap_or(3))
}

pub(crate) fn read(name: &str, args: &mut ArgumentConsumer<'_>, at: WallMillis) -> Fallible<Command> {
    let by = || "admin".to_owned();
    Ok(match name {
        "create-token" => create(args, at)?,
        "revoke-token" => Command::RevokeJoinToken { number: JoinTokenNumber(word(args)?.parse()?), at },
        "admit" => {
            let token = JoinTokenNumber(word(args)?.parse()?);
            let directory = number(args, "directory")?;
            Command::AdmitNode(AdmitNode {
                token,
                secret_hash: secret_hash(args)?,
                incarnation: Incarnation(u128::from(directory)),
                url: format!("http://m{directory}:7171"),
                address: format!("m{directory}:7271"),
                replaces: node(args, "replaces")?,
                ids_through: through(args)?,
                at,
            })
        }
        "settle" => Command::SettleJoin { node: word(args)?.parse()?, at },
        "request-removal" => {
            let node = word(args)?.parse()?;
            let by = args.take_key("by").map_or_else(by, str::to_owned);
            let other_voters = match args.take_key("others") {
                Some(others) => others.split(',').map(str::parse::<NodeId>).collect::<Result<Vec<_>, _>>()?,
                None => vec![STAYS],
            };
            Command::RequestRemoval(RequestRemoval { node, ids_through: through(args)?, by, at, other_voters })
        }
        "record-removal" => {
            let incarnation = args.take_key("directory").map(str::parse).transpose()?.map(Incarnation);
            Command::RecordRemoval { node: word(args)?.parse()?, incarnation, ids_through: through(args)?, at }
        }
        "set-member" => {
            let node = word(args)?.parse()?;
            let priority = args.take_key("priority").map(str::parse).transpose()?;
            let zone = args.take_key("zone").map(str::to_owned);
            let address_set = args.next_pos() == Some("address");
            Command::SetMember(SetMember { key: key(args)?, node, priority, zone, address_set, by: by(), at })
        }
        "set-timing" => Command::SetTiming { timing: word(args)?.parse()?, key: key(args)?, by: by(), at },
        _ => return Err(format!("no such command about members: {name}").into()),
    })
}

fn create(args: &mut ArgumentConsumer<'_>, at: WallMillis) -> Fallible<Command> {
    let standing = args.next_pos() == Some("standing");
    let ttl = u64::try_from(duration::parse(args.take_key("ttl").unwrap_or("1h"))?.as_millis())?;
    let role = match args.take_key("role") {
        None | Some("voter") => MemberRole::Voter,
        Some("learner") => MemberRole::Learner,
        Some(other) => return Err(format!("no such role: {other}").into()),
    };
    Ok(Command::CreateJoinToken(CreateJoinToken {
        key: key(args)?,
        secret_hash: secret_hash(args)?,
        role,
        replaces: node(args, "replaces")?,
        standing,
        up_to: args.take_key("up_to").map(str::parse).transpose()?,
        expires_at: (!standing).then_some(WallMillis(at.0 + ttl)),
        by: "admin".to_owned(),
        at,
    }))
}

pub(crate) fn in_place_of(replaces: Option<NodeId>) -> String {
    replaces.map(|node| format!(" in place of node {node}")).unwrap_or_default()
}

pub(crate) fn event(event: &ClusterEvent) -> String {
    match event {
        ClusterEvent::Joining { node, role, replaces } => format!("node {node} joining as a {role}{}", in_place_of(*replaces)),
        ClusterEvent::Joined { node, role } => format!("node {node} joined as a {role}"),
        ClusterEvent::Removing { node, by } => format!("node {node} to be removed by {by}"),
        ClusterEvent::Removed { node, by } => format!("node {node} removed by {by:?}"),
        ClusterEvent::MemberSet { node, by } => format!("node {node} set by {by}"),
        ClusterEvent::TimingSet { timing, by } => format!("timing {timing} set by {by}"),
        ClusterEvent::Finalized { version } => format!("cluster version {version}"),
    }
}

fn token(number: JoinTokenNumber, token: &JoinToken) -> String {
    let standing = if token.standing { " standing" } else { "" };
    let up_to = token.up_to.map(|voters| format!(" up to {voters} voters")).unwrap_or_default();
    let ends = token.expires_at.map(|at| format!(" until {}s", at.0 / 1_000)).unwrap_or_default();
    let used = token.used_by.map(|(node, directory)| format!(", used by node {node} of {}", directory.0)).unwrap_or_default();
    format!("join token {number}: a{standing} {}{up_to}{}{ends}{used}", token.role, in_place_of(token.replaces))
}

/// Everything that is known about members, a line for each thing.
pub(crate) fn show(state: &State) -> String {
    let membership = state.membership();
    let mut lines = vec![format!("ids through {}, timing {}", membership.ids_through(), membership.timing())];
    lines.extend(membership.tokens().map(|(number, found)| token(number, found)));
    lines.extend(membership.joins().map(|(node, join)| {
        let (directory, replaces) = (join.incarnation.0, in_place_of(join.replaces));
        format!("node {node} of {directory} joins as a {}{replaces} at {} by token {}", join.role, join.address, join.token)
    }));
    lines.extend(membership.removals().map(|(node, removal)| format!("node {node} shall be removed by {}", removal.by)));
    lines.extend(membership.removed().map(|(node, removed)| {
        let directory = removed.incarnation.map(|directory| format!(" of {}", directory.0)).unwrap_or_default();
        let by = if removed.by.is_empty() { String::new() } else { format!(": {}", removed.by) };
        format!("node {node}{directory} was removed @{}{by}", removed.revision)
    }));
    for node in 0..=membership.ids_through().max(9) {
        let Placement { priority, zone } = membership.placement(node);
        let set = membership.has_set_address(node);
        if set || membership.placement(node) != Placement::default() {
            let zone = zone.map(|zone| format!(", zone {zone}")).unwrap_or_default();
            lines.push(format!("node {node}: priority {priority}{zone}{}", if set { ", address set" } else { "" }));
        }
    }
    lines.join("\n")
}

//! The commands of scripts about tenants.
//!
//! ```text
//! tenant NAME [prefixes=locks:a/**,nodes:a/**] [subjects=user:ci,k8s:*] [nodes=3] [bytes=9] [contenders=] [waiters=]
//!         [sessions=] [tokens=] [expected=7]         delete-tenant NAME [expected=7]         all with [as=ann] [key=k]
//! ```

use crate::{
    access::{change, expected},
    language::{Fallible, word},
};
use fairhold_access::{Quota, Tenant};
use fairhold_state::{
    State,
    command::{AccessChange, Command},
};
use fairhold_types::time::WallMillis;
use goldenscript::ArgumentConsumer;

pub(crate) const NAMES: [&str; 2] = ["tenant", "delete-tenant"];

fn split<T: std::str::FromStr>(list: Option<&str>) -> Result<Vec<T>, T::Err> {
    list.into_iter().flat_map(|list| list.split(',')).map(str::parse).collect()
}

fn limit(args: &mut ArgumentConsumer<'_>, key: &str) -> Fallible<Option<u64>> {
    Ok(args.take_key(key).map(str::parse).transpose()?)
}

pub(crate) fn read(command: &str, args: &mut ArgumentConsumer<'_>, at: WallMillis) -> Fallible<Command> {
    let (name, expected) = (word(args)?.parse()?, expected(args)?);
    if command == "delete-tenant" {
        return change(args, AccessChange::DeleteTenant { name, expected }, at);
    }
    let quota = Quota {
        nodes: limit(args, "nodes")?,
        bytes: limit(args, "bytes")?,
        contenders: limit(args, "contenders")?,
        waiters: limit(args, "waiters")?,
        sessions: limit(args, "sessions")?,
        tokens: limit(args, "tokens")?,
        ..Quota::default()
    };
    let tenant = Tenant { subjects: split(args.take_key("subjects"))?, prefixes: split(args.take_key("prefixes"))?, quota };
    change(args, AccessChange::PutTenant { name, tenant: Box::new(tenant), expected }, at)
}

/// All tenants with their use, a line for each.
pub(crate) fn show(state: &State) -> String {
    let access = state.access();
    let lines = access.tenants().map(|(name, record)| {
        let used = state.use_of_tenant(record.number);
        let (sessions, tokens) = (access.sessions_of_tenant(record.number), access.tokens_of_tenant(&record.tenant));
        let counting = if state.is_counting(record.number) { ", counting" } else { "" };
        let prefixes: Vec<String> = record.tenant.prefixes.iter().map(ToString::to_string).collect();
        format!(
            "{name} @{} {}: {} nodes, {} bytes, {} contenders, {sessions} sessions, {tokens} tokens{counting}",
            record.revision,
            prefixes.join(","),
            used.nodes,
            used.bytes,
            used.contenders,
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

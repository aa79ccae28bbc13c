//! Which commands are administrative acts, and the words for them.
//!
//! The words are in the chain of hashes: they change only together with the cluster's version.

use super::{
    attributed::{ActOrigin, Attributed},
    note::{NoteAct, NotedAct},
};
use crate::{
    command::{AccessChange, Command, CreateJoinToken, Outcome, SetLock, SetMember},
    write::WriteKey,
};
use fairhold_access::{Quota, Tenant, TenantName};
use fairhold_types::{NodeId, time::WallMillis};
use std::fmt::{Display, Write as _};

/// What an entry says about an act.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ActWords {
    /// What it acts on: `locks:orders/42`, `12`; empty if the verb says all.
    pub(crate) on: String,
    /// Further facts, such as `limit=3`; may be empty.
    pub(crate) detail: String,
    /// The reason that the administrator gave; may be empty.
    pub(crate) reason: String,
}

impl ActWords {
    fn on(on: impl Display) -> ActWords {
        ActWords { on: on.to_string(), ..ActWords::default() }
    }

    fn with(mut self, fact: impl Display) -> ActWords {
        let space = if self.detail.is_empty() { "" } else { " " };
        // Writing into a string cannot fail.
        write!(self.detail, "{space}{fact}").ok();
        self
    }

    fn flag(self, name: &str, is_set: bool) -> ActWords {
        if is_set { self.with(name) } else { self }
    }

    fn value(self, name: &str, value: Option<impl Display>) -> ActWords {
        match value {
            Some(value) => self.with(format_args!("{name}={value}")),
            None => self,
        }
    }

    fn because(self, reason: &str) -> ActWords {
        ActWords { reason: reason.to_owned(), ..self }
    }
}

impl Command {
    /// The command with its origin. A command within a guard gets it there.
    #[must_use]
    pub fn attributed(self, origin: ActOrigin) -> Command {
        if matches!(self, Command::Guarded(_)) {
            self.map_guarded(|command| command.attributed(origin))
        } else if let Command::Attributed(attributed) = self {
            attributed.into_parts().1.attributed(origin)
        } else {
            Command::Attributed(Attributed::new(origin, self))
        }
    }

    /// The command with another one within its origin. A command without an origin stays as it is.
    pub(crate) fn map_attributed(self, change: impl FnOnce(Command) -> Command) -> Command {
        if let Command::Attributed(attributed) = self {
            let (origin, command) = attributed.into_parts();
            change(command).attributed(origin)
        } else {
            self
        }
    }

    /// Whether it is an administrative act: with its origin, the audit has it.
    #[must_use]
    pub fn is_act(&self) -> bool {
        self.act().is_some()
    }

    /// The verb of an act, and the key of its request.
    pub(crate) fn act(&self) -> Option<(&'static str, Option<WriteKey>)> {
        match self {
            Command::Break(request) => Some(("break", Some(request.key))),
            Command::Revoke(request) => Some(("revoke", request.key)),
            Command::SetLock(request) => Some(("set", request.key)),
            Command::EndSession { .. } => Some(("end", None)),
            Command::CreateJoinToken(request) => Some(("join-tokens.create", request.key)),
            Command::RevokeJoinToken { .. } => Some(("join-tokens.revoke", None)),
            Command::RequestRemoval(_) => Some(("members.remove", None)),
            Command::SetMember(request) => Some(("members.set", request.key)),
            Command::SetTiming { key, .. } => Some(("cluster.set", *key)),
            Command::ChangeAccess(request) => Some((verb_of(&request.change), request.key)),
            Command::NoteAct(note) => Some((verb_of_noted(&note.act), note.key)),
            Command::Guarded(guarded) => guarded.command().act(),
            Command::Attributed(attributed) => attributed.command().act(),
            Command::ForTenant(of) => of.command().act(),
            Command::FormCluster { .. }
            | Command::FormClusterAt { .. }
            | Command::RaiseClusterVersion { .. }
            | Command::OpenSession(_)
            | Command::CloseSession { .. }
            | Command::ExpireSession { .. }
            | Command::Acquire(_)
            | Command::Withdraw { .. }
            | Command::Abandon { .. }
            | Command::Release { .. }
            | Command::SetGrantTimeout { .. }
            | Command::EndCooling { .. }
            | Command::Forget { .. }
            | Command::ForgetLocks { .. }
            | Command::Transact(_)
            | Command::Sweep { .. }
            | Command::ForgetHistory { .. }
            | Command::Downgrade { .. }
            | Command::Upgrade { .. }
            | Command::EndUpgrade { .. }
            | Command::Proclaim(_)
            | Command::EndHolds { .. }
            | Command::ContinuePendingWork { .. }
            | Command::RecordKey { .. }
            | Command::RecordCapacity { .. }
            | Command::AdmitNode(_)
            | Command::SettleJoin { .. }
            | Command::RecordRemoval { .. }
            | Command::ExpireTokens { .. } => None,
        }
    }

    /// What an act is about. The outcome has the number of what it created.
    pub(crate) fn act_words(&self, outcome: Option<&Outcome>) -> ActWords {
        if let Command::Break(request) = self {
            let words = ActWords::on(format_args!("locks:{}", request.lock)).value("token", request.token);
            words.because(&request.reason)
        } else if let Command::Revoke(request) = self {
            ActWords::on(format_args!("locks:{}", request.lock)).because(&request.reason)
        } else if let Command::SetLock(request) = self {
            of_set_lock(request)
        } else if let Command::EndSession { session, reason, .. } = self {
            ActWords::on(format_args!("sessions:{session}")).because(reason)
        } else if let Command::CreateJoinToken(request) = self {
            of_join_token(request, outcome)
        } else if let Command::RevokeJoinToken { number, .. } = self {
            ActWords::on(number)
        } else if let Command::RequestRemoval(request) = self {
            ActWords::on(request.node)
        } else if let Command::SetMember(request) = self {
            of_set_member(request)
        } else if let Command::SetTiming { timing, .. } = self {
            ActWords::on("timing").with(timing)
        } else if let Command::ChangeAccess(request) = self {
            of_access(&request.change, outcome)
        } else if let Command::NoteAct(note) = self {
            of_noted(note)
        } else {
            ActWords::default()
        }
    }
}

fn verb_of(change: &AccessChange) -> &'static str {
    match change {
        AccessChange::PutRole { .. } => "roles.put",
        AccessChange::DeleteRole { .. } => "roles.remove",
        AccessChange::Bind { .. } => "access.bind",
        AccessChange::Unbind { .. } => "access.unbind",
        AccessChange::SetUser { disabled: true, .. } => "users.disable",
        AccessChange::SetUser { disabled: false, .. } => "users.enable",
        AccessChange::CreateToken { .. } => "tokens.create",
        AccessChange::RevokeToken { .. } => "tokens.revoke",
        AccessChange::PutTenant { .. } => "tenants.put",
        AccessChange::DeleteTenant { .. } => "tenants.remove",
        AccessChange::Enable => "access.enable",
        AccessChange::Disable => "access.disable",
    }
}

fn verb_of_noted(act: &NotedAct) -> &'static str {
    match act {
        NotedAct::HandOver { .. } => "cluster.lead",
        NotedAct::TakeSnapshot { .. } => "cluster.snapshot",
        NotedAct::Finalize { .. } => "cluster.finalize",
        NotedAct::Promote { .. } => "members.promote",
        NotedAct::Demote { .. } => "members.demote",
        NotedAct::SetAddress { .. } => "members.set",
    }
}

fn of_set_lock(request: &SetLock) -> ActWords {
    let SetLock { lock, limit, max_waiters, max_hold_ms, .. } = request;
    let words = ActWords::on(format_args!("locks:{lock}")).value("limit", *limit).value("max_waiters", *max_waiters);
    words.value("max_hold_ms", *max_hold_ms)
}

fn of_join_token(request: &CreateJoinToken, outcome: Option<&Outcome>) -> ActWords {
    let number = if let Some(Outcome::JoinTokenCreated { number, .. }) = outcome { number.to_string() } else { String::new() };
    let words = ActWords::on(number).with(request.role).value("replaces", request.replaces);
    words.flag("standing", request.standing).value("up_to", request.up_to)
}

fn of_set_member(request: &SetMember) -> ActWords {
    let words = ActWords::on(request.node).value("priority", request.priority);
    words.value("zone", request.zone.as_ref()).flag("address", request.address_set)
}

fn of_access(change: &AccessChange, outcome: Option<&Outcome>) -> ActWords {
    match change {
        AccessChange::PutRole { role, rules, .. } => {
            let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
            ActWords::on(role).with(rules.join(" | "))
        }
        AccessChange::DeleteRole { role, force, .. } => ActWords::on(role).flag("force", *force),
        AccessChange::Bind { role, subject } | AccessChange::Unbind { role, subject } => ActWords::on(role).with(subject),
        AccessChange::SetUser { user, end_sessions, .. } => ActWords::on(user).flag("end_sessions", *end_sessions),
        AccessChange::CreateToken { user, expires_at, .. } => {
            let number =
                if let Some(Outcome::AccessTokenCreated { number, .. }) = outcome { number.to_string() } else { String::new() };
            ActWords::on(number).value("user", Some(user)).value("expires", expires_at.map(WallMillis::to_rfc3339))
        }
        AccessChange::RevokeToken { number, end_sessions } => ActWords::on(number).flag("end_sessions", *end_sessions),
        AccessChange::PutTenant { name, tenant, .. } => of_tenant(name, tenant),
        AccessChange::DeleteTenant { name, .. } => ActWords::on(name),
        AccessChange::Enable | AccessChange::Disable => ActWords::default(),
    }
}

fn of_tenant(name: &TenantName, tenant: &Tenant) -> ActWords {
    let Tenant { subjects, prefixes, quota } = tenant;
    let words = ActWords::on(name).value("subjects", Some(joined(subjects))).value("prefixes", Some(joined(prefixes)));
    let Quota { nodes, bytes, contenders, waiters, sessions, tokens, requests_per_second, burst, waits, watches } = quota;
    let words = words.value("nodes", *nodes).value("bytes", *bytes).value("contenders", *contenders).value("waiters", *waiters);
    let words = words.value("sessions", *sessions).value("tokens", *tokens);
    let words = words.value("requests_per_second", *requests_per_second).value("burst", *burst);
    words.value("waits", *waits).value("watches", *watches)
}

fn joined(items: &[impl Display]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(",")
}

fn of_noted(note: &NoteAct) -> ActWords {
    let node = |node: &NodeId| ActWords::on(node);
    match &note.act {
        NotedAct::HandOver { to } => node(to),
        NotedAct::Finalize { to } => ActWords::on(to),
        NotedAct::TakeSnapshot { node: id } | NotedAct::Promote { node: id } | NotedAct::Demote { node: id } => node(id),
        NotedAct::SetAddress { node: id, url, peer } => node(id).value("url", url.as_ref()).value("peer", peer.as_ref()),
    }
}

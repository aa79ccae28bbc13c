//! Plants for the invariants of rights and tenants.

use super::stage::{AT, Judged, Stage, create, fresh};
use crate::access_user::{AccessUser, UserRight, decisions_by};
use crate::facts::Fact;
use fairhold_access::{BearerToken, Principal, Quota, RoleName, Rule, Subject, Tenant, TenantName, TenantPrefix};
use fairhold_state::State;
use fairhold_state::access::{AccessGuard, PrincipalKey};
use fairhold_state::command::{AccessChange, AccessRequester, ChangeAccess, Command, Event, Lifetime};
use fairhold_types::{ClusterId, ClusterVersion, Path, Revision};

const USER: AccessUser = AccessUser::ALL[0];

/// A command with a guard of this principal, by the current access data.
fn guarded(stage: &Stage, principal: PrincipalKey, command: Command) -> Command {
    command.guarded(AccessGuard { access: stage.state.access().revision(), principal })
}

fn change_access(stage: &mut Stage, change: AccessChange) {
    let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
    let command = Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: AT });
    stage.right(guarded(stage, Principal::file_admin().key(), command));
}

fn bind(role: &str, subject: &str) -> AccessChange {
    AccessChange::Bind { role: RoleName::parse(role).unwrap(), subject: Subject::parse(subject).unwrap() }
}

/// Rights are enforced, and the first user has all that a user may have, or another one has them.
fn enforce_rights(stage: &mut Stage, bound: &str) {
    stage.right(Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    let rules = UserRight::ALL.map(|right| Rule::parse(&USER.rule(right)).unwrap()).to_vec();
    for change in [
        bind("admin", "user:root1"),
        AccessChange::PutRole { role: RoleName::parse("rights-1").unwrap(), rules, expected: None },
        bind("rights-1", bound),
        AccessChange::CreateToken { hash: BearerToken::from_random([1; 32]).hash(), user: USER.name(), expires_at: None },
        AccessChange::Enable,
    ] {
        change_access(stage, change);
    }
}

fn unbind(stage: &mut Stage) {
    let (role, subject) = (RoleName::parse("rights-1").unwrap(), Subject::exact(&USER.principal()));
    change_access(stage, AccessChange::Unbind { role, subject });
}

pub(super) fn user_rights(stage: &mut Stage) -> Judged {
    enforce_rights(stage, USER.principal().as_str());
    stage.right(guarded(stage, Principal::file_admin().key(), create("/own-1", 1, Lifetime::Persistent)));
    stage.right(guarded(stage, USER.key(), create("/own-1/n1", 1, Lifetime::Persistent)));
    unbind(stage);
    stage.show(&[Event::NodeCreated { path: Path::parse("/own-1/n2").unwrap() }])
}

pub(super) fn decisions(stage: &mut Stage) -> Judged {
    enforce_rights(stage, USER.principal().as_str());
    let access = stage.state.access().revision();
    let decided = |decisions| Fact::Decided { node: 2, access, decisions };
    stage.invariant.observe(&decided(decisions_by(stage.state.access()))).unwrap();
    stage.invariant.observe(&decided(vec![false; decisions_by(stage.state.access()).len()]))
}

pub(super) fn needless_refusal(stage: &mut Stage) -> Judged {
    enforce_rights(stage, USER.principal().as_str());
    let now = stage.state.revision();
    stage.invariant.observe(&Fact::FoundStale { since: Revision(0), until: now }).unwrap();
    stage.invariant.observe(&Fact::FoundStale { since: now, until: now.next() })
}

/// A binding is gone, and the mark stays.
pub(super) fn a_mark_that_stays(stage: &mut Stage) -> Judged {
    let invariant = fresh("nodes agree");
    let mut other = Stage { state: State::new(), invariant, at: stage.at };
    enforce_rights(&mut other, "user:other1");
    change_access(&mut other, bind("viewer", "user:other1"));
    enforce_rights(stage, USER.principal().as_str());
    stage.show_as(1, true, &other.state, other.state.revision(), &[])
}

pub(super) fn watchers_rights(stage: &mut Stage) -> Judged {
    let shown = |at| Fact::Shown { user: USER, revision: at, until: at };
    enforce_rights(stage, USER.principal().as_str());
    let given = stage.state.revision();
    unbind(stage);
    let lost = stage.state.revision();
    stage.invariant.observe(&shown(given)).unwrap();
    change_access(stage, bind("rights-1", USER.principal().as_str()));
    let late = Fact::Shown { user: USER, revision: lost, until: stage.state.revision() };
    stage.invariant.observe(&late).unwrap();
    stage.invariant.observe(&shown(lost))
}

/// A tenant with a quota of one node, which exists, and another node.
fn with_tenant(stage: &mut Stage, another: &str) {
    stage.state.apply(&Command::FormClusterAt { cluster: ClusterId(1), version: ClusterVersion(2) });
    for path in ["/own-1", another] {
        stage.state.apply(&create(path, 1, Lifetime::Persistent)).answer.result.unwrap();
    }
    let prefixes = vec![TenantPrefix::parse("nodes:own-1/**").unwrap()];
    let tenant = Tenant { subjects: Vec::new(), prefixes, quota: Quota { nodes: Some(1), ..Quota::default() } };
    change_access(
        stage,
        AccessChange::PutTenant { name: TenantName::parse("t1").unwrap(), tenant: Box::new(tenant), expected: None },
    );
}

pub(super) fn quotas(stage: &mut Stage) -> Judged {
    let mut other = Stage { state: State::new(), invariant: fresh("nodes agree"), at: stage.at };
    with_tenant(&mut other, "/own-1/n1");
    with_tenant(stage, "/other");
    stage.show_as(1, true, &other.state, other.state.revision(), &[])
}

//! Access data of the largest size, and the most expensive changes of it.

use super::{AT, BASE, Crowd, ENDS, PIECE};
use fairhold_access::{
    Principal, Quota, Tenant, TenantName, TenantNumber,
    limits::{
        BINDINGS_MAX, DISABLED_USERS_MAX, ROLES_MAX, RULES_PER_ROLE_MAX, TENANT_PREFIXES_MAX, TENANT_SUBJECTS_MAX, TENANTS_MAX,
        TOKENS_MAX, TOKENS_PER_USER_MAX,
    },
    token::{AccessTokenNumber, TokenHash},
};
use fairhold_state::{
    State,
    command::{
        AccessChange, AccessGuard, AccessRequester, ActOrigin, Applied, ChangeAccess, Command, Meta, NoteAct, NotedAct, NotedEnd,
        OpenSession,
    },
};
use fairhold_types::{ClusterVersion, Revision, SessionId, limits::VERDICT_OBJECTS_MAX, time::WallMillis};

/// The search for an administrator visits each administering role and each of their bindings.
const ADMINISTRATORS: u64 = (ROLES_MAX + BINDINGS_MAX) as u64;
/// The sessions that one principal opened.
const SESSIONS: u128 = 5_000;

/// The name of a change, the most steps that it may take, and their parts.
pub(crate) fn bound(change: &AccessChange) -> (&'static str, u64, &'static str) {
    let (rules, bindings) = (RULES_PER_ROLE_MAX as u64, BINDINGS_MAX as u64);
    let tokens = 2 * TOKENS_PER_USER_MAX as u64;
    let lists = (TENANT_PREFIXES_MAX + TENANT_SUBJECTS_MAX) as u64;
    match change {
        AccessChange::PutRole { .. } => {
            ("PutRole", BASE + rules + ADMINISTRATORS, "its rules; a search for an administrator among all bindings")
        }
        AccessChange::DeleteRole { .. } => {
            ("DeleteRole", BASE + 2 * bindings + ADMINISTRATORS, "its bindings; a search for an administrator")
        }
        AccessChange::Bind { .. } => ("Bind", BASE, "nothing grows"),
        AccessChange::Unbind { .. } => ("Unbind", BASE + ADMINISTRATORS, "a search for an administrator"),
        AccessChange::SetUser { .. } => {
            ("SetUser", ENDS + tokens + ADMINISTRATORS, "its tokens; a search for an administrator; sessions, as a piece")
        }
        AccessChange::CreateToken { .. } => ("CreateToken", BASE, "nothing grows"),
        AccessChange::RevokeToken { .. } => {
            ("RevokeToken", ENDS + ADMINISTRATORS, "a search for an administrator; sessions, as a piece")
        }
        AccessChange::Enable => ("Enable", BASE + ADMINISTRATORS, "a search for an administrator"),
        AccessChange::Disable => ("Disable", BASE, "nothing grows"),
        AccessChange::PutTenant { .. } => ("PutTenant", BASE + lists + PIECE, "its prefixes and subjects; a piece of the count"),
        AccessChange::DeleteTenant { .. } => ("DeleteTenant", BASE + lists, "its prefixes and subjects"),
    }
}

/// Changes that may take rights away search for an administrator only while rights are enforced.
pub(crate) fn enforced(state: &mut State, name: &str, command: &Command) -> Applied {
    if !["PutRole", "DeleteRole", "Unbind", "SetUser", "RevokeToken"].contains(&name) {
        return state.apply(command);
    }
    state.apply(&change(AccessChange::Enable)).answer.result.expect("there is an administrator");
    let guard = AccessGuard { access: state.access().revision(), principal: Principal::file_admin().key() };
    state.apply(&command.clone().guarded(guard))
}

fn principal(user: &str) -> Principal {
    Principal::parse(&format!("user:{user}")).expect("a user")
}

fn change(change: AccessChange) -> Command {
    let requester = AccessRequester { principal: principal("root"), client: "curl@127.0.0.1".to_owned() };
    Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: AT })
}

fn put_role(name: &str, administers: bool) -> AccessChange {
    let rule = |number: usize| match administers {
        true => "admin cluster".parse().expect("a rule"),
        false => format!("acquire locks:a{number}/*/{{user}}/**").parse().expect("a rule"),
    };
    let rules = (0..RULES_PER_ROLE_MAX).map(rule).collect();
    AccessChange::PutRole { role: name.parse().expect("a name"), rules, expected: None }
}

fn bind(role: &str, user: &str) -> AccessChange {
    let subject = format!("user:{user}").parse().expect("a subject");
    AccessChange::Bind { role: role.parse().expect("a name"), subject }
}

fn create_token(user: &str, secret: usize) -> AccessChange {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(&(secret as u64).to_le_bytes());
    let user = user.parse().expect("a name");
    AccessChange::CreateToken { hash: TokenHash(hash), user, expires_at: Some(WallMillis(AT.0 + secret as u64)) }
}

fn set_user(user: &str, disabled: bool, end_sessions: bool) -> AccessChange {
    AccessChange::SetUser { user: user.parse().expect("a name"), disabled, end_sessions }
}

/// A tenant with as many subjects and prefixes as it may have. Nothing exists below these.
fn put_tenant(number: usize) -> AccessChange {
    let prefixes = (0..TENANT_PREFIXES_MAX).map(|part| format!("nodes:tenant-{number}/{part}/**").parse().expect("a prefix"));
    let subjects = (0..TENANT_SUBJECTS_MAX).map(|part| format!("user:u-{number}-{part}").parse().expect("a subject"));
    let quota = Quota { nodes: Some(7), sessions: Some(7), ..Quota::default() };
    let tenant = Tenant { prefixes: prefixes.collect(), subjects: subjects.collect(), quota };
    AccessChange::PutTenant {
        name: format!("tenant-{number}").parse().expect("a name"),
        tenant: Box::new(tenant),
        expected: None,
    }
}

/// A tenant of all locks.
fn put_tenant_of_locks() -> AccessChange {
    let tenant = Tenant { prefixes: vec!["locks:**".parse().expect("a prefix")], ..Tenant::default() };
    AccessChange::PutTenant { name: "locks".parse().expect("a name"), tenant: Box::new(tenant), expected: None }
}

fn opened_by(user: &str, number: u128) -> Command {
    let id = SessionId(u128::MAX / 2 + number);
    let open = OpenSession { key: None, id, timeout_ms: 10_000, name: String::new(), meta: Meta::new(), at: AT };
    let guard = AccessGuard { access: Revision(0), principal: principal(user).key() };
    Command::OpenSession(open).guarded(guard)
}

/// As many roles, bindings, disabled users and tokens as there may be, but for one of each. Nearly all administrators
/// are disabled, so a search for one visits nearly all bindings.
pub(crate) fn fill(crowd: &mut Crowd) {
    crowd.apply(Command::RaiseClusterVersion { to: ClusterVersion(2) });
    for number in 1..ROLES_MAX {
        crowd.apply(change(put_role(&format!("role-{number}"), number % 100 == 0 || number == 999)));
    }
    for number in 2..BINDINGS_MAX {
        crowd.apply(change(bind("role-900", &format!("gone-{number}"))));
    }
    crowd.apply(change(bind("role-999", "root")));
    for number in 1..DISABLED_USERS_MAX {
        crowd.apply(change(set_user(&format!("gone-{number}"), true, false)));
    }
    for number in 1..TOKENS_MAX {
        crowd.apply(change(create_token(&format!("ci-{}", number / TOKENS_PER_USER_MAX), number)));
    }
    for number in 0..SESSIONS {
        crowd.apply(opened_by("ci-7", number));
    }
    for number in 1..TENANTS_MAX {
        crowd.apply(change(put_tenant(number)));
    }
}

fn name_of_tenant() -> TenantName {
    "tenant-7".parse().expect("a name")
}

pub(crate) fn scenes() -> Vec<(&'static str, Command)> {
    let name = |name: &str| name.parse().expect("a name");
    let last = "user:root".parse().expect("a subject");
    let gone = "user:gone-77".parse().expect("a subject");
    let deleted = AccessChange::DeleteRole { role: name("role-900"), force: true, expected: None };
    let no_tenant = AccessChange::DeleteTenant { name: name_of_tenant(), expected: None };
    let (number, ends) = (AccessTokenNumber(7 * TOKENS_PER_USER_MAX as u64), true);
    vec![
        ("100,000 sessions", opened_by("bob", SESSIONS)),
        ("1,000 roles, 10,000 bindings", change(put_role("role-1", true))),
        ("the last of 1,000", change(put_role("new", false))),
        ("9,999 bindings", change(deleted)),
        ("the last of 10,000", change(bind("role-900", "ann"))),
        ("the only binding of the last administrator", change(AccessChange::Unbind { role: name("role-999"), subject: last })),
        ("10,000 bindings", change(AccessChange::Unbind { role: name("role-900"), subject: gone })),
        ("1,000 tokens and 5,000 sessions", change(set_user("ci-7", true, true))),
        ("of 10,000", change(set_user("gone-5", false, false))),
        ("the last of 100,000", change(create_token("ci-0", TOKENS_MAX))),
        ("a disabled user", change(set_user("ci-7", true, true)).attributed(ActOrigin::of_node())),
        (
            "a snapshot",
            Command::NoteAct(NoteAct { key: None, act: NotedAct::TakeSnapshot { node: 1 }, end: NotedEnd::Done, at: AT }),
        ),
        ("5,000 sessions", change(AccessChange::RevokeToken { number, end_sessions: ends })),
        ("10,000 bindings", change(AccessChange::Enable)),
        ("it is off", change(AccessChange::Disable)),
        ("100,000 locks with their holders, the last of 1,000 tenants", change(put_tenant_of_locks())),
        ("100 prefixes and 100 subjects", change(no_tenant)),
        ("1,000 tenants", opened_by("u-7-7", SESSIONS).for_tenant(Some(TenantNumber(7)))),
        (
            "1,000 of 100,000",
            Command::ExpireTokens { tokens: (1..=VERDICT_OBJECTS_MAX as u64).map(AccessTokenNumber).collect(), at: AT },
        ),
    ]
}

/// The lookups of a request: its token, its rights, and what one user has.
#[test]
fn lookups_in_large_access_data_are_cheap() {
    let mut crowd = Crowd::new();
    fill(&mut crowd);
    let meter = std::mem::take(&mut crowd.meter);
    let access = crowd.state.access();
    let hash = access.token(AccessTokenNumber(50_000)).expect("it was created").hash;
    let user = principal("gone-9999");
    let attributes = fairhold_access::Attributes::of(&user, []);
    let complaints = [
        ("a token", meter.complaint_of_read(1, || access.token_with(&hash).map(|(number, _)| number))),
        ("rights", meter.complaint_of_read(2 * RULES_PER_ROLE_MAX, || access.rights(&user, &attributes).roles().len())),
        ("expired", meter.complaint_of_read(1, || access.expired_before(WallMillis(u64::MAX)).next())),
        ("a mark", meter.complaint_of_read(1, || access.narrowed_for(user.key()))),
        ("a snapshot", meter.complaint_of_read(1, || crowd.state.clone())),
    ];
    let complaints: Vec<_> = complaints.iter().filter_map(|(what, complaint)| Some((what, complaint.as_ref()?))).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert_eq!(access.tokens_of(&"ci-7".parse().expect("a name")).count(), TOKENS_PER_USER_MAX);
}

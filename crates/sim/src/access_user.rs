//! The users whose rights change during a run: their names, and what they may do by the access data.
//!
//! What they may do is decided naively: from the text of the rules, and not by the product's own decision.

use fairhold_access::{Attributes, Need, Principal, PrincipalKey, Rights, UserName};
use fairhold_state::access::AccessData;
use fairhold_types::{LockName, Path};

/// What a user has a right to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UserRight {
    /// To write its own nodes.
    Write,
    /// To acquire its own locks.
    Acquire,
    /// To watch the nodes that an administrator writes.
    Watch,
}

impl UserRight {
    pub(crate) const ALL: [UserRight; 3] = [UserRight::Write, UserRight::Acquire, UserRight::Watch];
}

/// A user whose rights change during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AccessUser(u32);

impl AccessUser {
    pub(crate) const ALL: [AccessUser; 2] = [AccessUser(1), AccessUser(2)];

    /// Its number.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Its name.
    pub(crate) fn name(self) -> UserName {
        UserName::parse(&format!("user{}", self.0)).expect("it is a user's name")
    }

    /// Its principal.
    pub(crate) fn principal(self) -> Principal {
        Principal::user(&self.name())
    }

    /// The key of its principal.
    pub(crate) fn key(self) -> PrincipalKey {
        self.principal().key()
    }

    /// The node above those that only this user writes.
    pub(crate) fn own(self) -> String {
        format!("/own-{}", self.0)
    }

    /// The node above those that this user watches, and an administrator writes.
    pub(crate) fn shown(self) -> String {
        format!("/shown-{}", self.0)
    }

    /// The lock that only this user acquires.
    pub(crate) fn lock(self) -> String {
        format!("own-{}/lock", self.0)
    }

    /// The rule with a right.
    pub(crate) fn rule(self, right: UserRight) -> String {
        match right {
            UserRight::Write => format!("write nodes:own-{}/**", self.0),
            UserRight::Acquire => format!("acquire locks:own-{}/**", self.0),
            UserRight::Watch => format!("read nodes:shown-{}/**", self.0),
        }
    }

    /// The user that alone writes a node.
    pub(crate) fn writer_of(path: &Path) -> Option<AccessUser> {
        AccessUser::ALL.into_iter().find(|user| path.as_str().starts_with(&format!("{}/", user.own())))
    }

    /// The user that alone acquires a lock.
    pub(crate) fn owner_of(lock: &LockName) -> Option<AccessUser> {
        AccessUser::ALL.into_iter().find(|user| lock.as_str() == user.lock())
    }

    /// Whether a rule of a role of this user says that it has this right to what belongs to `owner`.
    fn has_rule(self, access: &AccessData, owner: AccessUser, right: UserRight) -> bool {
        let (principal, rule) = (self.principal(), owner.rule(right));
        let mut roles = access.bindings().filter(|(_, subject, _)| subject.as_str() == principal.as_str());
        roles.any(|(name, _, _)| access.role(name).is_some_and(|role| role.rules.iter().any(|one| one.to_string() == rule)))
    }

    /// Whether this user may do that now: while rights are enforced, it needs a token and a rule.
    pub(crate) fn may(self, access: &AccessData, right: UserRight) -> bool {
        let has_token =
            || access.tokens_after(fairhold_access::token::AccessTokenNumber(0)).any(|(_, token)| token.user == self.name());
        !access.is_on() || (has_token() && self.has_rule(access, self, right))
    }
}

/// Each user, each owner of something, and each right.
fn questions() -> impl Iterator<Item = (AccessUser, AccessUser, UserRight)> {
    let owners = |user| AccessUser::ALL.into_iter().map(move |owner| (user, owner));
    let rights = |(user, owner)| UserRight::ALL.into_iter().map(move |right| (user, owner, right));
    AccessUser::ALL.into_iter().flat_map(owners).flat_map(rights)
}

/// What rules alone say about each right of each user.
pub(crate) fn expected_decisions(access: &AccessData) -> Vec<bool> {
    questions().map(|(user, owner, right)| user.has_rule(access, owner, right)).collect()
}

/// What the product decides about each right of each user. `rights` are those of a principal.
pub(crate) fn decisions<R: AsRef<Rights>>(rights: impl Fn(&Principal) -> R) -> Vec<bool> {
    let decide = |(user, owner, right): (AccessUser, AccessUser, UserRight)| {
        let rights = rights(&user.principal());
        let may = |need: &Need<'_>| rights.as_ref().decide(need).is_ok();
        let node = |above: String| Path::parse(&above).expect("it is a path");
        match right {
            UserRight::Write => may(&Need::write(&node(format!("{}/n1", owner.own())))),
            UserRight::Acquire => may(&Need::on_lock(fairhold_access::Verb::Acquire, &lock(&owner.lock()))),
            UserRight::Watch => Need::read_below(&node(owner.shown())).iter().all(may),
        }
    };
    questions().map(decide).collect()
}

/// What the access data of a state decides about each right of each user.
pub(crate) fn decisions_by(access: &AccessData) -> Vec<bool> {
    decisions(|principal| Box::new(access.rights(principal, &Attributes::of(principal, []))))
}

fn lock(name: &str) -> LockName {
    LockName::parse(name).expect("it is a lock's name")
}

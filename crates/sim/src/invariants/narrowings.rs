//! The mark of a principal moves when it loses something, and at no other time. Only then may a request be told that the
//! rights changed too often while it was decided.

use super::invariant::Invariant;
use crate::{
    access_user::AccessUser,
    facts::{Applied, Fact},
};
use fairhold_state::access::AccessData;
use fairhold_types::Revision;
use std::collections::{BTreeMap, BTreeSet};

/// What principals may lose.
#[derive(Default, PartialEq)]
struct Given {
    on: bool,
    roles: BTreeMap<String, Revision>,
    bindings: BTreeSet<(String, String)>,
    tokens: BTreeMap<u64, String>,
    disabled: BTreeSet<String>,
}

impl Given {
    fn of(access: &AccessData) -> Given {
        let first = fairhold_access::token::AccessTokenNumber(0);
        Given {
            on: access.is_on(),
            roles: access.roles().map(|(name, role)| (name.to_string(), role.revision)).collect(),
            bindings: access.bindings().map(|(role, subject, _)| (role.to_string(), subject.to_string())).collect(),
            tokens: access.tokens_after(first).map(|(number, token)| (number.0, token.user.to_string())).collect(),
            disabled: access.disabled_users().map(|(user, _)| user.to_string()).collect(),
        }
    }

    /// Whether any principal may have lost something since `before`: by a role, a binding or the switch.
    fn is_narrower_for_all(&self, before: &Given) -> bool {
        self.on != before.on
            || before.roles.iter().any(|(name, revision)| self.roles.get(name) != Some(revision))
            || !before.bindings.is_subset(&self.bindings)
    }

    /// Whether this user may have lost something since `before`.
    fn is_narrower_for(&self, before: &Given, user: &str) -> bool {
        let lost_token = before.tokens.iter().any(|(number, of)| of == user && !self.tokens.contains_key(number));
        lost_token || (self.disabled.contains(user) && !before.disabled.contains(user))
    }
}

#[derive(Default)]
pub(crate) struct Narrowings {
    access: Revision,
    given: Given,
    mark: Revision,
    marks: BTreeMap<AccessUser, Revision>,
    /// The revisions at which a mark moved.
    moved: BTreeSet<Revision>,
}

impl Narrowings {
    fn compare(&self, access: &AccessData, given: &Given) -> Result<(), String> {
        let (revision, mark) = (access.revision(), access.narrowed_at());
        let for_all = given.is_narrower_for_all(&self.given);
        if for_all != (mark != self.mark) {
            let what = if for_all { "something was lost" } else { "nothing was lost" };
            return Err(format!("at revision {revision} {what}, but the mark of all went from {} to {mark}", self.mark));
        }
        for user in AccessUser::ALL {
            let (mark, before) = (access.narrowed_for(user.key()), self.marks.get(&user).copied().unwrap_or_default());
            let is_lost = for_all || given.is_narrower_for(&self.given, user.name().as_str());
            if is_lost != (mark != before) || (is_lost && mark != revision) {
                let what = if is_lost { "something was lost" } else { "nothing was lost" };
                return Err(format!("at revision {revision} {what}, but the mark of {user:?} went from {before} to {mark}"));
            }
        }
        Ok(())
    }
}

impl Invariant for Narrowings {
    fn name(&self) -> &'static str {
        "marks move when something is lost"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        let access = applied.state.access();
        if !applied.first || access.revision() == self.access {
            return Ok(());
        }
        let given = Given::of(access);
        let compared = self.compare(access, &given);
        let marks = AccessUser::ALL.map(|user| (user, access.narrowed_for(user.key())));
        let (mark, marks) = (access.narrowed_at(), BTreeMap::from(marks));
        if mark != self.mark || marks != self.marks {
            self.moved.insert(access.revision());
        }
        (self.access, self.given, self.mark, self.marks) = (access.revision(), given, mark, marks);
        compared
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::FoundStale { since, until } = fact else { return Ok(()) };
        if self.moved.range(since.next()..=*until).next().is_some() {
            return Ok(());
        }
        Err(format!("a request was told that the rights changed, but no mark moved after revision {since} up to {until}"))
    }
}

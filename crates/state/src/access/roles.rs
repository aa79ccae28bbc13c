//! Changes of roles and bindings.

use super::{
    AccessData, AccessFault, BindingRecord, RoleRecord,
    edit::{AccessEdit, Edited},
    marks::RightsMove,
};
use fairhold_access::{
    RoleName, Subject,
    limits::{BINDINGS_MAX, ROLES_MAX},
    role,
    rule::Rule,
};
use fairhold_types::Revision;
use std::sync::Arc;

impl AccessData {
    fn unbind(&mut self, role: &RoleName, subject: &Subject) -> bool {
        self.index.by_subject.remove(&(subject.clone(), role.clone()));
        self.bindings.remove(&(role.clone(), subject.clone())).is_some()
    }
}

impl AccessEdit<'_> {
    /// Creates a role, or replaces its rules. A replacement narrows, whatever the new rules are.
    pub(super) fn put_role(&mut self, name: &RoleName, rules: &[Rule], expected: Option<Revision>) -> Edited {
        self.require_changeable(name, expected)?;
        let known = self.access.roles.get(name);
        if known.is_some_and(|role| role.rules == rules) {
            return Ok(None);
        }
        let moved = if known.is_some() { RightsMove::Narrower } else { RightsMove::Wider };
        if moved == RightsMove::Wider && self.access.roles.len() >= ROLES_MAX {
            return Err(full("roles", ROLES_MAX));
        }
        let by = self.request.requester.principal.clone();
        let record = RoleRecord { rules: rules.to_vec(), revision: self.revision, by, at: self.request.at };
        self.steps += rules.len() as u64;
        self.access.index.set_role(name, &record);
        self.access.roles.insert(name.clone(), Arc::new(record));
        Ok(Some(moved))
    }

    /// Removes a role, with its bindings if the request says so.
    pub(super) fn delete_role(&mut self, name: &RoleName, force: bool, expected: Option<Revision>) -> Edited {
        self.require_changeable(name, expected)?;
        if !self.access.roles.contains_key(name) {
            return Ok(None);
        }
        let bound: Vec<Subject> = self.access.subjects_of(name.as_str()).cloned().collect();
        self.steps += 2 * bound.len() as u64;
        if !bound.is_empty() && !force {
            return Err(AccessFault::RoleInUse { bindings: bound.len() as u64 });
        }
        for subject in &bound {
            self.access.unbind(name, subject);
        }
        self.access.index.administering.remove(name);
        self.access.roles.remove(name);
        Ok(Some(RightsMove::Narrower))
    }

    fn require_changeable(&self, name: &RoleName, expected: Option<Revision>) -> Result<(), AccessFault> {
        if role::built_in(name.as_str()).is_some() {
            return Err(AccessFault::BuiltInRole);
        }
        let current = self.access.roles.get(name).map_or(Revision(0), |role| role.revision);
        if expected.is_some_and(|expected| expected != current) {
            return Err(AccessFault::RoleChanged { current });
        }
        Ok(())
    }

    /// Gives a role to a subject.
    pub(super) fn bind(&mut self, role: &RoleName, subject: &Subject) -> Edited {
        if role::built_in(role.as_str()).is_none() && !self.access.roles.contains_key(role) {
            return Err(AccessFault::NoRole);
        }
        let binding = (role.clone(), subject.clone());
        if self.access.bindings.contains_key(&binding) {
            return Ok(None);
        }
        if self.access.bindings.len() >= BINDINGS_MAX {
            return Err(full("bindings", BINDINGS_MAX));
        }
        let record = BindingRecord { by: self.request.requester.principal.clone(), at: self.request.at };
        self.access.index.by_subject.insert((subject.clone(), role.clone()));
        self.access.bindings.insert(binding, Arc::new(record));
        Ok(Some(RightsMove::Wider))
    }

    /// Takes a role from a subject.
    pub(super) fn unbind(&mut self, role: &RoleName, subject: &Subject) -> Option<RightsMove> {
        self.access.unbind(role, subject).then_some(RightsMove::Narrower)
    }
}

pub(super) fn full(what: &str, max: usize) -> AccessFault {
    AccessFault::Full { what: what.to_owned(), max: max as u64 }
}

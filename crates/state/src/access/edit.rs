//! A change of the access data while it is applied.

use super::{AccessChange, AccessData, AccessFault, ChangeAccess, marks::RightsMove, records::EndingSessions};
use crate::{
    change::{Change, Effect},
    command::Outcome,
    rejection::Rejection,
};
use fairhold_access::{Principal, TenantNumber, UserName, decide::has_administrator, role};
use fairhold_types::{Revision, SessionNumber, cluster_version::ACCESS_SINCE};
use std::sync::Arc;

/// A copy of the access data, which takes the place of the original if the change is not refused.
pub(super) struct AccessEdit<'a> {
    pub(super) access: AccessData,
    pub(super) request: &'a ChangeAccess,
    /// The revision of the change.
    pub(super) revision: Revision,
    /// The cost so far, in steps of about a microsecond.
    pub(super) steps: u64,
    /// The user whose sessions end.
    pub(super) ends_sessions_of: Option<UserName>,
    /// The tenant whose prefixes are others from now on.
    pub(super) recounts: Option<TenantNumber>,
}

/// What a change does; `None` if there is nothing to change.
pub(super) type Edited = Result<Option<RightsMove>, AccessFault>;

impl Change<'_> {
    /// Changes the access data.
    pub(crate) fn change_access(&mut self, request: &ChangeAccess) -> Result<Effect, Rejection> {
        self.state.require_version(ACCESS_SINCE)?;
        let was_done = self.was_set_before(request.key)?;
        if let AccessChange::CreateToken { hash, user, expires_at } = &request.change {
            return self.create_token(request, (*hash, user, *expires_at), was_done);
        }
        if was_done {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        let mut edit = self.begin_edit(request);
        let moved = edit.run();
        self.add_uncounted_steps(edit.steps);
        let moved = moved.map_err(Rejection::Access)?;
        let changed = moved.is_some();
        let (ends_sessions_of, recounts) = (edit.ends_sessions_of.take(), edit.recounts);
        if let Some(moved) = moved {
            self.commit(edit, moved);
        }
        recounts.into_iter().for_each(|tenant| self.recount(tenant));
        let ending = ends_sessions_of.map(|user| EndingSessions {
            principal: Principal::user(&user).key(),
            through: SessionNumber(self.revision.0),
            by: request.requester.client.clone(),
            reason: format!("the access of {user} was taken away"),
        });
        let ends = ending.is_some_and(|sessions| self.end_sessions_of(sessions));
        Ok(self.end_setting(changed || ends, request.key))
    }

    pub(super) fn begin_edit<'a>(&self, request: &'a ChangeAccess) -> AccessEdit<'a> {
        let access = AccessData::clone(&self.state.access);
        AccessEdit { access, request, revision: self.revision, steps: 0, ends_sessions_of: None, recounts: None }
    }

    pub(super) fn commit(&mut self, edit: AccessEdit<'_>, moved: RightsMove) {
        let AccessEdit { mut access, .. } = edit;
        access.revision = self.revision;
        access.marks.shift(moved, self.revision);
        self.state.access = Arc::new(access);
    }
}

impl AccessEdit<'_> {
    fn run(&mut self) -> Edited {
        let request = self.request;
        let moved = match &request.change {
            AccessChange::PutRole { role, rules, expected } => self.put_role(role, rules, *expected)?,
            AccessChange::DeleteRole { role, force, expected } => self.delete_role(role, *force, *expected)?,
            AccessChange::Bind { role, subject } => self.bind(role, subject)?,
            AccessChange::Unbind { role, subject } => self.unbind(role, subject),
            AccessChange::SetUser { user, disabled, end_sessions } => self.set_user(user, *disabled, *end_sessions)?,
            AccessChange::CreateToken { .. } => unreachable!("a token has a path of its own"),
            AccessChange::RevokeToken { number, end_sessions } => self.revoke_token(*number, *end_sessions)?,
            AccessChange::Enable => self.enable(),
            AccessChange::Disable => self.disable()?,
            AccessChange::PutTenant { name, tenant, expected } => self.put_tenant(name, tenant, *expected)?,
            AccessChange::DeleteTenant { name, expected } => self.delete_tenant(name, *expected)?,
        };
        let narrower = matches!(moved, Some(RightsMove::Narrower | RightsMove::NarrowerFor(_)));
        // A file may take the last right away. It may not begin to enforce rights that nobody else can change.
        let is_exempt = request.requester.principal.is_file() && request.change != AccessChange::Enable;
        if narrower && self.access.on && !is_exempt && !self.has_administrator() {
            return Err(AccessFault::WouldLockOut);
        }
        Ok(moved)
    }

    fn enable(&mut self) -> Option<RightsMove> {
        let was_on = std::mem::replace(&mut self.access.on, true);
        (!was_on).then_some(RightsMove::Narrower)
    }

    fn disable(&mut self) -> Edited {
        if !self.request.requester.principal.is_file() {
            return Err(AccessFault::NeedsFile);
        }
        let was_on = std::mem::replace(&mut self.access.on, false);
        Ok(was_on.then_some(RightsMove::Narrower))
    }

    /// Whether a principal besides those of a file may change the access data. It is a function of the state alone, so
    /// it is the same on every node. It visits each binding of an administering role at most once.
    fn has_administrator(&mut self) -> bool {
        let access = &self.access;
        let is_disabled = |subject: &str| subject.strip_prefix("user:").is_some_and(|name| access.disabled.contains_key(name));
        let mut visited = 0;
        let built_in = role::built_in(role::ADMIN).into_iter().map(|rules| (role::ADMIN, rules));
        let own = access.index.administering.iter();
        let own = own.filter_map(|name| access.roles.get(name).map(|role| (name.as_str(), role.rules.as_slice())));
        let found = has_administrator(
            built_in
                .chain(own)
                .flat_map(|(name, rules)| access.subjects_of(name).map(move |subject| (subject, rules)))
                .inspect(|_| visited += 1)
                .filter(|(subject, _)| !is_disabled(subject.as_str())),
        );
        self.steps += visited + access.index.administering.len() as u64;
        found
    }
}

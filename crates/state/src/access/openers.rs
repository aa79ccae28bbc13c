//! The principals that opened sessions, and the end of all sessions of one.

use super::{AccessData, EndingSessions, records::Opener};
use crate::{
    State,
    change::Change,
    event::Event,
    pending::{Pending, SessionEnd},
    weighed::Weighed,
};
use fairhold_access::{PrincipalKey, TenantNumber};
use fairhold_types::SessionNumber;
use imbl::{OrdMap, OrdSet};
use std::sync::Arc;

impl AccessData {
    /// The principal that opened a session, as far as a guard has told.
    #[must_use]
    pub fn opener(&self, session: SessionNumber) -> Option<PrincipalKey> {
        self.openers.get(&session).map(|opener| opener.0)
    }

    /// The first session that a principal opened, up to this one.
    fn first_opened_by(&self, principal: PrincipalKey, through: SessionNumber) -> Option<SessionNumber> {
        let range = (principal, SessionNumber(0))..=(principal, through);
        self.index.opened_by.range(range).next().map(|(_, session)| *session)
    }

    /// Forgets the openers and the tenants of all sessions.
    pub(crate) fn forget_sessions(&mut self) {
        self.openers = Weighed::default();
        self.session_tenants = Weighed::default();
        self.index.opened_by = OrdSet::new();
        self.index.sessions_of_tenant = OrdMap::new();
    }

    pub(super) fn add_opener(&mut self, session: SessionNumber, principal: PrincipalKey) {
        self.openers.insert(session, Opener(principal));
        self.index.opened_by.insert((principal, session));
    }
}

impl State {
    /// Remembers the opener of a session.
    pub(crate) fn record_opener(&mut self, session: SessionNumber, principal: PrincipalKey) {
        Arc::make_mut(&mut self.access).add_opener(session, principal);
    }

    /// Counts a session for the tenant of its opener. A tenant that was removed in the meantime counts nothing.
    pub(crate) fn record_tenant(&mut self, session: SessionNumber, tenant: TenantNumber) {
        if self.access.tenant_numbered(tenant).is_some() {
            Arc::make_mut(&mut self.access).add_session_of_tenant(session, tenant);
        }
    }

    /// Forgets the opener of a session that has ended, and its tenant.
    pub(crate) fn forget_opener(&mut self, session: SessionNumber) {
        if !self.access.openers.contains_key(&session) {
            return;
        }
        let access = Arc::make_mut(&mut self.access);
        if let Some(Opener(principal)) = access.openers.remove(&session) {
            access.index.opened_by.remove(&(principal, session));
            access.remove_session_of_tenant(session);
        }
    }
}

impl Change<'_> {
    /// Ends the sessions, and as much of what they own as one command may. Later commands do the rest. Returns whether
    /// there were any.
    pub(super) fn end_sessions_of(&mut self, sessions: EndingSessions) -> bool {
        let any = self.state.access.first_opened_by(sessions.principal, sessions.through).is_some();
        if any && self.end_some_sessions(&sessions) {
            self.defer(Pending::EndSessionsOf(sessions));
        } else if any {
            self.run_pieces();
        }
        any
    }

    /// Ends as many of the sessions as one command may, and leaves what they own as pending work: none of them may be
    /// granted a lock that another one gives up in the same command. Returns whether some are left.
    pub(crate) fn end_some_sessions(&mut self, sessions: &EndingSessions) -> bool {
        while let Some(number) = self.state.access.first_opened_by(sessions.principal, sessions.through) {
            if !self.has_steps_left_to_end() {
                return true;
            }
            let session = self.state.session(number);
            // Its ended ids are counted when it is forgotten. Here they count against the bound of one command.
            self.counted += session.map_or(0, |session| session.ended.len() as u64);
            if session.is_some_and(|session| session.id.is_some()) {
                self.events.push(Event::SessionClosed { session: number });
            }
            let owns = self.state.grant_count(number) + self.state.ephemeral_count(number) > 0;
            self.forget_session(number);
            if owns {
                let how = SessionEnd::Ended { by: sessions.by.clone(), reason: sessions.reason.clone() };
                self.defer(Pending::EndSession { session: number, how });
            }
            self.count_steps(2);
        }
        false
    }
}

//! One exhaustive match from command to rule, and the only place where a revision is assigned.

use crate::{
    State,
    change::{Change, Effect},
    command::{Answer, Applied, ClusterEvent, Command, Event, Outcome, Rejection},
};
use fairhold_access::{PrincipalKey, TenantNumber};
use fairhold_types::{ClusterId, ClusterVersion, Revision};

impl State {
    /// Applies one command. The same state and the same command always give the same answer, the same events and the
    /// same next state, on every node.
    ///
    /// A `Rejection` means that nothing changed. Panics only if an invariant of the state itself is broken: continuing
    /// would spread the damage.
    pub fn apply(&mut self, command: &Command) -> Applied {
        if let Err(rejection) = self.check_guard(command) {
            return refused(self, rejection);
        }
        let (principal, tenant) = (command.guard().map(|guard| guard.principal), command.tenant());
        let command = command.unguarded();
        if let Command::Attributed(attributed) = command {
            return self.apply_attributed(attributed, principal);
        }
        self.apply_bare(command, principal, tenant)
    }

    /// Applies a command that has neither a guard nor an origin. Without `always` it is a call, because it has two callers,
    /// and that costs a write 1 % of its instructions.
    #[inline(always)]
    pub(crate) fn apply_bare(
        &mut self,
        command: &Command,
        principal: Option<PrincipalKey>,
        tenant: Option<TenantNumber>,
    ) -> Applied {
        let revision = self.revision.next();
        let budget_check = self.budget_check(command);
        let mut change = Change {
            state: self,
            revision,
            at: command.at(),
            principal,
            tenant,
            // Nearly every command has events, and growing an empty vector costs more.
            events: Vec::with_capacity(4),
            removed: 0,
            created: 0,
            broken: None,
            steps: 1,
            counted: 0,
        };
        let effect = change.run(command);
        let mut events = change.events;
        let steps = change.steps;
        let effect = match budget_check {
            Some(budget_check) if matches!(effect, Ok(Effect::Changed(_))) => self.enforce_budget(*budget_check).and(effect),
            Some(_) | None => effect,
        };
        let result = match effect {
            Ok(Effect::Changed(outcome)) => {
                self.revision = revision;
                Ok(outcome)
            }
            Ok(Effect::Unchanged(outcome)) => {
                assert!(events.is_empty(), "a command that changed nothing has events");
                Ok(outcome)
            }
            Err(rejection) => {
                events.clear();
                Err(rejection)
            }
        };
        Applied { answer: Answer { result, revision: self.revision }, events, steps }
    }
}

/// The refusal of a command that was not run.
pub(crate) fn refused(state: &State, rejection: Rejection) -> Applied {
    Applied { answer: Answer { result: Err(rejection), revision: state.revision }, events: Vec::new(), steps: 1 }
}

impl State {
    /// Refuses what an older version of the cluster does not know.
    pub(crate) fn require_version(&self, version: ClusterVersion) -> Result<(), Rejection> {
        if self.version >= version { Ok(()) } else { Err(Rejection::NeedsUpgrade { version }) }
    }
}

impl Change<'_> {
    fn run(&mut self, command: &Command) -> Result<Effect, Rejection> {
        match command {
            Command::FormCluster { cluster } => Ok(self.form_cluster(*cluster, ClusterVersion::FIRST)),
            Command::OpenSession(open) => self.open_session(open),
            Command::CloseSession { session, at: _ } => self.close_session(*session),
            Command::ExpireSession { session, at: _ } => Ok(self.expire_session(*session)),
            Command::Acquire(acquire) => self.acquire(acquire),
            Command::Withdraw { grant, attempt, at: _ } => self.withdraw(*grant, *attempt),
            Command::Abandon { grant, attempt, at: _ } => Ok(self.abandon(*grant, *attempt)),
            Command::Release { grant, session, at: _ } => self.release(*grant, *session),
            Command::SetGrantTimeout { grant, timeout_ms, key, at: _ } => self.set_grant_timeout(*grant, *timeout_ms, *key),
            Command::EndCooling { grants, at: _ } => Ok(self.end_cooling(grants)),
            Command::Forget { through } => Ok(self.forget(*through)),
            Command::ForgetLocks { locks } => Ok(self.forget_locks(locks)),
            Command::Transact(transact) => self.transact(transact),
            Command::Break(request) => self.break_lock(request),
            Command::EndSession { session, by, reason, at: _ } => self.end_session(*session, by, reason),
            Command::Sweep { nodes, at: _ } => Ok(self.sweep(nodes)),
            Command::Proclaim(request) => self.proclaim(request),
            Command::ForgetHistory { through } => Ok(self.forget_history(*through)),
            Command::Downgrade { grant, key, at: _ } => self.downgrade(*grant, *key),
            Command::Upgrade { grant, if_busy, key, at: _ } => self.upgrade(*grant, *if_busy, *key),
            Command::EndUpgrade { grant, attempt, at: _ } => self.end_upgrade(*grant, *attempt),
            Command::SetLock(request) => self.set_lock(request),
            Command::Revoke(request) => self.revoke(request),
            Command::EndHolds { holds, at: _ } => Ok(self.end_holds(holds)),
            Command::ContinuePendingWork { at: _ } => Ok(self.continue_pending()),
            Command::RecordKey { key, at: _ } => self.record_key(*key),
            Command::RecordCapacity { node, bytes } => Ok(self.record_capacity(*node, *bytes)),
            Command::RaiseClusterVersion { to } => Ok(self.raise_cluster_version(*to)),
            Command::FormClusterAt { cluster, version } => Ok(self.form_cluster(*cluster, *version)),
            Command::CreateJoinToken(request) => self.create_join_token(request),
            Command::RevokeJoinToken { number, at: _ } => Ok(self.revoke_join_token(*number)),
            Command::AdmitNode(request) => self.admit_node(request),
            Command::SettleJoin { node, at: _ } => Ok(self.settle_join(*node)),
            Command::RequestRemoval(request) => self.request_removal(request),
            Command::RecordRemoval { node, incarnation, ids_through, at: _ } => {
                Ok(self.record_removal(*node, *incarnation, *ids_through))
            }
            Command::SetMember(request) => self.set_member(request),
            Command::SetTiming { key, timing, by, at: _ } => self.set_timing(*timing, by, *key),
            Command::Guarded(guarded) => self.run(guarded.command()),
            Command::Attributed(attributed) => self.run(attributed.command()),
            Command::NoteAct(note) => Ok(self.note_act(note)),
            Command::ForTenant(of) => self.run(of.command()),
            Command::ChangeAccess(request) => self.change_access(request),
            Command::ExpireTokens { tokens, at: _ } => self.expire_tokens(tokens),
        }
    }

    fn form_cluster(&mut self, cluster: ClusterId, version: ClusterVersion) -> Effect {
        if self.state.cluster.is_some() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.state.cluster = Some(cluster);
        self.state.version = self.state.version.max(version);
        Effect::Changed(Outcome::Done)
    }

    fn raise_cluster_version(&mut self, to: ClusterVersion) -> Effect {
        if to != self.state.version.next() {
            return Effect::Unchanged(Outcome::Nothing);
        }
        self.state.version = to;
        self.events.push(Event::Cluster(ClusterEvent::Finalized { version: to }));
        Effect::Changed(Outcome::Done)
    }

    fn forget(&mut self, through: Revision) -> Effect {
        let forgotten = self.state.tombstones.forget(through);
        self.add_uncounted_steps(forgotten as u64);
        if forgotten > 0 { Effect::Changed(Outcome::Done) } else { Effect::Unchanged(Outcome::Nothing) }
    }
}

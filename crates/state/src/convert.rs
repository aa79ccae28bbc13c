//! Changes the mode of a holder: exclusive to shared at once; shared to exclusive once it is the only holder.
//!
//! While it waits for the upgrade, a grant keeps its shared hold and its token. As the only holder it gets a new token.
//! It comes before all waiters, and no more readers are granted, so it waits only for the current holders.

use crate::{
    actor::Actor,
    change::{Change, Effect},
    command::{Blocked, Event, IfBusy, Outcome, Queued, Rejection, WriteKey},
    deadlock::{WaitKind, WaitRequest},
    holds::hold_outcome,
    record::{Contender, LockSettings},
};
use fairhold_types::{GrantId, GrantNumber, HoldingEnd, LockName, Mode};

impl Change<'_> {
    /// Makes an exclusive holder shared, with the same token. If the request is repeated or the holder is already
    /// shared, nothing changes and the outcome is the hold.
    pub(crate) fn downgrade(&mut self, grant: GrantId, key: Option<WriteKey>) -> Result<Effect, Rejection> {
        let number = self.held_grant(&grant)?;
        if self.already_changed(number, key)? {
            return Ok(Effect::Unchanged(hold_outcome(self.contender(number), &grant)));
        }
        let contender = self.contender(number);
        if contender.mode == Mode::Shared {
            // Remember the key even if nothing changes: a late repetition could change something.
            let remembered = self.remember_change(number, key);
            let outcome = hold_outcome(self.contender(number), &grant);
            return Ok(if remembered { Effect::Changed(outcome) } else { Effect::Unchanged(outcome) });
        }
        let lock = contender.lock.clone();
        self.refuse_multi_lock(number)?;
        self.refuse_election(&lock)?;
        self.refuse_semaphore(&lock)?;
        self.refuse_other_holders(&lock, number)?;
        self.remember_change(number, key);
        self.record_changed_mode(number, HoldingEnd::Downgraded);
        let now = self.moment();
        let contender = self.contender_mut(number);
        contender.mode = Mode::Shared;
        contender.mode_since = Some(now);
        self.state.tree.locks.update(&lock, |record| record.queue_mut().count_mode_change(Mode::Shared));
        self.events.push(Event::Downgraded { lock: lock.clone(), grant: number });
        self.grant_waiters([lock]);
        Ok(Effect::Changed(hold_outcome(self.contender(number), &grant)))
    }

    /// Upgrades a shared holder, or lets it wait until it is the only holder. A repetition while it waits starts a
    /// newer attempt, which replaces the earlier one. A repetition after the upgrade was given up does nothing, even if
    /// another upgrade waits now.
    pub(crate) fn upgrade(&mut self, grant: GrantId, if_busy: IfBusy, key: Option<WriteKey>) -> Result<Effect, Rejection> {
        let number = self.held_grant(&grant)?;
        let repeated = self.already_changed(number, key)?;
        let contender = self.contender(number);
        let lock = contender.lock.clone();
        let named = key.map(|key| key.key);
        if contender.upgrading {
            if repeated && contender.upgrade_key != named {
                return Ok(Effect::Unchanged(Outcome::Nothing));
            }
            self.remember_change(number, key.filter(|_| !repeated));
            let contender = self.contender_mut(number);
            contender.upgrade_attempt += 1;
            contender.upgrade_key = named;
            return Ok(Effect::Changed(self.upgrade_outcome(number, &grant)));
        }
        if contender.mode == Mode::Exclusive {
            let remembered = self.remember_change(number, key.filter(|_| !repeated));
            let outcome = hold_outcome(self.contender(number), &grant);
            return Ok(if remembered { Effect::Changed(outcome) } else { Effect::Unchanged(outcome) });
        }
        if repeated {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        self.refuse_multi_lock(number)?;
        self.refuse_semaphore(&lock)?;
        let checked = self.check_upgrade_wait(number, &lock, if_busy)?;
        self.remember_change(number, key);
        let contender = self.contender_mut(number);
        contender.deadlock_checked = checked;
        contender.upgrade_attempt += 1;
        contender.upgrade_key = named;
        self.set_upgrading(number, true);
        self.events.push(Event::Upgrading { lock: lock.clone(), grant: number });
        self.grant_waiters([lock]);
        Ok(Effect::Changed(self.upgrade_outcome(number, &grant)))
    }

    /// Refuses an upgrade that would wait but may not, or that would cause a deadlock. Returns whether the deadlock
    /// check was complete.
    fn check_upgrade_wait(&mut self, number: GrantNumber, lock: &LockName, if_busy: IfBusy) -> Result<bool, Rejection> {
        let Some(queue) = self.state.queue_of(lock) else { return Ok(true) };
        if let Some(other) = queue.upgrading {
            let cycle = [number, other].map(|number| self.blocked(number)).to_vec();
            return Err(Rejection::WouldDeadlock { cycle });
        }
        // The grant is a holder itself.
        if queue.holders.len() <= 1 {
            return Ok(true);
        }
        if if_busy == IfBusy::Refuse {
            self.refuse_other_holders(lock, number)?;
        }
        let contender = self.contender(number);
        let request = WaitRequest {
            actor: Actor::of(contender),
            session: contender.session,
            owner: &contender.owner.text,
            number,
            kind: WaitKind::Upgrade(lock),
        };
        let (checked, visits) = self.state.check_deadlock(&request);
        self.add_uncounted_steps(visits as u64);
        checked
    }

    /// Gives up a waiting upgrade, unless it is finished or a newer attempt waits for it.
    pub(crate) fn end_upgrade(&mut self, grant: GrantId, attempt: u64) -> Result<Effect, Rejection> {
        let number = self.held_grant(&grant)?;
        let contender = self.contender(number);
        if !contender.upgrading {
            return Ok(Effect::Unchanged(hold_outcome(contender, &grant)));
        }
        if contender.upgrade_attempt > attempt {
            return Ok(Effect::Unchanged(Outcome::Nothing));
        }
        let lock = contender.lock.clone();
        self.set_upgrading(number, false);
        self.events.push(Event::UpgradeEnded { lock: lock.clone(), grant: number });
        self.grant_waiters([lock]);
        Ok(Effect::Changed(hold_outcome(self.contender(number), &grant)))
    }

    /// Makes the upgrading holder exclusive once it is the only holder.
    pub(crate) fn finish_upgrade(&mut self, lock: &LockName) {
        let Some(queue) = self.state.queue_of(lock) else { return };
        let Some(number) = queue.upgrading.filter(|_| queue.holders.len() == 1) else { return };
        if self.state.is_dead(self.contender(number)) {
            return;
        }
        let revision = self.revision;
        let at = self.at;
        self.set_upgrading(number, false);
        self.record_changed_mode(number, HoldingEnd::Upgraded);
        let contender = self.contender_mut(number);
        contender.mode = Mode::Exclusive;
        contender.mode_since = None;
        contender.granted_at = Some(revision);
        contender.held_since = Some(at);
        self.set_max_hold(number);
        let token = self.token_for(number);
        self.state.tree.locks.update(lock, |record| {
            record.queue_mut().count_mode_change(Mode::Exclusive);
            record.set_token(token)
        });
        self.events.push(Event::Granted { lock: lock.clone(), grant: number, token });
    }

    fn set_upgrading(&mut self, number: GrantNumber, upgrading: bool) {
        let contender = self.contender_mut(number);
        contender.upgrading = upgrading;
        let contender = contender.clone();
        self.update_upgrading(&contender);
    }

    /// Updates the caches of a holder whose `upgrading` flag has changed.
    pub(crate) fn update_upgrading(&mut self, contender: &Contender) {
        let upgrading = contender.upgrading.then_some(contender.number);
        self.state.tree.locks.update(&contender.lock, |record| record.queue_mut().upgrading = upgrading);
        self.state.index.update_actor_waits(contender, contender.upgrading);
    }

    /// The outcome of an upgrade: held or waiting.
    fn upgrade_outcome(&self, number: GrantNumber, grant: &GrantId) -> Outcome {
        let contender = self.contender(number);
        if contender.upgrading {
            return Outcome::Queued(Queued { number, session: contender.session, attempt: contender.upgrade_attempt });
        }
        hold_outcome(contender, grant)
    }

    fn held_grant(&self, grant: &GrantId) -> Result<GrantNumber, Rejection> {
        let number = self.live_grant(grant)?;
        if self.contender(number).granted_at.is_some() { Ok(number) } else { Err(Rejection::NotHeld) }
    }

    fn refuse_multi_lock(&self, number: GrantNumber) -> Result<(), Rejection> {
        if self.contender(number).is_multi_lock() {
            return Err(Rejection::Unsupported { what: "another mode for a grant of several locks".to_owned() });
        }
        Ok(())
    }

    /// Elections have no shared mode: a second leader could join a shared one.
    fn refuse_election(&self, lock: &LockName) -> Result<(), Rejection> {
        if self.state.is_election(lock) == Some(true) { Err(Rejection::OtherUse { election: true }) } else { Ok(()) }
    }

    /// Refuses while the lock has other holders. An exclusive holder has others if an administrator lowered the limit.
    fn refuse_other_holders(&self, lock: &LockName, number: GrantNumber) -> Result<(), Rejection> {
        let Some(queue) = self.state.queue_of(lock) else { return Ok(()) };
        let Some(other) = queue.holders.iter().find(|holder| **holder != number) else { return Ok(()) };
        let holder = self.state.holder_facts(self.contender_in(lock, *other));
        Err(Rejection::LockHeld { holder, ahead: queue.holders.len() as u64 - 1 })
    }

    fn refuse_semaphore(&self, lock: &LockName) -> Result<(), Rejection> {
        let limit = self.state.settings(lock).and_then(LockSettings::limit_in_force).filter(|limit| *limit > 1);
        limit.map_or(Ok(()), |limit| Err(Rejection::SharedWithLimit { limit }))
    }

    pub(crate) fn blocked(&self, number: GrantNumber) -> Blocked {
        let contender = self.contender(number);
        Blocked { session: contender.session, owner: contender.owner.text.clone(), lock: contender.lock.clone() }
    }
}

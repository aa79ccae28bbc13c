//! The course of a run: faults alone and in pairs, with quiet in between, and what must hold after each.

use super::{Class, Fault, POLL_EVERY, SUCCESSES_PER_FAULT, Skipped, Undo, World, plan, upgrade};
use crate::{
    history::{FaultSpan, Recorder},
    log_line,
};
use std::{collections::VecDeque, time::Duration};

/// After everything is healed, a client must succeed within this time.
const RECOVERED_WITHIN: Duration = Duration::from_secs(30);
/// A fault lasts up to this many times its length until there are enough successes.
const PATIENCE: u64 = 4;
/// A node that has exited is restarted after this time, as by a supervisor.
const RESTART_AFTER: Duration = Duration::from_secs(1);

/// How long a fault lasts, and how long the quiet between two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rhythm {
    pub(crate) fault: Duration,
    pub(crate) quiet: Duration,
}

/// A fault that is in effect.
struct Active {
    fault: Fault,
    detail: String,
    start: u64,
    undo: Undo,
}

impl Active {
    /// Whether leases cannot be judged since its start: their guarantee requires a correct clock rate of the leader.
    fn bends_time(&self, recorder: &Recorder) -> bool {
        let Undo::Clock(skewed) = &self.undo else { return false };
        self.fault.changes_rate() && recorder.led_since(&skewed.nodes, self.start)
    }
}

impl World {
    /// Alternates faults and quiet for `length`: first each fault alone, with more time if necessary, then also pairs.
    pub(crate) async fn inject_mixed(&mut self, faults: &[Fault], length: Duration, rhythm: Rhythm) {
        let (start, length) = (self.recorder.now(), micros(length));
        let mut pending: VecDeque<Fault> = plan::alone(faults).into();
        self.quiet(rhythm.quiet).await;
        loop {
            let left = (start + length).saturating_sub(self.recorder.now());
            pending.retain(|fault| !self.not_covered.contains_key(fault.name()));
            let overtime = self.recorder.now() > start + 2 * length;
            if faults.is_empty() || (left < micros(rhythm.fault) && (pending.is_empty() || overtime)) {
                break self.quiet(Duration::from_micros(left)).await;
            }
            let next = pending.pop_front();
            if next.is_some_and(|fault| !fault.changes_program()) && faults.iter().any(|fault| fault.changes_members()) {
                upgrade::finish(self).await;
            }
            match next {
                // A fault that was not possible now is tried again later; one that must come first, at once.
                Some(fault) => {
                    if !self.round(&[fault], rhythm).await && !self.not_covered.contains_key(fault.name()) {
                        if fault.changes_program() { pending.push_front(fault) } else { pending.push_back(fault) }
                    }
                }
                None => {
                    let possible = |fault: &&Fault| self.upgrade.is_some() || !fault.changes_program();
                    let possible: Vec<Fault> = faults.iter().filter(possible).copied().collect();
                    let chosen = plan::choose(&possible, &self.not_covered, &mut self.random);
                    if chosen.is_empty() {
                        break self.quiet(Duration::from_micros(left)).await;
                    }
                    self.round(&chosen, rhythm).await;
                }
            }
        }
        upgrade::finish(self).await;
    }

    /// Injects faults together, and heals them. Returns whether any took effect.
    pub(super) async fn round(&mut self, chosen: &[Fault], rhythm: Rhythm) -> bool {
        let (mut chosen, mut active) = (chosen.to_vec(), Vec::new());
        // An operator begins while nothing is wrong, and something goes wrong meanwhile.
        chosen.sort_by_key(|fault| fault.class() != Class::Operator);
        for fault in &chosen {
            let start = self.recorder.now();
            match self.inject(*fault).await {
                Ok((detail, undo)) => {
                    log_line(&format!("{:7.1} s  {}: {detail}", seconds(start), fault.name()));
                    active.push(Active { fault: *fault, detail, start, undo });
                }
                Err(Skipped::NotHere(why)) => {
                    log_line(&format!("not covered here: {}: {why}", fault.name()));
                    self.not_covered.insert(fault.name(), why);
                }
                Err(Skipped::NotNow(why)) => log_line(&format!("{:7.1} s  {} left out: {why}", seconds(start), fault.name())),
            }
        }
        self.hold(rhythm.fault, &active).await;
        let (healed_any, mut took_effect) = (!active.is_empty(), false);
        active.reverse();
        // After it restores files, it waits until their node is ready: that needs an otherwise healthy cluster. So does an
        // operator, who ends last.
        let is_operator = |undo: &Undo| matches!(undo, Undo::Members(_) | Undo::Roll(_) | Undo::Rotation(_));
        active.sort_by_key(|one| (is_operator(&one.undo), matches!(one.undo, Undo::Disk(_))));
        for one in active {
            let bends_time = one.bends_time(&self.recorder);
            let effect = self.heal(one.undo).await;
            let end = self.recorder.now();
            took_effect |= effect.is_ok();
            let text = match &effect {
                Ok(what) => format!("healed ({what})"),
                Err(why) => format!("healed; it had no effect: {why}"),
            };
            log_line(&format!("{:7.1} s  {}: {text}", seconds(end), one.fault.name()));
            self.recorder.fault(FaultSpan {
                fault: one.fault.name(),
                detail: one.detail,
                start: one.start,
                end,
                bends_time,
                effect,
            });
        }
        if healed_any {
            self.recovered().await;
        }
        self.quiet(rhythm.quiet).await;
        took_effect
    }

    /// Keeps faults in effect, for longer if clients have had too few successes: on a busy machine everything takes
    /// longer.
    async fn hold(&mut self, length: Duration, active: &[Active]) {
        let start = self.recorder.now();
        let alone = active.len() == 1 && active[0].fault.leaves_majority();
        let until = start + micros(length);
        let at_most = if alone { start + PATIENCE * micros(length) } else { until };
        let enough = |world: &World| world.recorder.successes_since(start) >= SUCCESSES_PER_FAULT;
        while self.recorder.now() < until || (self.recorder.now() < at_most && !enough(self)) {
            tokio::time::sleep(POLL_EVERY).await;
            for id in self.nodes() {
                if self.cluster.node(id).has_ended() {
                    let explained = active.iter().any(|one| one.fault.may_end_nodes());
                    let log = self.cluster.node(id).last_line();
                    if explained {
                        log_line(&format!("          node {id} has ended: {log}"));
                    } else {
                        self.complaints.push(format!("node {id} has exited on its own: {log}"));
                    }
                }
            }
        }
    }

    /// Waits without faults: no node may exit.
    pub(super) async fn quiet(&mut self, length: Duration) {
        let until = self.recorder.now() + micros(length);
        while self.recorder.now() < until {
            tokio::time::sleep(POLL_EVERY.min(length)).await;
            for id in self.nodes() {
                if self.cluster.node(id).has_ended() {
                    let log = self.cluster.node(id).last_line();
                    self.complaints.push(format!("node {id} has exited on its own without a fault: {log}"));
                    tokio::time::sleep(RESTART_AFTER).await;
                    self.restart(&[id]).await;
                }
            }
        }
    }

    /// Waits until everything runs again and a client succeeds.
    async fn recovered(&mut self) {
        let healed = self.recorder.now();
        let all = self.nodes();
        self.restart(&all).await;
        while self.recorder.successes_since(healed) == 0 {
            if self.recorder.now() - healed > micros(RECOVERED_WITHIN) {
                self.complaints.push(format!("no client succeeded within {RECOVERED_WITHIN:?} after everything was healed"));
                return;
            }
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
}

fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

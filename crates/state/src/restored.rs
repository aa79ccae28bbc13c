//! The state of a backup, and how a new cluster begins with it. Both are pure functions of a state.
//!
//! **A backup has no capability:** `for_backup` ends all sessions and grants, and forgets all ids, keys and join tokens. Only
//! hashes of access tokens stay. The end of the sessions is a change, and takes the next revision: a lock that was held then
//! has an entry in its history that ends there.
//!
//! **A restored state never repeats a revision:** `restored` sets one that exceeds every revision of the old cluster. So each
//! new token exceeds each old one, although the counters, versions and `czxid`s of all nodes stay as they were.
//!
//! `apply` uses neither of them. They may walk the whole state.

use crate::{
    State,
    access::AccessData,
    audit::{ActOrigin, ActRecord, GENESIS},
    budget::Budget,
    change::Change,
    check::ensure,
    membership::Membership,
    pending::PendingWork,
    tombstones::Tombstones,
    weighed::Weighed,
};
use fairhold_access::Principal;
use fairhold_types::{
    ClusterId, EndReason, GrantNumber, Revision, cluster_version::AUDIT_SINCE, limits::AUDIT_BYTES_MAX, time::WallMillis,
};
use std::sync::Arc;

/// What the history says about grants that ended because their cluster was restored.
const ENDED_BY: &str = "backup";
/// The reason that goes with it.
const REASON: &str = "held when the backup was made";
/// The verb of a restore in the audit.
const RESTORE_VERB: &str = "cluster.restore";

/// What a restored state gets anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCluster {
    /// The id of the new cluster.
    pub cluster: ClusterId,
    /// The revision at which it begins. It must exceed that of the backup.
    pub revision: Revision,
    /// When it was restored.
    pub at: WallMillis,
    /// Whether it has no access token.
    pub revoke_tokens: bool,
}

impl State {
    /// How many grants are held or wait.
    #[must_use]
    pub fn live_grants(&self) -> usize {
        self.tree.grants()
    }

    /// The bytes of all values.
    #[must_use]
    pub fn value_bytes(&self) -> u64 {
        self.tree.value_bytes()
    }

    /// A copy for a backup, at the next revision: without sessions, ephemeral nodes, grants, remembered ids and keys, join
    /// tokens, pending work, and facts about the nodes of this cluster.
    #[must_use]
    pub fn for_backup(&self, at: WallMillis) -> State {
        let mut state = self.clone();
        let revision = self.revision.next();
        let mut change = Change {
            state: &mut state,
            revision,
            at,
            principal: None,
            tenant: None,
            events: Vec::new(),
            removed: 0,
            created: 0,
            broken: None,
            steps: 0,
            counted: 0,
        };
        for grant in self.tree.grant_numbers_from(GrantNumber(0)) {
            change.end_for_backup(grant);
        }
        for path in self.index.ephemerals.values().flatten() {
            change.state.tree.remove(path, revision);
        }
        state.revision = revision;
        state.forget_capabilities();
        state.rebuild_caches();
        state
    }

    /// Forgets everything that can be used, or that is about the nodes of this cluster.
    fn forget_capabilities(&mut self) {
        self.sessions = Weighed::default();
        self.tombstones = Tombstones::default();
        self.pending = PendingWork::default();
        self.budget = Budget::default();
        self.membership = Arc::new(Membership::of_new_cluster(self.membership.timing()));
        let mut access = AccessData::clone(&self.access);
        access.forget_sessions();
        self.access = Arc::new(access);
    }

    /// The state with which a new cluster begins. It is the state of a backup, so nobody holds anything in it. What a forged
    /// file says about the nodes is forgotten too.
    #[must_use]
    pub fn restored(mut self, new: &NewCluster) -> State {
        let is_later = new.revision > self.revision;
        assert!(is_later, "a state at revision {} was restored at revision {}", self.revision, new.revision);
        self.forget_capabilities();
        let before = self.revision;
        self.revision = new.revision;
        let old = self.cluster.replace(new.cluster);
        let revoked = if new.revoke_tokens { self.revoke_all_tokens() } else { 0 };
        if self.version >= AUDIT_SINCE {
            let old = old.map_or_else(|| "none".to_owned(), |old| old.to_string());
            let detail = format!("cluster={old} revision={before} revoked_tokens={revoked}");
            self.note_restore(new, detail);
        }
        self
    }

    /// Removes all access tokens, and returns how many.
    fn revoke_all_tokens(&mut self) -> usize {
        let mut access = AccessData::clone(&self.access);
        let revoked = access.forget_tokens(self.revision);
        self.access = Arc::new(access);
        revoked
    }

    /// The chain of the audit goes on with an entry about the restore.
    fn note_restore(&mut self, new: &NewCluster, detail: String) {
        let origin = ActOrigin { principal: Principal::file_admin(), address: String::new(), request: String::new() };
        let record = ActRecord {
            revision: self.revision,
            at: new.at,
            origin,
            verb: RESTORE_VERB.to_owned(),
            on: new.cluster.to_string(),
            detail,
            reason: String::new(),
            result: "ok".to_owned(),
            hash: GENESIS,
        };
        Arc::make_mut(&mut self.audit).append(record, AUDIT_BYTES_MAX);
    }

    /// Checks a state from a backup: its invariants, and that nothing in it is a capability. The error says what is wrong.
    pub fn check_for_backup(&self) -> Result<(), String> {
        for (what, count) in [
            ("sessions", self.sessions.len()),
            ("grants", self.tree.grants()),
            ("remembered ids", self.tombstones.table.len()),
            ("pieces of pending work", self.pending.work.len()),
            ("join tokens", self.membership.tokens().count()),
        ] {
            ensure(count == 0, || format!("it has {count} {what}, and a backup has none"))?;
        }
        self.check()
    }
}

impl Change<'_> {
    /// Ends a grant as if an administrator had ended it. A cooling grant has ended already.
    fn end_for_backup(&mut self, number: GrantNumber) {
        let (first, others) = self.remove_contenders(number);
        for contender in std::iter::once(&*first).chain(&others).filter(|contender| !contender.cooling) {
            self.record_ended(contender, EndReason::Broken);
            if contender.granted_at.is_some() {
                let lock = contender.lock.clone();
                self.record_who_ended(&lock, number, ENDED_BY, REASON);
            }
        }
        // Nobody learns of it.
        self.events.clear();
    }
}

//! The holders of one lock by token and by owner, so that fences and reentrant acquires do not visit all of them.
//!
//! A lock with few holders has no index: a scan is cheaper than maintaining one.

use crate::record::Contender;
use fairhold_types::{FencingToken, GrantNumber, SessionNumber};
use imbl::{OrdMap, OrdSet};
use std::{cmp::Reverse, sync::Arc};

/// A lock with at most this many holders has no index.
pub(crate) const HOLDERS_SCANNED_MAX: usize = 16;

/// The session of a holder, and its owner if the caller named one.
type Owner = (SessionNumber, Option<Arc<str>>);

/// The holders of one lock, except cooling ones: their tokens are no longer valid, and no hold can be added to them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HolderIndex {
    /// The grants that hold with each token. One command grants all holders of a token, so these are at most some
    /// hundreds.
    tokens: OrdSet<(FencingToken, GrantNumber)>,
    /// The grants of each owner, the one with the most permits first.
    owners: OrdMap<Owner, OrdSet<(Reverse<u32>, GrantNumber)>>,
}

impl HolderIndex {
    pub(crate) fn add(&mut self, holder: &Contender) {
        let Some(token) = holder.token() else { return };
        self.tokens.insert((token, holder.number));
        self.owners.entry(owner_of(holder)).or_default().insert((Reverse(holder.permits), holder.number));
    }

    pub(crate) fn remove(&mut self, holder: &Contender) {
        // A cooling holder no longer has a token; its token was the revision of its grant.
        let Some(revision) = holder.granted_at else { return };
        self.tokens.remove(&(FencingToken(revision.0), holder.number));
        let owner = owner_of(holder);
        if let Some(grants) = self.owners.get_mut(&owner) {
            grants.remove(&(Reverse(holder.permits), holder.number));
            if grants.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }

    /// The grants that hold with this token.
    pub(crate) fn with_token(&self, token: FencingToken) -> impl Iterator<Item = GrantNumber> + '_ {
        let range = (token, GrantNumber(0))..=(token, GrantNumber(u64::MAX));
        self.tokens.range(range).map(|(_, number)| *number)
    }

    /// All holders, the newest token first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = GrantNumber> + '_ {
        self.tokens.iter().rev().map(|(_, number)| *number)
    }

    /// The owner's grant with the most permits; among equals, the oldest.
    pub(crate) fn grant_of(&self, session: SessionNumber, owner: Option<&str>) -> Option<GrantNumber> {
        let grants = self.owners.get(&(session, owner.map(Arc::from)))?;
        grants.get_min().map(|(_, number)| *number)
    }
}

fn owner_of(holder: &Contender) -> Owner {
    (holder.session, holder.owner.given.then(|| Arc::from(holder.owner.text.as_str())))
}

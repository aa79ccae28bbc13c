//! A watch shows its user no event of a revision at which the user could not see it, unless the user could see it again
//! when the event was sent.

use super::invariant::Invariant;
use crate::{
    access_user::{AccessUser, UserRight},
    facts::{Applied, Fact},
};
use fairhold_types::Revision;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct WatchersRights {
    access: Option<Revision>,
    /// Whether each user may watch, from each revision of the access data on.
    may_watch: BTreeMap<AccessUser, BTreeMap<Revision, bool>>,
}

impl Invariant for WatchersRights {
    fn name(&self) -> &'static str {
        "watchers see only what they may"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        let access = applied.state.access();
        if !applied.first || self.access == Some(access.revision()) {
            return Ok(());
        }
        self.access = Some(access.revision());
        for user in AccessUser::ALL {
            let may = user.may(access, UserRight::Watch);
            self.may_watch.entry(user).or_default().insert(access.revision(), may);
        }
        Ok(())
    }

    fn observe(&mut self, fact: &Fact) -> Result<(), String> {
        let Fact::Shown { user, revision, until } = fact else { return Ok(()) };
        let Some(known) = self.may_watch.get(user) else { return Ok(()) };
        let since = known.range(..=*revision).next_back().map_or(Revision(0), |(since, _)| *since);
        if known.range(since..=(*until).max(since)).any(|(_, may)| *may) {
            return Ok(());
        }
        Err(format!(
            "a watch of {user:?} showed revision {revision}, but its right was lost at revision {since} and not given back"
        ))
    }
}

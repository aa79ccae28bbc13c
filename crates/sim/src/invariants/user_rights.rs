//! While rights are enforced, users change only what they may by the access data of that revision. So nothing that was
//! decided before a right was lost has an effect after that, and nothing that was not decided has one.

use super::invariant::Invariant;
use crate::{
    access_user::{AccessUser, UserRight},
    facts::Applied,
};
use fairhold_state::command::Event;

pub(crate) struct UserRights;

/// What a user did, and the right that it needed.
fn act(event: &Event) -> Option<(AccessUser, UserRight)> {
    match event {
        Event::NodeCreated { path } | Event::NodeChanged { path, .. } | Event::NodeDeleted { path, .. } => {
            AccessUser::writer_of(path).map(|user| (user, UserRight::Write))
        }
        // A place in the queue is kept like a grant: only the request needs the right.
        Event::Queued { lock, .. } => AccessUser::owner_of(lock).map(|user| (user, UserRight::Acquire)),
        Event::SessionOpened { .. }
        | Event::SessionRetimed { .. }
        | Event::SessionClosed { .. }
        | Event::SessionExpired { .. }
        | Event::Attached { .. }
        | Event::Granted { .. }
        | Event::Ended { .. }
        | Event::Cooling { .. }
        | Event::Cooled { .. }
        | Event::Broken { .. }
        | Event::LockForgotten { .. }
        | Event::LockSet { .. }
        | Event::Revoked { .. }
        | Event::Holds { .. }
        | Event::ChildrenChanged { .. }
        | Event::Downgraded { .. }
        | Event::Upgrading { .. }
        | Event::UpgradeEnded { .. }
        | Event::Proclaimed { .. }
        | Event::Vacated { .. }
        | Event::Cluster(_) => None,
    }
}

impl Invariant for UserRights {
    fn name(&self) -> &'static str {
        "users change only what they may"
    }

    fn applied(&mut self, applied: &Applied<'_>) -> Result<(), String> {
        let access = applied.state.access();
        for (user, right) in applied.events.iter().filter_map(act) {
            if !user.may(access, right) {
                let (node, revision, principal) = (applied.node, applied.revision, user.principal());
                let at = access.revision();
                return Err(format!(
                    "node {node} at revision {revision}: {principal} has no right to {right:?} by the data of {at}: {:?}",
                    applied.events
                ));
            }
        }
        Ok(())
    }
}

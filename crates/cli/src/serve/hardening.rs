//! Protects the memory of this process, which has the ids of all sessions and the cluster's keys, from other processes.

use rustix::process::{DumpableBehavior, Resource, Rlimit, geteuid, getrlimit, set_dumpable_behavior, setrlimit};

/// Disables core dumps, and prevents other processes of the same user from reading the memory. Warns if the node runs
/// as root, unless this is a trial on one machine (`fairhold dev`).
pub(super) fn harden(is_trial: bool) {
    let none = Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum };
    if let Err(error) = setrlimit(Resource::Core, none) {
        tracing::warn!(%error, "cannot disable core dumps of this process: a core dump would contain all its secrets");
    }
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "other processes of the same user may be able to read the memory of this process");
    }
    if geteuid().is_root() && !is_trial {
        tracing::warn!("this node runs as root, which it does not need: run it as a dedicated user");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::dumpable_behavior;

    #[test]
    fn a_node_writes_no_core_file_and_its_memory_is_private() {
        harden(true);
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }
}

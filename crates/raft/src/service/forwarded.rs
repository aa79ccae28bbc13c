//! Which commands another node may pass on to the leader.

use fairhold_state::command::{Command, Rejection};
use fairhold_types::{
    NodeId,
    planted::{self, Bug},
};

/// Why the node `from` may not pass a command on, where it may not: the leader's verdicts are its own, each node speaks for itself,
/// and the rest keeps to the limits that clients are held to.
pub(crate) fn refusal(from: NodeId, command: &Command) -> Option<Rejection> {
    if command.is_the_leaders_own() && !planted::has(Bug::ExpiresByOldLeader) {
        return Some(Rejection::Unsupported { what: "a verdict of the leader from a node that does not lead".to_owned() });
    }
    if let Command::NoteCapacity { node, .. } = command
        && *node != from
    {
        return Some(Rejection::Unsupported { what: format!("the capacity of node {node}, told by node {from},") });
    }
    command.validate().err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_types::{LockName, Revision, time::WallMillis};

    #[test]
    fn verdicts_and_what_clients_may_not_ask_are_not_passed_on() {
        let order = |name: &str| {
            let (lock, reason) = (LockName::parse(name).unwrap(), String::new());
            let key = fairhold_state::command::WriteKey { key: fairhold_types::GrantId::from_ulid(1), fingerprint: [0; 16] };
            Command::Break(fairhold_state::command::Break { key, lock, by: "root".to_owned(), reason, at: WallMillis(0) })
        };
        assert_eq!(refusal(2, &order("printer")), None);
        assert!(refusal(2, &order("2-lock-0000000000")).unwrap().to_string().contains("a contender's name"));
        let verdict = Command::Forget { through: Revision(7) };
        assert!(refusal(2, &verdict).unwrap().to_string().contains("a verdict of the leader"));
        let capacity = |bytes| Command::NoteCapacity { node: 2, bytes };
        assert_eq!(refusal(2, &capacity(1_000_000)), None);
        assert!(refusal(3, &capacity(1_000_000)).unwrap().to_string().contains("the capacity of node 2, told by node 3"));
        assert!(refusal(2, &capacity(0)).unwrap().to_string().contains("without room"));
    }
}

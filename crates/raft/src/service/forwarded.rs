//! Which commands another node may pass on to the leader.

use fairhold_state::command::{Command, Rejection};
use fairhold_types::planted::{self, Bug};

/// Why another node may not pass a command on, where it may not: the leader's verdicts are its own, and the rest keeps to the
/// limits that clients are held to.
pub(crate) fn refusal(command: &Command) -> Option<Rejection> {
    if command.is_the_leaders_own() && !planted::has(Bug::ExpiresByOldLeader) {
        return Some(Rejection::Unsupported { what: "a verdict of the leader from a node that does not lead".to_owned() });
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
        assert_eq!(refusal(&order("printer")), None);
        assert!(refusal(&order("2-lock-0000000000")).unwrap().to_string().contains("a contender's name"));
        let verdict = Command::Forget { through: Revision(7) };
        assert!(refusal(&verdict).unwrap().to_string().contains("a verdict of the leader"));
    }
}

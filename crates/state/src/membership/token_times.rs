//! The times of a join token are the leader's, whichever node receives the request.

use crate::command::{Command, CreateJoinToken};
use fairhold_types::time::WallMillis;

impl Command {
    /// Whether it creates a join token.
    #[must_use]
    pub fn creates_join_token(&self) -> bool {
        let command = self.unguarded();
        let act = if let Command::Attributed(attributed) = command { attributed.command() } else { command };
        matches!(act, Command::CreateJoinToken(_))
    }

    /// If it creates a join token: the same request as received at `now`, with the same lifetime from then on. Other
    /// commands stay as they are.
    #[must_use]
    pub fn with_token_times(self, now: WallMillis) -> Command {
        if let Command::CreateJoinToken(request) = self {
            Command::CreateJoinToken(received_at(request, now))
        } else if matches!(self, Command::Attributed(_)) {
            self.map_attributed(|command| command.with_token_times(now))
        } else {
            self.map_guarded(|command| command.with_token_times(now))
        }
    }
}

fn received_at(request: CreateJoinToken, now: WallMillis) -> CreateJoinToken {
    let lifetime = |expires_at: WallMillis| expires_at.0.saturating_sub(request.at.0);
    let expires_at = request.expires_at.map(|expires_at| WallMillis(now.0.saturating_add(lifetime(expires_at))));
    CreateJoinToken { expires_at, at: now, ..request }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{access::AccessGuard, audit::ActOrigin};
    use fairhold_access::PrincipalKey;
    use fairhold_types::{JoinTokenNumber, MemberRole, Revision};

    fn token(expires_at: Option<u64>, at: u64) -> Command {
        Command::CreateJoinToken(CreateJoinToken {
            key: None,
            secret_hash: [7; 32],
            role: MemberRole::Voter,
            replaces: None,
            standing: expires_at.is_none(),
            up_to: None,
            expires_at: expires_at.map(WallMillis),
            by: "curl@10.0.0.7".to_owned(),
            at: WallMillis(at),
        })
    }

    #[test]
    fn a_join_token_lives_as_long_as_requested_by_the_clock_of_the_leader() {
        let now = WallMillis(50_000);
        for (received, taken) in [
            (token(Some(4_000), 1_000), token(Some(53_000), 50_000)),
            (token(Some(90_003_000), 90_000_000), token(Some(53_000), 50_000)),
            (token(None, 1_000), token(None, 50_000)),
            (token(Some(1_000), 2_000), token(Some(50_000), 50_000)),
        ] {
            assert!(received.creates_join_token());
            assert_eq!(received.with_token_times(now), taken);
        }
        let other = Command::RevokeJoinToken { number: JoinTokenNumber(1), at: WallMillis(1) };
        assert!(!other.creates_join_token());
        assert_eq!(other.clone().with_token_times(now), other);
    }

    #[test]
    fn the_origin_and_the_guard_of_a_request_for_a_join_token_stay() {
        let guard = AccessGuard { access: Revision(3), principal: PrincipalKey(8) };
        let wrapped = |command: Command| command.attributed(ActOrigin::of_node()).guarded(guard);
        let received = wrapped(token(Some(4_000), 1_000));
        assert!(received.creates_join_token());
        assert_eq!(received.with_token_times(WallMillis(50_000)), wrapped(token(Some(53_000), 50_000)));
    }
}

//! Random commands about members: most name a join token, a node or a data directory that exists.

use super::Commands;
use fairhold_state::{
    State,
    command::{AdmitNode, Command, CreateJoinToken, RequestRemoval, SetMember, WriteKey},
    membership::JoinToken,
};
use fairhold_types::{Incarnation, JoinTokenNumber, MemberRole, NodeId, Timing, time::WallMillis};
use rand::RngExt;

/// A voter that no command removes.
const STAYS: NodeId = NodeId::MAX;
/// The members that the leader knows besides those that joined.
const FOUNDERS: NodeId = 3;

impl Commands {
    pub(super) fn change_members(&mut self, state: &State) -> Command {
        let at = self.at();
        match self.rng.random_range(0..100) {
            0..22 => self.create_join_token(state),
            22..24 => Command::RevokeJoinToken { number: self.token_number(state), at },
            24..57 if self.creates_many_tokens() => self.create_join_token(state),
            24..57 => self.admit(state),
            57..62 => Command::SettleJoin { node: self.joining_node(state), at },
            62..72 => {
                let (node, by) = (self.node(state), format!("administrator {}", self.made % 3));
                let other_voters = self.other_voters(state, node);
                Command::RequestRemoval(RequestRemoval { node, ids_through: self.through(state), by, at, other_voters })
            }
            72..82 => {
                let incarnation = if self.one_in(2) { Some(self.directory()) } else { None };
                Command::RecordRemoval { node: self.removable_node(state), incarnation, ids_through: self.through(state), at }
            }
            82..94 => self.set_member(state),
            _ => {
                let timing = Timing::ALL[self.rng.random_range(0..4)];
                Command::SetTiming { key: self.change_key(state), timing, by: String::new(), at }
            }
        }
    }

    /// Whether this is a time in which join tokens are created and few are used, so that there are too many.
    fn creates_many_tokens(&mut self) -> bool {
        self.made % 1_600 >= 1_100 && !self.one_in(12)
    }

    /// The highest id among the members, by the leader's word.
    fn through(&mut self, state: &State) -> NodeId {
        let given = state.membership().ids_through();
        if self.one_in(15) { given + self.rng.random_range(0..3) } else { FOUNDERS }
    }

    /// A data directory; there are few, so that most show several join tokens.
    fn directory(&mut self) -> Incarnation {
        Incarnation(self.rng.random_range(1..60))
    }

    fn secret_hash(&mut self) -> [u8; 32] {
        if self.one_in(20) { [9; 32] } else { [7; 32] }
    }

    /// A key of a request that created a join token, in one case of five.
    fn key_of_token(&mut self, state: &State) -> Option<WriteKey> {
        let keys: Vec<WriteKey> = state.membership().tokens().filter_map(|(_, token)| token.key).collect();
        let mut key = self.pick(&keys).filter(|_| self.one_in(5))?;
        if self.one_in(3) {
            key.fingerprint = [6; 16];
        }
        Some(key)
    }

    fn create_join_token(&mut self, state: &State) -> Command {
        let (key, standing) = (self.key_of_token(state).or_else(|| self.change_key(state)), self.one_in(5));
        let lives = if self.one_in(4) { self.rng.random_range(0..1_000) } else { 100_000 };
        let up_to = (standing && self.one_in(2)).then_some(5);
        let replaces = if !standing && self.one_in(2) { Some(self.node(state)) } else { None };
        Command::CreateJoinToken(CreateJoinToken {
            key,
            secret_hash: [7; 32],
            role: if self.one_in(4) { MemberRole::Learner } else { MemberRole::Voter },
            replaces,
            standing,
            up_to,
            expires_at: (!standing).then(|| WallMillis(self.at().0 + lives)),
            by: format!("administrator {}", self.made % 3),
            at: self.at(),
        })
    }

    fn token_number(&mut self, state: &State) -> JoinTokenNumber {
        let known: Vec<JoinTokenNumber> = state.membership().tokens().map(|(number, _)| number).collect();
        let unknown = JoinTokenNumber(self.rng.random_range(0..200));
        if self.one_in(10) { unknown } else { self.pick(&known).unwrap_or(unknown) }
    }

    fn admit(&mut self, state: &State) -> Command {
        let at = self.at();
        let late = |token: &JoinToken| token.used_by.is_some() && token.is_expired(at);
        let used: Vec<JoinTokenNumber> =
            state.membership().tokens().filter(|(_, token)| late(token)).map(|(number, _)| number).collect();
        let number = self.pick(&used).filter(|_| self.one_in(2)).unwrap_or_else(|| self.token_number(state));
        let token = state.membership().token(number);
        let user = token.and_then(|token| token.used_by).map(|(_, user)| user).filter(|_| self.one_in(3));
        let member = self.node(state);
        let usual = match token {
            Some(token) if token.standing && (token.up_to.is_none() || self.one_in(2)) => Some(member),
            Some(token) => token.replaces,
            None => None,
        };
        let incarnation = user.unwrap_or_else(|| self.directory());
        Command::AdmitNode(AdmitNode {
            token: number,
            secret_hash: self.secret_hash(),
            incarnation,
            url: format!("http://10.0.0.{incarnation}:7171"),
            address: format!("10.0.0.{incarnation}:7271"),
            replaces: if self.one_in(12) { None } else { usual },
            ids_through: self.through(state),
            at,
        })
    }

    /// A founder, or a node that was given an id; sometimes any other number.
    fn node(&mut self, state: &State) -> NodeId {
        let given = state.membership().ids_through().max(FOUNDERS);
        if self.one_in(30) { self.rng.random_range(0..40) } else { self.rng.random_range(1..=given) }
    }

    /// In most cases with a voter that nobody removes. Without a draw, so that the other commands do not depend on it.
    fn other_voters(&self, state: &State, node: NodeId) -> Vec<NodeId> {
        let membership = state.membership();
        let removals = membership.removals().map(|(going, _)| going);
        let going = removals.chain(membership.removed().map(|(gone, _)| gone)).filter(|going| *going != node);
        let stays = (!self.made.is_multiple_of(5)).then_some(STAYS);
        going.take(6).chain(stays).collect()
    }

    fn joining_node(&mut self, state: &State) -> NodeId {
        let joining: Vec<NodeId> = state.membership().joins().map(|(node, _)| node).collect();
        self.pick(&joining).filter(|_| !self.one_in(8)).unwrap_or_else(|| self.node(state))
    }

    /// Usually a node whose removal is pending, or that another one replaces.
    fn removable_node(&mut self, state: &State) -> NodeId {
        let membership = state.membership();
        let requested = membership.removals().map(|(node, _)| node);
        let removable: Vec<NodeId> = requested.chain(membership.joins().filter_map(|(_, join)| join.replaces)).collect();
        self.pick(&removable).filter(|_| !self.one_in(5)).unwrap_or_else(|| self.joining_node(state))
    }

    fn set_member(&mut self, state: &State) -> Command {
        let zone = ["", "a", "b"][self.rng.random_range(0..3)].to_owned();
        Command::SetMember(SetMember {
            key: self.change_key(state),
            node: self.node(state),
            priority: if self.one_in(2) { Some([0, 50, 100][self.rng.random_range(0..3)]) } else { None },
            zone: if self.one_in(2) { Some(zone) } else { None },
            address_set: self.one_in(3),
            by: String::new(),
            at: self.at(),
        })
    }
}

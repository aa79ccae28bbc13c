//! The leader admits a node that joins, or says why not.

use super::*;
use crate::{
    base::join_token::JoinSecret,
    leadership::reconciler::plan::{PendingJoin, Phase, Seen},
};
use fairhold_state::{State, command::CreateJoinToken};
use fairhold_types::{Incarnation, JoinTokenNumber, SupportedVersions};

const AT: WallMillis = WallMillis(1_000_000);
const UP: Seen = Seen { healthy: true, lag: Some(0), caught_up: true };

/// Node 1 leads the voters 1, 2 and 3.
struct Fixture {
    state: State,
    view: View,
    silent: BTreeMap<NodeId, Duration>,
}

fn secret(number: u8) -> JoinSecret {
    JoinSecret::new([number; 32])
}

impl Fixture {
    fn new() -> Fixture {
        let voters = 1..=3;
        let view = View {
            leader: 1,
            voters: voters.clone().collect(),
            learners: [].into(),
            phase: Phase::Uniform,
            seen: voters.map(|voter| (voter, UP)).collect(),
            joins: BTreeMap::new(),
            removals: [].into(),
        };
        Fixture { state: State::new(), view, silent: BTreeMap::new() }
    }

    /// Creates the next join token. Its secret is its number.
    fn token(&mut self, replaces: Option<NodeId>, standing: bool, up_to: Option<u8>) -> JoinTokenNumber {
        let number = self.state.membership().tokens().count() as u64 + 1;
        let command = Command::CreateJoinToken(CreateJoinToken {
            key: None,
            secret_hash: secret(u8::try_from(number).unwrap()).hash(),
            role: MemberRole::Voter,
            replaces,
            standing,
            up_to,
            expires_at: (!standing).then_some(WallMillis(AT.0 + 1)),
            by: "tests".to_owned(),
            at: WallMillis(1),
        });
        self.state.apply(&command).answer.result.unwrap();
        JoinTokenNumber(number)
    }

    fn with_down(mut self, node: NodeId) -> Fixture {
        self.view.seen.insert(node, Seen::default());
        self.silent.insert(node, REPLACE_AFTER * 2);
        self
    }

    /// The state has the join of another node with this token.
    fn admit(&mut self, token: JoinTokenNumber, host: &str, replaces: Option<NodeId>) -> NodeId {
        let JoinRequest { incarnation, url, address, secret, .. } = request(token, host);
        let secret_hash = secret.hash();
        let admit = AdmitNode { token, secret_hash, incarnation, url, address, replaces, ids_through: 3, at: WallMillis(2) };
        let answer = self.state.apply(&Command::AdmitNode(admit)).answer;
        let Ok(Outcome::Admitted { node, role, replaces }) = answer.result else { panic!("{answer:?}") };
        self.view.joins.insert(node, PendingJoin { role, replaces, is_replaced_recorded: false });
        node
    }

    fn replaces(&self, request: &JoinRequest) -> Result<Option<NodeId>, JoinRefusal> {
        self.replaces_at(request, AT)
    }

    fn replaces_at(&self, request: &JoinRequest, at: WallMillis) -> Result<Option<NodeId>, JoinRefusal> {
        let member = |id: NodeId| Member {
            url: format!("http://n{id}:1"),
            address: format!("n{id}:2"),
            incarnation: Incarnation(u128::from(id)),
        };
        let ids = self.view.voters.iter().chain(&self.view.learners);
        let admission = Admission {
            view: &self.view,
            nodes: ids.map(|id| (*id, member(*id))).collect(),
            membership: self.state.membership(),
            silent: self.silent.clone(),
            at,
        };
        admission.token(request).and_then(|token| admission.replaces(token, request))
    }
}

/// The request of a node at this host. Each host has its own data directory.
fn request(token: JoinTokenNumber, host: &str) -> JoinRequest {
    JoinRequest {
        token,
        secret: secret(u8::try_from(token.0).unwrap()),
        cluster: ClusterId(1),
        incarnation: Incarnation(host.bytes().fold(1_000, |sum, byte| sum * 31 + u128::from(byte))),
        url: format!("http://{host}:1"),
        address: format!("{host}:2"),
        version: None,
        supports: SupportedVersions::OWN,
    }
}

fn fault(fault: JoinTokenFault) -> Result<Option<NodeId>, JoinRefusal> {
    Err(JoinRefusal::Token(fault))
}

#[test]
fn a_token_admits_one_node_until_it_expires() {
    let mut fixture = Fixture::new();
    let token = fixture.token(None, false, None);
    let new = request(token, "n4");
    assert_eq!(fixture.replaces(&new), Ok(None));
    assert_eq!(fixture.replaces_at(&new, WallMillis(AT.0 + 1)), fault(JoinTokenFault::Expired));
    assert_eq!(fixture.replaces(&JoinRequest { secret: secret(9), ..new.clone() }), fault(JoinTokenFault::Unknown));
    assert_eq!(fixture.replaces(&JoinRequest { token: JoinTokenNumber(9), ..new.clone() }), fault(JoinTokenFault::Unknown));
    assert_eq!(fixture.admit(token, "n4", None), 4);
    assert_eq!(fixture.replaces_at(&new, WallMillis(AT.0 + 1)), Ok(None), "the same data directory asks again");
    assert_eq!(fixture.replaces(&request(token, "n5")), fault(JoinTokenFault::Used { node: 4 }));
}

#[test]
fn a_token_replaces_only_a_member() {
    let mut fixture = Fixture::new();
    let replaces_two = fixture.token(Some(2), false, None);
    let replaces_nine = fixture.token(Some(9), false, None);
    assert_eq!(fixture.replaces(&request(replaces_two, "n4")), Ok(Some(2)));
    assert_eq!(fixture.replaces(&request(replaces_two, "n2")), Ok(Some(2)), "the new node may have the address of the old one");
    assert_eq!(fixture.replaces(&request(replaces_nine, "n4")), fault(JoinTokenFault::NoReplacement));
}

/// The member was demoted after the token for its successor was created.
#[test]
fn a_node_replaces_only_a_member_with_its_own_role() {
    let mut fixture = Fixture::new();
    let token = fixture.token(Some(3), false, None);
    assert_eq!(fixture.replaces(&request(token, "n4")), Ok(Some(3)));
    fixture.view.voters.remove(&3);
    fixture.view.learners.insert(3);
    let refused = fixture.replaces(&request(token, "n4"));
    let Err(JoinRefusal::Unreplaceable { node: 3, why }) = refused else { panic!("{refused:?}") };
    assert!(why.contains("it is a learner, and the join token is for a voter"), "{why}");
}

#[test]
fn no_two_nodes_share_an_address() {
    let mut fixture = Fixture::new();
    let first = fixture.token(None, false, None);
    let second = fixture.token(None, false, None);
    let taken = |address: &str, node| Err(JoinRefusal::AddressInUse { address: address.to_owned(), node });
    let with_url = JoinRequest { url: "http://n2:1".to_owned(), ..request(first, "n4") };
    assert_eq!(fixture.replaces(&with_url), taken("http://n2:1", 2));
    let with_address = JoinRequest { address: "n3:2".to_owned(), ..request(first, "n4") };
    assert_eq!(fixture.replaces(&with_address), taken("n3:2", 3));
    let in_capitals = JoinRequest { address: "N3:2".to_owned(), ..request(first, "n4") };
    assert_eq!(fixture.replaces(&in_capitals), taken("N3:2", 3));
    let joining = fixture.admit(first, "n4", None);
    let same = JoinRequest { incarnation: Incarnation(7), ..request(second, "n4") };
    assert_eq!(fixture.replaces(&same), taken("http://n4:1", joining));
}

#[test]
fn a_standing_token_replaces_a_member_that_is_silent_for_long_while_all_others_are_healthy() {
    let mut fixture = Fixture::new();
    let token = fixture.token(None, true, None);
    let why = |fixture: &Fixture| match fixture.replaces(&request(token, "n2")) {
        Err(JoinRefusal::Unreplaceable { node: 2, why }) => why,
        other => panic!("{other:?}"),
    };
    assert!(why(&fixture).contains("it has not been silent for 60 seconds"));
    let mut fixture = fixture.with_down(2);
    assert_eq!(fixture.replaces(&request(token, "n2")), Ok(Some(2)));
    assert_eq!(fixture.replaces(&request(token, "n4")), fault(JoinTokenFault::NoReplacement), "no member has its address");
    let replacing = fixture.token(Some(3), false, None);
    let new = fixture.admit(replacing, "n9", Some(3));
    assert_eq!(why(&fixture), format!("node {new} is replacing node 3"));
    let mut fixture = Fixture::new().with_down(2).with_down(3);
    assert_eq!(fixture.token(None, true, None), token);
    assert_eq!(why(&fixture), "node 3 does not answer the leader either");
}

/// What an orchestrator does: it starts the machine again with an empty data directory and the same token.
#[test]
fn a_standing_token_replaces_a_node_that_lost_its_data_directory_during_its_join() {
    let mut fixture = Fixture::new();
    let token = fixture.token(None, true, Some(4));
    let lost = fixture.admit(token, "n4", None);
    fixture.view.learners.insert(lost);
    let again = JoinRequest { incarnation: Incarnation(7), ..request(token, "n4") };
    let refused = fixture.replaces(&again);
    let Err(JoinRefusal::Unreplaceable { node: 4, why }) = refused else { panic!("{refused:?}") };
    assert_eq!(why, "it has not been silent for 60 seconds");
    let fixture = fixture.with_down(lost);
    assert_eq!(fixture.replaces(&again), Ok(Some(4)), "it joins as a voter, although it is a learner until then");

    let mut fixture = Fixture::new().with_down(2);
    let token = fixture.token(None, true, None);
    let lost = fixture.admit(token, "n2", Some(2));
    let again = JoinRequest { incarnation: Incarnation(7), ..request(token, "n2") };
    let refused = fixture.replaces(&again);
    let Err(JoinRefusal::Unreplaceable { node: 2, why }) = refused else { panic!("{refused:?}") };
    let way_out = "give up its join with `fairhold cluster remove 4`";
    assert_eq!(why, format!("node {lost} is replacing node 2: if node {lost} has lost its data directory, {way_out}"));
}

#[test]
fn a_standing_token_adds_voters_up_to_its_number() {
    let mut fixture = Fixture::new();
    let token = fixture.token(None, true, Some(4));
    assert_eq!(fixture.replaces(&request(token, "n4")), Ok(None));
    fixture.admit(token, "n4", None);
    assert_eq!(fixture.replaces(&request(token, "n5")), fault(JoinTokenFault::NoReplacement), "node 4 will be the fourth");
}

#[test]
fn there_are_at_most_seven_voters() {
    let mut fixture = Fixture::new();
    let token = fixture.token(None, false, None);
    let replacing = fixture.token(Some(2), false, None);
    fixture.view.voters = (1..=7).collect();
    assert_eq!(fixture.replaces(&request(token, "n8")), Err(JoinRefusal::TooManyMembers { max: 7 }));
    assert_eq!(fixture.replaces(&request(replacing, "n8")), Ok(Some(2)), "the number stays the same");
}

#[test]
fn addresses_that_no_other_machine_can_reach_are_refused() {
    let new = request(JoinTokenNumber(1), "n4");
    let plain = with_plain_addresses(JoinRequest { url: "http://n4:1/".to_owned(), ..new.clone() }).unwrap();
    assert_eq!(plain.url, "http://n4:1");
    for (url, address) in [("http://0.0.0.0:1", "n4:2"), ("http://n4:1/v1", "n4:2"), ("http://n4:1", "n4"), ("n4:1", "n4:2")] {
        let refused = with_plain_addresses(JoinRequest { url: url.to_owned(), address: address.to_owned(), ..new.clone() });
        assert!(matches!(refused, Err(JoinRefusal::BadRequest(_))), "{url} {address}");
    }
}

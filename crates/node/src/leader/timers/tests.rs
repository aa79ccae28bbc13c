//! Timers that follow a separate state: what is due, how much one command covers, and what follows its answer.

use super::*;
use fairhold_access::{Principal, UserName, token::TokenHash};
use fairhold_state::command::{
    AccessChange, AccessRequester, Acquire, Applied, ChangeAccess, Claimant, Command, IfBusy, Meta, OpenSession, Owner,
    Rejection, Want,
};
use fairhold_types::{ClusterId, FencingToken, GrantId, Mode, SessionId, cluster_version::ACCESS_SINCE, time::WallMillis};
use openraft_rt::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;

type Moment = <TokioRuntime as AsyncRuntime>::Instant;

const AT: WallMillis = WallMillis(1_000);
const SESSION: SessionId = SessionId(7);
const DELAY: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(20);

struct Fixture {
    state: State,
    timers: Timers<Moment>,
    started: Moment,
}

impl Fixture {
    fn new() -> Fixture {
        let state = State::new();
        let started = Moment::now();
        let timers = Timers::load(Leadership::new(1, 1), &state, started);
        let mut fixture = Fixture { state, timers, started };
        let open = OpenSession { key: None, id: SESSION, timeout_ms: 5_000, name: String::new(), meta: Meta::new(), at: AT };
        fixture.apply(Command::OpenSession(open), 0);
        fixture
    }

    fn apply(&mut self, command: Command, second: u64) -> Answer {
        let Applied { answer, events, .. } = self.state.apply(&command);
        let now = self.started + Duration::from_secs(second);
        events.iter().for_each(|event| self.timers.observe(&self.state, event, now));
        answer
    }

    /// The session takes this many locks, each with a lock delay and a `max_hold`.
    fn hold(&mut self, count: u128) {
        for number in 1..=count {
            let wants = vec![Want { lock: LockName::parse(&format!("lock-{number}")).unwrap(), mode: Mode::Exclusive }];
            let acquire = Acquire {
                grant: GrantId::from_ulid(number),
                id_given: true,
                wants,
                claimant: Claimant::Session(SESSION),
                if_busy: IfBusy::Refuse,
                limit: None,
                permits: 1,
                priority: 0,
                owner: Owner { text: String::new(), given: false },
                meta: Meta::new(),
                lock_delay_ms: 10_000,
                reentrant: false,
                max_hold_ms: Some(20_000),
                value: None,
                at: AT,
            };
            assert!(self.apply(Command::Acquire(acquire), 0).result.is_ok());
        }
    }

    fn due(&mut self, at: Duration) -> Vec<Scheduled> {
        self.timers.take_scheduled(&StateFacts::of(&self.state), self.started + at)
    }

    /// Applies commands of one kind until none follows at once. Returns how many objects each of them covered.
    fn run(&mut self, at: Duration, first: Scheduled) -> Vec<usize> {
        let mut covered = Vec::new();
        let mut next = Some(first);
        while let Some(command) = next.take() {
            covered.push(match &command {
                Scheduled::EndCooling(grants) => grants.len(),
                Scheduled::EndHolds(holds) => holds.len(),
                Scheduled::ForgetLocks(locks) => locks.len(),
                Scheduled::ExpireTokens(tokens) => tokens.len(),
                Scheduled::Forget(_) | Scheduled::Sweep(_) | Scheduled::ForgetHistory(_) | Scheduled::Continue => 1,
            });
            let answer = self.apply(command.command(), at.as_secs());
            if self.timers.answered(&command, Some(&answer)) {
                let mut due = self.due(at);
                next = due.iter().position(|other| other.kind() == command.kind()).map(|index| due.remove(index));
                // Commands of other kinds stay due.
                for other in &due {
                    assert!(!self.timers.answered(other, None));
                }
            }
        }
        covered
    }

    fn only_due(&mut self, at: Duration) -> Scheduled {
        let mut due = self.due(at);
        assert_eq!(due.len(), 1, "{due:?}");
        due.remove(0)
    }
}

#[test]
fn many_lock_delays_end_in_consecutive_commands_of_limited_size() {
    let mut fixture = Fixture::new();
    fixture.hold(2_500);
    fixture.apply(Command::ExpireSession { session: SessionNumber(1), at: AT }, 5);
    while fixture.state.has_pending() {
        fixture.apply(Command::ContinuePendingWork { at: AT }, 5);
    }
    let early = Duration::from_secs(5) + DELAY - Duration::from_millis(1);
    assert_eq!(fixture.due(early), [], "the delay is not over");
    let over = Duration::from_secs(5) + DELAY;
    let first = fixture.only_due(over);
    assert!(matches!(&first, Scheduled::EndCooling(grants) if grants.len() == VERDICT_OBJECTS_MAX), "{first:?}");
    assert_eq!(fixture.due(over), [], "one is in flight");
    let covered = fixture.run(over, first);
    assert!(covered.len() > 3 && covered.iter().all(|count| *count <= VERDICT_OBJECTS_MAX), "{covered:?}");
    assert_eq!(fixture.state.cooling().count(), 0);
}

#[test]
fn holds_that_reach_their_max_hold_end_once() {
    let mut fixture = Fixture::new();
    fixture.hold(3);
    let command = fixture.only_due(HOLD);
    assert_eq!(fixture.run(HOLD, command), [3]);
    assert_eq!(fixture.due(HOLD), [], "no hold is due twice");
}

#[test]
fn a_stale_command_ends_nothing_and_the_current_hold_stays_due() {
    let mut fixture = Fixture::new();
    fixture.hold(1);
    let Scheduled::EndHolds(holds) = fixture.only_due(HOLD) else { panic!("the hold is due") };
    let stale = Scheduled::EndHolds(holds.iter().map(|(grant, token)| (*grant, FencingToken(token.0 + 1))).collect());
    let answer = fixture.apply(stale.command(), 20);
    assert_eq!(answer.result, Ok(Outcome::Judged { objects: 1 }), "the command covers it");
    fixture.timers.answered(&stale, Some(&answer));
    assert_eq!(fixture.only_due(HOLD), Scheduled::EndHolds(holds), "the current hold is still due");
}

#[test]
fn a_command_without_an_answer_is_due_again_and_none_follows_a_refused_one_at_once() {
    let mut fixture = Fixture::new();
    fixture.hold(1);
    let first = fixture.only_due(HOLD);
    assert!(!fixture.timers.answered(&first, None));
    let second = fixture.only_due(HOLD);
    assert_eq!(first, second);
    let refused = Answer { result: Err(Rejection::Defect { fingerprint: 1 }), revision: fixture.state.revision() };
    assert!(!fixture.timers.answered(&second, Some(&refused)), "otherwise it would be proposed forever");
}

#[test]
fn pending_work_continues_piece_by_piece() {
    let mut fixture = Fixture::new();
    fixture.hold(2_500);
    fixture.apply(Command::CloseSession { session: SESSION, at: AT }, 1);
    assert!(fixture.state.has_pending());
    let first = fixture.timers.take_continue().unwrap();
    assert_eq!(fixture.timers.take_continue(), None, "one is in flight");
    let now = Duration::from_secs(1);
    assert!(fixture.run(now, first).len() > 1);
    assert!(!fixture.state.has_pending());
}

#[test]
fn tombstones_are_forgotten_after_their_time() {
    let mut fixture = Fixture::new();
    fixture.apply(Command::Release { grant: GrantId::from_ulid(9), session: None, at: AT }, 0);
    assert_eq!(fixture.due(Duration::ZERO), [], "this records the current revision");
    let over = limits::TOMBSTONE_KEPT_FOR + RECORD_EVERY;
    let command = fixture.only_due(over);
    assert_eq!(command, Scheduled::Forget(fixture.state.revision()));
    fixture.run(over, command);
    assert_eq!(fixture.state.remembered_span(), None);
}

#[test]
fn a_hold_that_has_ended_is_not_due() {
    let mut fixture = Fixture::new();
    fixture.hold(1);
    fixture.apply(Command::Release { grant: GrantId::from_ulid(1), session: None, at: AT }, 1);
    assert_eq!(fixture.due(HOLD), []);
}

#[test]
fn a_token_is_removed_a_day_after_it_expired() {
    let mut fixture = Fixture::new();
    fixture.apply(Command::FormClusterAt { cluster: ClusterId(1), version: ACCESS_SINCE }, 0);
    for (number, expires_at) in [(1, Some(AT)), (2, None)] {
        let change =
            AccessChange::CreateToken { hash: TokenHash([number; 32]), user: UserName::parse("ci").unwrap(), expires_at };
        let requester = AccessRequester { principal: Principal::file_admin(), client: String::new() };
        let created = fixture.apply(Command::ChangeAccess(ChangeAccess { key: None, change, requester, at: AT }), 0);
        assert!(created.result.is_ok(), "{created:?}");
    }
    let day = duration::millis(limits::EXPIRED_TOKEN_KEPT_FOR);
    let after = |state: &State, ms: u64| expired_tokens(state, WallMillis(AT.0 + ms));
    assert_eq!(after(&fixture.state, day), []);
    assert_eq!(after(&fixture.state, day + 1), [AccessTokenNumber(1)]);
    // The node's own clock is decades after it.
    let command = fixture.only_due(Duration::ZERO);
    assert_eq!(command, Scheduled::ExpireTokens(vec![AccessTokenNumber(1)]));
    assert_eq!(fixture.run(Duration::ZERO, command), [1]);
    assert_eq!(fixture.due(Duration::ZERO), []);
    assert_eq!(fixture.state.access().token_count(), 1, "the other one never expires");
}

#[test]
fn a_leader_knows_when_it_heard_from_a_session_but_not_when_another_leader_did() {
    let mut fixture = Fixture::new();
    let found = SessionNumber(1);
    let at = |fixture: &Fixture, second| fixture.started + Duration::from_secs(second);
    fixture.timers = Timers::load(Leadership::new(2, 1), &fixture.state, at(&fixture, 10));
    let heard = |fixture: &Fixture, session, second| fixture.timers.heard_ago(session, at(fixture, second));
    assert_eq!(heard(&fixture, found, 12), None, "the last keepalive came to another leader");
    let id = SessionId(8);
    let open = OpenSession { key: None, id, timeout_ms: 5_000, name: String::new(), meta: Meta::new(), at: AT };
    fixture.apply(Command::OpenSession(open), 13);
    let opened = fixture.state.session_number(&id).unwrap();
    assert_eq!(heard(&fixture, opened, 15), Some(Duration::from_secs(2)));
    let now = at(&fixture, 16);
    assert_eq!(fixture.timers.touch(found, now), Touched::Moved(Duration::from_secs(5)));
    assert_eq!(heard(&fixture, found, 16), Some(Duration::ZERO));
    assert_eq!(heard(&fixture, found, 19), Some(Duration::from_secs(3)));
    fixture.timers.paused_for(Duration::from_secs(2));
    assert_eq!(heard(&fixture, found, 19), Some(Duration::from_secs(1)), "the session has as much time left as before the pause");
    assert_eq!(heard(&fixture, SessionNumber(99), 19), None);
    fixture.apply(Command::ExpireSession { session: opened, at: AT }, 19);
    assert_eq!(heard(&fixture, opened, 19), None);
}

//! Verdicts on a machine of our own: what is due, how much goes into one, and what follows its answer.

use super::*;
use fairhold_state::command::{Acquire, Applied, Claimant, Command, IfBusy, Meta, OpenSession, Owner, Rejection, Want};
use fairhold_types::{FencingToken, GrantId, Mode, SessionId, time::WallMillis};
use openraft_rt::AsyncRuntime;
use openraft_rt_tokio::TokioRuntime;

type Moment = <TokioRuntime as AsyncRuntime>::Instant;

const AT: WallMillis = WallMillis(1_000);
const SESSION: SessionId = SessionId(7);
const DELAY: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(20);

struct Stage {
    state: State,
    verdicts: Verdicts<Moment>,
    begun: Moment,
}

impl Stage {
    fn new() -> Stage {
        let (state, begun) = (State::new(), Moment::now());
        let verdicts = Verdicts::load(Leadership::new(1, 1), &state, begun);
        let mut stage = Stage { state, verdicts, begun };
        let (name, meta) = (String::new(), Meta::new());
        stage.apply(Command::OpenSession(OpenSession { key: None, id: SESSION, timeout_ms: 5_000, name, meta, at: AT }), 0);
        stage
    }

    fn apply(&mut self, command: Command, second: u64) -> Answer {
        let Applied { answer, events, .. } = self.state.apply(command);
        let now = self.begun + Duration::from_secs(second);
        events.iter().for_each(|event| self.verdicts.observe(&self.state, event, now));
        answer
    }

    /// So many locks, each held by the session, with a lock delay and a longest time of holding.
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

    fn chores(&mut self, at: Duration) -> Vec<Scheduled> {
        self.verdicts.chores(&Due::of(&self.state), self.begun + at)
    }

    /// Applies all verdicts of one kind until no more follow at once; how many objects each named.
    fn carry_out(&mut self, at: Duration, first: Scheduled) -> Vec<usize> {
        let (mut named, mut next) = (Vec::new(), Some(first));
        while let Some(chore) = next.take() {
            named.push(match &chore {
                Scheduled::EndCooling(grants) => grants.len(),
                Scheduled::EndHolds(holds) => holds.len(),
                Scheduled::ForgetLocks(locks) => locks.len(),
                Scheduled::Forget(_) | Scheduled::Sweep(_) | Scheduled::ForgetHistory(_) | Scheduled::Continue => 1,
            });
            let answer = self.apply(chore.command(), at.as_secs());
            if self.verdicts.done(&chore, Some(&answer)) {
                let mut chores = self.chores(at);
                next = chores.iter().position(|other| other.kind() == chore.kind()).map(|index| chores.remove(index));
                // What else is due was not asked for here.
                for other in &chores {
                    assert!(!self.verdicts.done(other, None));
                }
            }
        }
        named
    }

    fn only(&mut self, at: Duration) -> Scheduled {
        let mut chores = self.chores(at);
        assert_eq!(chores.len(), 1, "{chores:?}");
        chores.remove(0)
    }
}

#[test]
fn many_lock_delays_end_in_verdicts_of_a_thousand_that_follow_one_another() {
    let mut stage = Stage::new();
    stage.hold(2_500);
    stage.apply(Command::ExpireSession { session: SessionNumber(1), at: AT }, 5);
    while stage.state.has_pending() {
        stage.apply(Command::Continue { at: AT }, 5);
    }
    let early = Duration::from_secs(5) + DELAY - Duration::from_millis(1);
    assert_eq!(stage.chores(early), [], "not before the delay is over");
    let over = Duration::from_secs(5) + DELAY;
    let first = stage.only(over);
    assert!(matches!(&first, Scheduled::EndCooling(grants) if grants.len() == VERDICT_OBJECTS_MAX), "{first:?}");
    assert_eq!(stage.chores(over), [], "one is on its way");
    let named = stage.carry_out(over, first);
    assert!(named.len() > 3 && named.iter().all(|count| *count <= VERDICT_OBJECTS_MAX), "{named:?}");
    assert_eq!(stage.state.cooling().count(), 0);
}

#[test]
fn holds_that_are_over_end_and_each_is_judged_once() {
    let mut stage = Stage::new();
    stage.hold(3);
    let verdict = stage.only(HOLD);
    assert_eq!(stage.carry_out(HOLD, verdict), [3]);
    assert_eq!(stage.chores(HOLD), [], "what was judged is not judged again");
}

#[test]
fn a_verdict_that_is_late_is_answered_and_not_reached_again() {
    let mut stage = Stage::new();
    stage.hold(1);
    let Scheduled::EndHolds(holds) = stage.only(HOLD) else { panic!("its time is over") };
    let stale = Scheduled::EndHolds(holds.iter().map(|(grant, token)| (*grant, FencingToken(token.0 + 1))).collect());
    let answer = stage.apply(stale.command(), 20);
    assert_eq!(answer.result, Ok(Outcome::Judged { objects: 1 }), "it was looked at");
    stage.verdicts.done(&stale, Some(&answer));
    assert_eq!(stage.only(HOLD), Scheduled::EndHolds(holds), "the hold that there is goes on to be due");
}

#[test]
fn a_verdict_that_nobody_answered_is_reached_again_and_one_that_was_refused_does_not_follow_at_once() {
    let mut stage = Stage::new();
    stage.hold(1);
    let first = stage.only(HOLD);
    assert!(!stage.verdicts.done(&first, None));
    let second = stage.only(HOLD);
    assert_eq!(first, second);
    let refused = Answer { result: Err(Rejection::Defect { fingerprint: 1 }), revision: stage.state.revision() };
    assert!(!stage.verdicts.done(&second, Some(&refused)), "else it would be proposed for ever");
}

#[test]
fn pieces_of_what_is_pending_follow_one_another() {
    let mut stage = Stage::new();
    stage.hold(2_500);
    stage.apply(Command::CloseSession { session: SESSION, at: AT }, 1);
    assert!(stage.state.has_pending());
    let first = stage.verdicts.next_piece().unwrap();
    assert_eq!(stage.verdicts.next_piece(), None, "one is on its way");
    let now = Duration::from_secs(1);
    assert!(stage.carry_out(now, first).len() > 1);
    assert!(!stage.state.has_pending());
}

#[test]
fn what_is_remembered_is_forgotten_after_its_time() {
    let mut stage = Stage::new();
    stage.apply(Command::Release { grant: GrantId::from_ulid(9), session: None, at: AT }, 0);
    assert_eq!(stage.chores(Duration::ZERO), [], "the revision of now is noted");
    let over = limits::REMEMBERED_FOR + MARK_EVERY;
    let verdict = stage.only(over);
    assert_eq!(verdict, Scheduled::Forget(stage.state.revision()));
    stage.carry_out(over, verdict);
    assert_eq!(stage.state.remembered_span(), None);
}

#[test]
fn a_hold_that_has_ended_is_due_no_more() {
    let mut stage = Stage::new();
    stage.hold(1);
    stage.apply(Command::Release { grant: GrantId::from_ulid(1), session: None, at: AT }, 1);
    assert_eq!(stage.chores(HOLD), []);
}

#[test]
fn so_many_expiries_are_on_their_way_at_a_time_and_no_more() {
    let mut stage = Stage::new();
    for id in 0..EXPIRIES_IN_FLIGHT_MAX as u128 {
        let (id, name, meta) = (SessionId(100 + id), String::new(), Meta::new());
        stage.apply(Command::OpenSession(OpenSession { key: None, id, timeout_ms: 5_000, name, meta, at: AT }), 0);
    }
    let late = stage.begun + Duration::from_secs(6);
    let mut execute = || {
        let judged = stage.verdicts.judge(late);
        stage.verdicts.prove(judged, true);
        stage.verdicts.execute(late)
    };
    let first = execute();
    assert_eq!(first.len(), EXPIRIES_IN_FLIGHT_MAX);
    assert_eq!(execute(), [], "all places are taken");
    stage.verdicts.expiry_done(first[0]);
    let judged = stage.verdicts.judge(late);
    stage.verdicts.prove(judged, true);
    assert_eq!(stage.verdicts.execute(late).len(), 1);
}

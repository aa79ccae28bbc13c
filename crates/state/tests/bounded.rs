//! The most that each command costs, in steps, in a state with 100,000 of everything. The table is in
//! `docs/internals/commands.md`; `UPDATE_GOLDENFILES=1 cargo test -p fairhold-state --test bounded` rewrites it.
//!
//! A new command does not compile until it has a bound here.

#[path = "bounded/access.rs"]
mod access;
#[path = "bounded/crowd.rs"]
mod crowd;
#[path = "bounded/meter.rs"]
mod meter;

use crowd::{AT, Crowd};
use fairhold_state::command::{Command, Outcome, Rejection};
use fairhold_types::limits::{
    COMMAND_STEPS_MAX, DEADLOCK_VISITS_MAX, HISTORY_REMOVED_MAX, LOCKS_PER_ACQUIRE_MAX, NODES_CREATED_MAX, NODES_REMOVED_MAX,
    NODES_SWEPT_MAX, SESSION_TOMBSTONES_MAX, TOMBSTONES_REMOVED_MAX, TRANSACTION_STEPS_MAX, VERDICT_OBJECTS_MAX,
};
use fairhold_types::{FencingToken, LockName};
use std::{collections::BTreeMap, fmt::Write, fs, path::PathBuf};

/// One grant beyond the limit of a piece, with all its locks: each of them ends, or is granted.
const LAST: u64 = 8 * LOCKS_PER_ACQUIRE_MAX as u64;
/// A command that works in pieces stops after this many steps.
const PIECE: u64 = COMMAND_STEPS_MAX + LAST;
/// The other work of a command, however simple.
const BASE: u64 = 8;
/// A search for a deadlock.
const SEARCH: u64 = DEADLOCK_VISITS_MAX as u64 + 1;

/// The name of a command, the most steps that it may take, and their parts.
fn bound(command: &Command) -> (&'static str, u64, &'static str) {
    let nodes = 2 * (NODES_CREATED_MAX + NODES_REMOVED_MAX) as u64;
    match command {
        Command::FormCluster { .. } => ("FormCluster", BASE, "nothing grows"),
        Command::RaiseClusterVersion { .. } => ("RaiseClusterVersion", BASE, "nothing grows"),
        Command::FormClusterAt { .. } => ("FormClusterAt", BASE, "nothing grows"),
        Command::OpenSession(_) => ("OpenSession", BASE, "nothing grows"),
        Command::CloseSession { .. } => ("CloseSession", ENDS, "a piece; the ended ids that the session remembers"),
        Command::ExpireSession { .. } => ("ExpireSession", ENDS, "a piece; the ended ids that the session remembers"),
        Command::EndSession { .. } => ("EndSession", ENDS, "a piece; the ended ids that the session remembers"),
        Command::Acquire(_) => ("Acquire", BASE + PIECE + SEARCH, "a piece; a search for a deadlock"),
        Command::Withdraw { .. } => ("Withdraw", BASE + PIECE, "a piece: the waiters behind it are granted"),
        Command::Abandon { .. } => ("Abandon", BASE + PIECE, "a piece: the waiters behind it are granted"),
        Command::Release { .. } => ("Release", BASE + PIECE, "a piece: the waiters behind it are granted"),
        Command::SetGrantTimeout { .. } => ("SetGrantTimeout", BASE, "nothing grows"),
        Command::EndCooling { .. } => ("EndCooling", BASE + PIECE, "a piece: the rest is named again"),
        Command::EndHolds { .. } => ("EndHolds", BASE + PIECE, "a piece: the rest is named again"),
        Command::Forget { .. } => ("Forget", BASE + TOMBSTONES_REMOVED_MAX as u64, "the ids that one verdict forgets"),
        Command::ForgetLocks { .. } => ("ForgetLocks", BASE + PIECE, "a piece: the rest is named again"),
        Command::ForgetHistory { .. } => {
            ("ForgetHistory", BASE + HISTORY_REMOVED_MAX as u64, "the past holds that one verdict forgets")
        }
        Command::Transact(_) => {
            ("Transact", BASE + TRANSACTION_STEPS_MAX as u64 + nodes, "conditions, and nodes created and removed")
        }
        Command::Break(_) => ("Break", BASE + PIECE, "a piece"),
        Command::Sweep { .. } => ("Sweep", BASE + 2 * NODES_SWEPT_MAX as u64, "the nodes that one verdict removes"),
        Command::Downgrade { .. } => ("Downgrade", BASE + PIECE, "a piece: readers join"),
        Command::Upgrade { .. } => ("Upgrade", BASE + PIECE + SEARCH, "a piece; a search for a deadlock"),
        Command::EndUpgrade { .. } => ("EndUpgrade", BASE + PIECE, "a piece: readers join"),
        Command::Proclaim(_) => ("Proclaim", BASE, "nothing grows"),
        Command::SetLock(_) => ("SetLock", BASE + PIECE, "a piece: waiters that cannot fit end, others are granted"),
        Command::Revoke(_) => ("Revoke", BASE + PIECE, "a piece"),
        Command::ContinuePendingWork { .. } => ("ContinuePendingWork", BASE + PIECE, "a piece"),
        Command::RecordKey { .. } => ("RecordKey", BASE, "nothing grows"),
        Command::RecordCapacity { .. } => ("RecordCapacity", BASE, "nothing grows"),
        Command::CreateJoinToken(_) => ("CreateJoinToken", BASE, "the join tokens, 100 at most"),
        Command::RevokeJoinToken { .. } => ("RevokeJoinToken", BASE, "nothing grows"),
        Command::AdmitNode(_) => {
            ("AdmitNode", BASE, "the nodes that are joining, 10 at most, and the removed ones, 1,000 at most")
        }
        Command::SettleJoin { .. } => ("SettleJoin", BASE, "nothing grows"),
        Command::RequestRemoval(_) => ("RequestRemoval", BASE, "nothing grows"),
        Command::RecordRemoval { .. } => ("RecordRemoval", BASE, "the removed nodes, 1,000 at most"),
        Command::SetMember(_) => ("SetMember", BASE, "nothing grows"),
        Command::SetTiming { .. } => ("SetTiming", BASE, "nothing grows"),
        Command::Guarded(guarded) => ("Guarded", bound(guarded.command()).1, "its command, and one comparison"),
        Command::ForTenant(of) => ("ForTenant", bound(of.command()).1, "its command, and two comparisons"),
        Command::ChangeAccess(request) => access::bound(&request.change),
        Command::Attributed(attributed) => {
            ("Attributed", bound(attributed.command()).1 + AUDIT_ENTRY, "its command, and an entry of the audit")
        }
        Command::NoteAct(_) => ("NoteAct", BASE, "nothing grows"),
        Command::ExpireTokens { .. } => {
            ("ExpireTokens", BASE + 3 * VERDICT_OBJECTS_MAX as u64, "the tokens that one verdict names")
        }
    }
}

/// An entry of the audit, and those that it displaces.
const AUDIT_ENTRY: u64 = 16;
const ENDS: u64 = BASE + PIECE + SESSION_TOMBSTONES_MAX as u64;

fn worst() -> BTreeMap<&'static str, (u64, u64, &'static str, String)> {
    let mut crowd = Crowd::new();
    access::fill(&mut crowd);
    crowd.leave_work("later");
    let mut worst = BTreeMap::new();
    for (scene, command) in crowd.scenes().into_iter().chain(access::scenes()) {
        let (name, bound, of) = bound(&command);
        let mut state = crowd.state.clone();
        // While other work is pending, a large session does nothing at once.
        if ["CloseSession", "EndSession", "ExpireSession"].contains(&name) {
            while state.has_pending() {
                state.apply(&Command::ContinuePendingWork { at: AT });
            }
        }
        let steps = access::enforced(&mut state, name, &command).steps;
        assert!(steps <= bound, "{name} took {steps} steps ({scene}), but only {bound} are allowed");
        let known: &mut (u64, u64, &'static str, String) = worst.entry(name).or_insert((bound, 0, of, String::new()));
        if steps > known.1 || known.3.is_empty() {
            (known.1, known.3) = (steps, scene.to_owned());
        }
    }
    worst
}

#[test]
fn each_command_stays_within_its_bound_in_a_very_large_state() {
    let worst = worst();
    let every: Vec<&str> = crowd::EVERY.to_vec();
    let missing: Vec<&&str> = every.iter().filter(|name| !worst.contains_key(**name)).collect();
    assert!(missing.is_empty(), "these commands have no scene: {missing:?}");
    let mut table = String::from("| command | at most | made of | seen at most | where |\n|---|---|---|---|---|\n");
    for (name, (bound, steps, of, scene)) in &worst {
        writeln!(table, "| `{name}` | {bound} | {of} | {steps} | {scene} |").unwrap();
    }
    let page = PathBuf::from("../../docs/internals/commands.md");
    let text = fs::read_to_string(&page).expect("the page is there");
    let (head, rest) = text.split_once("<!-- table -->\n").expect("the page marks its table");
    let (_, tail) = rest.split_once("<!-- end of table -->\n").expect("the page marks the end of its table");
    let wanted = format!("{head}<!-- table -->\n{table}<!-- end of table -->\n{tail}");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        fs::write(&page, &wanted).unwrap();
    } else {
        assert_eq!(text, wanted, "the page differs from the measurement");
    }
}

#[test]
fn a_deadlock_is_refused_behind_many_waiters_and_reported_as_unchecked_behind_more() {
    let mut crowd = Crowd::new();
    for (scene, command) in crowd.scenes() {
        let result = crowd.state.clone().apply(&command).answer.result;
        match scene {
            crowd::REFUSED => assert!(matches!(result, Err(Rejection::WouldDeadlock { .. })), "{result:?}"),
            crowd::UNCHECKED => {
                let Ok(Outcome::Queued(queued)) = result else { panic!("{result:?}") };
                let mut state = crowd.state.clone();
                state.apply(&command);
                assert!(!state.contender(queued.number).unwrap().deadlock_checked);
            }
            _ => {}
        }
    }
}

#[test]
fn each_piece_of_the_largest_ends_stays_within_its_bound() {
    let mut crowd = Crowd::new();
    for session in [crowd.locks_of.0, crowd.nodes_of.0] {
        let closed = crowd.state.apply(&Command::CloseSession { session, at: AT });
        assert_eq!(closed.answer.result, Ok(Outcome::Done));
    }
    let (mut pieces, mut most) = (0, 0);
    while crowd.state.has_pending() {
        most = most.max(crowd.state.apply(&Command::ContinuePendingWork { at: AT }).steps);
        pieces += 1;
    }
    assert!(most <= BASE + PIECE, "a piece took {most} steps");
    // About 3,000 of a piece's steps end something: 375 locks, or 1,500 nodes.
    assert!((250..500).contains(&pieces), "{pieces} pieces");
    crowd.state.check().unwrap();
}

#[test]
fn a_step_costs_about_the_same_in_every_command() {
    let mut crowd = Crowd::new();
    access::fill(&mut crowd);
    crowd.leave_work("later");
    let mut complaints = Vec::new();
    for (scene, command) in crowd.scenes().into_iter().chain(access::scenes()) {
        let complaint = crowd.meter.complaint(&crowd.state, &command);
        complaints.extend(complaint.map(|complaint| format!("{} ({scene}): {complaint}", bound(&command).0)));
    }
    let (pool, token) = (LockName::parse("pool").unwrap(), FencingToken(1));
    let fence = crowd.meter.complaint_of_read(1, || crowd.state.verify_fence(&pool, token, None));
    complaints.extend(fence.map(|complaint| format!("a fence: {complaint}")));
    assert!(complaints.is_empty(), "{complaints:#?}");
}

//! Tests of `defect`.

use super::*;
use fairhold_types::{Revision, SessionId, time::WallMillis};

/// Keeps the records in memory, as a disk would.
#[derive(Default)]
struct MemoryStore(Mutex<Vec<Defect>>);

impl DefectStore for MemoryStore {
    fn load(&self) -> io::Result<Vec<Defect>> {
        Ok(self.0.lock().clone())
    }

    fn save(&self, defects: &[Defect]) -> io::Result<()> {
        *self.0.lock() = defects.to_vec();
        Ok(())
    }

    fn restart_process(&self) -> io::Error {
        io::Error::other("restarted")
    }
}

fn close(session: u128, at: u64) -> Command {
    Command::CloseSession { session: SessionId(session), at: WallMillis(at) }
}

fn panics_at(store: &Arc<MemoryStore>, index: u64, command: &Command) {
    for _ in 0..PANICS_MAX {
        let defects = Defects::load(store.clone()).unwrap();
        if !defects.in_entry(index).is_empty() {
            assert_eq!(defects.decide(index, 0, command), DefectAction::Try);
        }
        assert_eq!(defects.record_panic(index, 0, &"planted").to_string(), "restarted");
    }
}

#[test]
fn a_command_is_skipped_after_its_second_panic_and_refused_if_it_is_proposed_again() {
    let store = Arc::<MemoryStore>::default();
    panics_at(&store, 7, &close(1, 10));
    let defects = Defects::load(store.clone()).unwrap();
    assert_eq!((defects.in_entry(7), defects.in_entry(8)), (vec![0], vec![]));
    assert!(matches!(defects.decide(7, 0, &close(1, 10)), DefectAction::Skip { checked: false, .. }));
    defects.record_checked(7, 0).unwrap();
    assert!(matches!(defects.decide(7, 0, &close(1, 10)), DefectAction::Skip { checked: true, .. }));
    assert!(defects.refuses(&close(1, 99)).is_some(), "the time is not part of the request");
    assert!(defects.refuses(&close(2, 10)).is_none());
    assert_eq!((defects.skipped.get(), defects.recorded()[0].kind.as_str()), (1, "CloseSession"));
}

#[test]
fn a_panic_that_does_not_recur_skips_nothing_and_resets_the_count() {
    let store = Arc::<MemoryStore>::default();
    let defects = Defects::load(store.clone()).unwrap();
    drop(defects.record_panic(7, 0, &"once"));
    let defects = Defects::load(store.clone()).unwrap();
    assert_eq!(defects.decide(7, 0, &close(1, 10)), DefectAction::Try);
    defects.record_passed(7, 0).unwrap();
    assert!(defects.in_entry(7).is_empty() && defects.refuses(&close(1, 10)).is_none());
    drop(defects.record_panic(7, 0, &"again, much later"));
    let defects = Defects::load(store).unwrap();
    assert_eq!((defects.recorded()[0].panics, defects.recorded()[0].passed), (1, false));
}

#[test]
fn another_version_retries_what_panicked_in_this_one() {
    let store = Arc::<MemoryStore>::default();
    panics_at(&store, 7, &close(1, 10));
    store.0.lock()[0].version = "0.0.0".to_owned();
    let defects = Defects::load(store).unwrap();
    assert!(defects.refuses(&close(1, 10)).is_none(), "it may be fixed");
    assert!(matches!(defects.decide(7, 0, &close(1, 10)), DefectAction::Skip { .. }), "the meaning of the log must not change");
}

#[test]
fn the_leader_proposes_no_more_verdicts_of_a_kind_that_panics_each_time() {
    let store = Arc::<MemoryStore>::default();
    let forget = |through| Command::Forget { through: Revision(through) };
    for index in 0..VERDICTS_MAX as u64 {
        assert!(Defects::load(store.clone()).unwrap().refuses(&forget(100)).is_none());
        panics_at(&store, index, &forget(index));
    }
    let defects = Defects::load(store).unwrap();
    assert!(defects.refuses(&forget(100)).is_some());
    assert!(defects.refuses(&close(1, 10)).is_none());
}

#[test]
fn requests_are_tried_however_many_others_of_their_kind_panicked() {
    let store = Arc::<MemoryStore>::default();
    for index in 0..VERDICTS_MAX as u64 {
        panics_at(&store, index, &close(u128::from(index), 10));
    }
    let defects = Defects::load(store).unwrap();
    assert!(defects.refuses(&close(0, 10)).is_some() && defects.refuses(&close(100, 10)).is_none());
}

#[test]
fn only_the_newest_are_recorded_and_messages_are_cut() {
    let defects = Defects::load(Arc::<MemoryStore>::default()).unwrap();
    defects.set_snapshot_index(1_000);
    for index in 0..RECORDED_MAX as u64 + 5 {
        drop(defects.record_panic(index, 0, &"é".repeat(MESSAGE_BYTES_MAX)));
    }
    let recorded = defects.recorded();
    assert_eq!((recorded.len(), recorded[0].index), (RECORDED_MAX, 5));
    assert_eq!(recorded[0].message.len(), MESSAGE_BYTES_MAX);
}

/// A restarted node applies all entries since its snapshot. Each command that is not skipped panics.
#[test]
fn a_node_reaches_the_end_of_its_log_however_many_commands_panic() {
    let store = Arc::<MemoryStore>::default();
    let entries = RECORDED_MAX as u64 * 2;
    for _ in 0..=entries * u64::from(PANICS_MAX) {
        let defects = Defects::load(store.clone()).unwrap();
        let skipped = |index: &u64| {
            let command = close(u128::from(*index), 0);
            defects.in_entry(*index) == [0] && matches!(defects.decide(*index, 0, &command), DefectAction::Skip { .. })
        };
        match (1..=entries).find(|index| !skipped(index)) {
            Some(index) => drop(defects.record_panic(index, 0, &"planted")),
            None => return,
        }
    }
    panic!("the node restarts forever");
}

#[test]
fn the_kind_of_a_command_is_its_first_word() {
    let kinds = [kind(&close(1, 2)), kind(&Command::Forget { through: Revision(3) })];
    assert_eq!(kinds, ["CloseSession", "Forget"]);
}

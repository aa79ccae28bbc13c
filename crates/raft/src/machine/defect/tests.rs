//! Tests of `defect`.

use super::*;
use fairhold_types::{Revision, SessionId, time::WallMillis};

/// Keeps what is noted, as a disk does.
#[derive(Default)]
struct Paper(Mutex<Vec<Defect>>);

impl DefectBook for Paper {
    fn load(&self) -> io::Result<Vec<Defect>> {
        Ok(self.0.lock().clone())
    }

    fn save(&self, defects: &[Defect]) -> io::Result<()> {
        *self.0.lock() = defects.to_vec();
        Ok(())
    }

    fn start_again(&self) -> io::Error {
        io::Error::other("started again")
    }
}

fn close(session: u128, at: u64) -> Command {
    Command::CloseSession { session: SessionId(session), at: WallMillis(at) }
}

fn panics_at(paper: &Arc<Paper>, index: u64, command: &Command) {
    for _ in 0..PANICS_MAX {
        let life = Defects::load(paper.clone()).unwrap();
        if !life.in_entry(index).is_empty() {
            assert_eq!(life.meet(index, 0, command), DefectPlace::Suspect);
        }
        assert_eq!(life.give_up(index, 0, &"planted").to_string(), "started again");
    }
}

#[test]
fn a_command_is_left_out_after_its_second_panic_and_refused_when_it_comes_again() {
    let paper = Arc::<Paper>::default();
    panics_at(&paper, 7, &close(1, 10));
    let life = Defects::load(paper.clone()).unwrap();
    assert_eq!((life.in_entry(7), life.in_entry(8)), (vec![0], vec![]));
    assert!(matches!(life.meet(7, 0, &close(1, 10)), DefectPlace::LeftOut { checked: false, .. }));
    life.note_checked(7, 0).unwrap();
    assert!(matches!(life.meet(7, 0, &close(1, 10)), DefectPlace::LeftOut { checked: true, .. }));
    assert!(life.refuses(&close(1, 99)).is_some(), "the time is no part of the request");
    assert!(life.refuses(&close(2, 10)).is_none());
    assert_eq!((life.left_out.get(), life.noted()[0].kind.as_str()), (1, "CloseSession"));
}

#[test]
fn a_panic_that_does_not_come_again_leaves_nothing_out_and_counts_from_the_beginning() {
    let paper = Arc::<Paper>::default();
    let life = Defects::load(paper.clone()).unwrap();
    drop(life.give_up(7, 0, &"once"));
    let life = Defects::load(paper.clone()).unwrap();
    assert_eq!(life.meet(7, 0, &close(1, 10)), DefectPlace::Suspect);
    life.note_passed(7, 0).unwrap();
    assert!(life.in_entry(7).is_empty() && life.refuses(&close(1, 10)).is_none());
    drop(life.give_up(7, 0, &"and once more, much later"));
    let life = Defects::load(paper).unwrap();
    assert_eq!((life.noted()[0].panics, life.noted()[0].passed), (1, false));
}

#[test]
fn another_version_tries_again_what_panicked_in_this_one() {
    let paper = Arc::<Paper>::default();
    panics_at(&paper, 7, &close(1, 10));
    paper.0.lock()[0].version = "0.0.0".to_owned();
    let life = Defects::load(paper).unwrap();
    assert!(life.refuses(&close(1, 10)).is_none(), "it may be mended");
    assert!(matches!(life.meet(7, 0, &close(1, 10)), DefectPlace::LeftOut { .. }), "what is in the log keeps its meaning");
}

#[test]
fn the_clock_reaches_no_more_verdicts_of_a_kind_that_panics_each_time() {
    let paper = Arc::<Paper>::default();
    let forget = |through| Command::Forget { through: Revision(through) };
    for index in 0..VERDICTS_MAX as u64 {
        assert!(Defects::load(paper.clone()).unwrap().refuses(&forget(100)).is_none());
        panics_at(&paper, index, &forget(index));
    }
    let life = Defects::load(paper).unwrap();
    assert!(life.refuses(&forget(100)).is_some());
    assert!(life.refuses(&close(1, 10)).is_none());
}

#[test]
fn however_many_requests_of_a_kind_panic_others_of_that_kind_are_tried() {
    let paper = Arc::<Paper>::default();
    for index in 0..VERDICTS_MAX as u64 {
        panics_at(&paper, index, &close(u128::from(index), 10));
    }
    let life = Defects::load(paper).unwrap();
    assert!(life.refuses(&close(0, 10)).is_some() && life.refuses(&close(100, 10)).is_none());
}

#[test]
fn only_the_newest_are_noted_and_messages_have_an_end() {
    let life = Defects::load(Arc::<Paper>::default()).unwrap();
    life.begin_after(1_000);
    for index in 0..NOTED_MAX as u64 + 5 {
        drop(life.give_up(index, 0, &"é".repeat(MESSAGE_BYTES_MAX)));
    }
    let noted = life.noted();
    assert_eq!((noted.len(), noted[0].index), (NOTED_MAX, 5));
    assert_eq!(noted[0].message.len(), MESSAGE_BYTES_MAX);
}

/// A node that starts again applies all entries since its snapshot. Each of them panics that is not left out.
#[test]
fn however_many_commands_panic_since_a_snapshot_the_node_comes_to_the_end_of_its_log() {
    let (paper, entries) = (Arc::<Paper>::default(), NOTED_MAX as u64 * 2);
    for _ in 0..=entries * u64::from(PANICS_MAX) {
        let life = Defects::load(paper.clone()).unwrap();
        let left_out = |index: &u64| {
            let command = close(u128::from(*index), 0);
            life.in_entry(*index) == [0] && matches!(life.meet(*index, 0, &command), DefectPlace::LeftOut { .. })
        };
        match (1..=entries).find(|index| !left_out(index)) {
            Some(index) => drop(life.give_up(index, 0, &"planted")),
            None => return,
        }
    }
    panic!("it starts again and again");
}

#[test]
fn the_kind_of_a_command_is_its_first_word() {
    let kinds = [kind(&close(1, 2)), kind(&Command::Forget { through: Revision(3) })];
    assert_eq!(kinds, ["CloseSession", "Forget"]);
}

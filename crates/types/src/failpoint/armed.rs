//! The armed failpoints: from the environment, or from the judge of this thread.

use super::point::{Point, Reached};
use crate::duration;
use std::{
    cell::RefCell,
    io,
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

/// The environment variable that arms failpoints.
const VARIABLE: &str = "FAIRHOLD_FAILPOINTS";

/// The action of a failpoint that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Return an error.
    Error,
    /// End the process at once, as `kill -9` does.
    Crash,
    /// Continue after this delay.
    Delay(Duration),
}

/// An armed failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Armed {
    /// The failpoint.
    pub point: Point,
    /// Its action.
    pub action: Action,
    /// Act only the Nth time; without a number, every time.
    pub only: Option<u32>,
}

/// Decides for one thread, instead of the environment. It receives the failpoint, and whether it is outside of a task, where
/// nothing can wait. It may end the running code by unwinding.
pub type Judge = Box<dyn FnMut(Point, bool) -> Reached>;

thread_local! {
    static JUDGE: RefCell<Option<Judge>> = const { RefCell::new(None) };
}

/// Sets the judge of this thread; `None` returns to the environment.
pub fn set_judge(judge: Option<Judge>) {
    JUDGE.set(judge);
}

/// Parses `name=action;name=action`. Actions are `error`, `crash` and `delay:200ms`; `@N` after an action means only the Nth
/// time.
pub fn parse(text: &str) -> Result<Vec<Armed>, String> {
    text.split(';').map(str::trim).filter(|part| !part.is_empty()).map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<Armed, String> {
    let wrong = |why: &str| format!("{text:?}: {why}; something like storage.log.write=error@3 is expected");
    let (name, rest) = text.split_once('=').ok_or_else(|| wrong("no action"))?;
    let point = Point::ALL.iter().copied().find(|point| point.name() == name.trim()).ok_or_else(|| wrong("no such point"))?;
    let (action, only) = match rest.split_once('@') {
        Some((action, count)) => (action, Some(count.trim().parse().map_err(|_| wrong("no number after @"))?)),
        None => (rest, None),
    };
    let action = match action.trim().split_once(':') {
        None if action.trim() == "error" => Action::Error,
        None if action.trim() == "crash" => Action::Crash,
        Some(("delay", time)) => Action::Delay(duration::parse(time).map_err(|_| wrong("no duration after delay:"))?),
        None | Some(_) => return Err(wrong("no such action")),
    };
    Ok(Armed { point, action, only })
}

/// The failpoints armed by the environment, and how often each was reached.
fn environment() -> &'static Mutex<Vec<(Armed, u32)>> {
    static ENVIRONMENT: OnceLock<Mutex<Vec<(Armed, u32)>>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let armed = parse(&std::env::var(VARIABLE).unwrap_or_default());
        // A misspelt name must not give a test that fails nothing.
        let armed = armed.unwrap_or_else(|error| panic!("{VARIABLE}: {error}"));
        Mutex::new(armed.into_iter().map(|armed| (armed, 0)).collect())
    })
}

/// A failpoint is reached; with `blocking`, outside of a task.
#[must_use]
pub fn reach(point: Point, blocking: bool) -> Reached {
    let judged = JUDGE.with(|judge| match judge.try_borrow_mut() {
        Ok(mut judge) => judge.as_mut().map(|judge| judge(point, blocking)),
        // Failpoints that the judge itself reaches do nothing.
        Err(_) => Some(Reached::Nothing),
    });
    judged.unwrap_or_else(|| match armed(point) {
        None => Reached::Nothing,
        Some(Action::Error) => Reached::Error,
        Some(Action::Delay(delay)) => Reached::Delay(delay),
        Some(Action::Crash) => std::process::abort(),
    })
}

fn armed(point: Point) -> Option<Action> {
    let mut all = environment().lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = None;
    for (armed, count) in all.iter_mut().filter(|(armed, _)| armed.point == point) {
        *count += 1;
        found = found.or_else(|| armed.only.is_none_or(|only| only == *count).then_some(armed.action));
    }
    found
}

/// Reaches a failpoint outside of a task: a delay blocks the thread.
pub fn hit(point: Point) -> io::Result<()> {
    match reach(point, true) {
        Reached::Nothing => Ok(()),
        Reached::Error => Err(error(point)),
        Reached::Delay(delay) => {
            std::thread::sleep(delay);
            Ok(())
        }
    }
}

/// The error of a failpoint.
#[must_use]
pub fn error(point: Point) -> io::Error {
    io::Error::other(format!("failpoint {}", point.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failpoint_setting_is_parsed() {
        let armed = parse("storage.log.write=error@3; raft.append.answer=delay:200ms;storage.file.rename=crash").unwrap();
        let expected = [
            Armed { point: Point::StorageLogWrite, action: Action::Error, only: Some(3) },
            Armed { point: Point::RaftAppendAnswer, action: Action::Delay(Duration::from_millis(200)), only: None },
            Armed { point: Point::StorageFileRename, action: Action::Crash, only: None },
        ];
        assert_eq!(armed, expected);
        for wrong in ["storage.log.write", "storage.log.wrote=error", "storage.log.write=fail", "storage.log.write=error@x"] {
            assert!(parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_judge_overrides_the_settings() {
        set_judge(Some(Box::new(|point, blocking| match (point, blocking) {
            (Point::StorageLogWrite, true) => Reached::Error,
            (_, _) => Reached::Nothing,
        })));
        assert_eq!(hit(Point::StorageLogWrite).unwrap_err().to_string(), "failpoint storage.log.write");
        assert!(hit(Point::StorageLogRead).is_ok());
        set_judge(None);
        assert!(hit(Point::StorageLogWrite).is_ok());
    }
}

//! What the user looks at, and how each key changes that.

use super::frame::{TopFrame, TopPage};
use crate::keys::Key;

/// The sorts of the list, in the order in which `s` takes them.
const SORTS: [&str; 6] = ["longest_wait", "waiters", "hold", "wait", "contention", "name"];
/// The longest search, in bytes: the longest name of a lock, and a state.
const SEARCH_MAX: usize = 530;

/// What the user looks at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TopChoice {
    pub(super) page: TopPage,
    /// The search that applies to the list.
    pub(super) search: String,
    /// The search that the user is typing.
    pub(super) typed: Option<String>,
    /// The chosen row of the list.
    pub(super) row: usize,
    /// The lock of that row: the choice follows it when the order changes. None until the user moves.
    pub(super) lock: Option<String>,
    /// How many lines of another page are above the screen.
    pub(super) scroll: usize,
    /// Whether the screen keeps its content.
    pub(super) is_paused: bool,
    /// The index of the sort.
    pub(super) sort: usize,
}

/// What the poller should ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopQuery {
    pub(super) page: TopPage,
    /// The beginning of the names in the list.
    pub(super) prefix: String,
    /// The state of the locks in the list.
    pub(super) state: Option<String>,
    pub(super) sort: &'static str,
    /// The lock whose queue is shown below the list; none for the first.
    pub(super) lock: Option<String>,
}

impl TopChoice {
    /// The sort of the list, by its name in the API.
    pub(super) fn sort(&self) -> &'static str {
        SORTS[self.sort]
    }

    /// What the poller should ask for.
    pub(super) fn query(&self, frame: &TopFrame) -> TopQuery {
        let (states, names): (Vec<&str>, Vec<&str>) = self.search.split_whitespace().partition(|word| word.starts_with("state:"));
        TopQuery {
            page: self.page.clone(),
            prefix: names.join(" "),
            state: states.last().map(|word| word.replacen("state:", "", 1)),
            sort: self.sort(),
            lock: self.lock.clone().or_else(|| frame.lock_at(self.row).map(str::to_owned)),
        }
    }

    /// Keeps the choice on its lock, and within the list.
    pub(super) fn follow(&mut self, frame: &TopFrame) {
        let place = self.lock.as_ref().and_then(|name| frame.locks.iter().position(|lock| lock["lock"] == **name));
        if place.is_none() {
            self.lock = None;
        }
        self.row = place.unwrap_or_else(|| self.row.min(frame.locks.len().saturating_sub(1)));
    }

    /// Applies a key; `lines` is the length of a page that is not the list. Returns whether to quit.
    pub(super) fn press(&mut self, key: Key, frame: &TopFrame, lines: usize) -> bool {
        if let Some(typed) = self.typed.take() {
            return self.press_in_search(key, typed);
        }
        match key {
            Key::Stop | Key::Character('q') => return true,
            Key::Escape => return self.go_back(),
            Key::Backspace | Key::Character('u') => drop(self.go_back()),
            Key::Enter if self.page == TopPage::Locks => {
                if let Some(name) = frame.lock_at(self.row) {
                    self.lock = Some(name.to_owned());
                    self.open(TopPage::Lock(name.to_owned()));
                }
            }
            Key::Up | Key::Character('k') => self.step(frame, lines, |place| place.saturating_sub(1)),
            Key::Down | Key::Character('j') => self.step(frame, lines, |place| place + 1),
            Key::Character('/') => {
                self.open(TopPage::Locks);
                self.typed = Some(self.search.clone());
            }
            Key::Character('s') if self.page == TopPage::Locks => {
                self.sort = (self.sort + 1) % SORTS.len();
                self.choose_first();
            }
            Key::Character('w') => self.open(TopPage::Waits),
            Key::Character('e') => self.open(TopPage::Events),
            Key::Character('c') => self.open(TopPage::Cluster),
            Key::Character('?') => self.open(TopPage::Help),
            Key::Character('p') => self.is_paused = !self.is_paused,
            Key::Enter | Key::Character(_) | Key::None => {}
        }
        false
    }

    fn press_in_search(&mut self, key: Key, mut typed: String) -> bool {
        match key {
            Key::Stop => return true,
            Key::Escape => return false,
            Key::Enter => {
                self.search = typed.trim().to_owned();
                self.choose_first();
                return false;
            }
            Key::Backspace => drop(typed.pop()),
            Key::Character(character) if typed.len() + character.len_utf8() <= SEARCH_MAX => typed.push(character),
            Key::Character(_) | Key::Up | Key::Down | Key::None => {}
        }
        self.typed = Some(typed);
        false
    }

    /// Goes back to the list, then to the whole list. Returns whether it is there already.
    fn go_back(&mut self) -> bool {
        if self.page != TopPage::Locks {
            self.open(TopPage::Locks);
        } else if self.search.is_empty() {
            return true;
        } else {
            self.search.clear();
            self.choose_first();
        }
        false
    }

    /// Opens a page at its top. A paused screen has nothing to show there, so it goes on.
    fn open(&mut self, page: TopPage) {
        self.page = page;
        self.scroll = 0;
        self.is_paused = false;
    }

    /// Chooses the first row, whatever it is: the list has another content soon.
    fn choose_first(&mut self) {
        (self.row, self.lock, self.is_paused) = (0, None, false);
    }

    fn step(&mut self, frame: &TopFrame, lines: usize, step: impl FnOnce(usize) -> usize) {
        if self.page == TopPage::Locks {
            self.row = step(self.row).min(frame.locks.len().saturating_sub(1));
            self.lock = frame.lock_at(self.row).map(str::to_owned);
        } else {
            self.scroll = step(self.scroll).min(lines.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn frame(names: &[&str]) -> TopFrame {
        TopFrame { locks: names.iter().map(|name| json!({ "lock": name })).collect(), ..TopFrame::default() }
    }

    /// Types keys; an arrow stands for itself, and `\r`, `\x1b` and `\x7f` for Enter, Esc and Backspace.
    fn type_keys(choice: &mut TopChoice, keys: &str, frame: &TopFrame) -> bool {
        keys.chars().any(|key| {
            let key = match key {
                '\r' => Key::Enter,
                '\x1b' => Key::Escape,
                '\x7f' => Key::Backspace,
                '↑' => Key::Up,
                '↓' => Key::Down,
                other => Key::Character(other),
            };
            choice.press(key, frame, 3)
        })
    }

    #[test]
    fn the_choice_follows_its_lock_when_the_order_changes() {
        let mut choice = TopChoice::default();
        assert!(!type_keys(&mut choice, "↓", &frame(&["a", "b", "c"])));
        choice.follow(&frame(&["c", "a", "b"]));
        assert_eq!((choice.row, choice.query(&frame(&[])).lock.as_deref()), (2, Some("b")));
        type_keys(&mut choice, "↓↓", &frame(&["c", "a", "b"]));
        assert_eq!(choice.row, 2, "the last row");
        // The lock is gone.
        choice.follow(&frame(&["c"]));
        assert_eq!(choice.row, 0);
        type_keys(&mut choice, "k", &frame(&[]));
        choice.follow(&frame(&[]));
        assert_eq!((choice.row, choice.query(&frame(&[])).lock), (0, None));
    }

    #[test]
    fn a_lock_is_opened_and_left_and_the_choice_stays_on_it() {
        let (mut choice, frame) = (TopChoice::default(), frame(&["a", "b"]));
        type_keys(&mut choice, "j\r", &frame);
        assert_eq!(choice.page, TopPage::Lock("b".to_owned()));
        type_keys(&mut choice, "jjjjj", &frame);
        assert_eq!(choice.scroll, 2, "the page has three lines");
        assert!(!type_keys(&mut choice, "\x1b", &frame));
        assert_eq!((choice.page.clone(), choice.row, choice.scroll), (TopPage::Locks, 1, 0));
        assert!(type_keys(&mut choice, "\x1b", &frame), "Esc in the list quits");
        assert!(type_keys(&mut TopChoice::default(), "wq", &frame) && choice.press(Key::Stop, &frame, 0));
    }

    #[test]
    fn letters_are_text_while_a_search_is_typed() {
        let (mut choice, frame) = (TopChoice::default(), frame(&["a", "b"]));
        assert!(!type_keys(&mut choice, "w/state:held quux\x7f", &frame));
        assert_eq!((choice.page.clone(), choice.typed.as_deref()), (TopPage::Locks, Some("state:held quu")));
        assert_eq!(choice.query(&frame).prefix, "", "it does not apply before Enter");
        type_keys(&mut choice, "\r", &frame);
        let query = choice.query(&frame);
        assert_eq!((query.prefix.as_str(), query.state.as_deref(), choice.typed.clone()), ("quu", Some("held"), None));
        type_keys(&mut choice, "/x\x1b", &frame);
        assert_eq!(choice.search, "state:held quu", "Esc leaves the search as it was");
        assert!(!type_keys(&mut choice, "\x1b", &frame), "the next Esc shows the whole list");
        assert_eq!(choice.search, "");
        type_keys(&mut choice, &format!("/{}", "é".repeat(600)), &frame);
        assert_eq!(choice.typed.map(|typed| typed.len()), Some(SEARCH_MAX));
    }

    #[test]
    fn each_key_opens_its_page_sorts_or_pauses() {
        let (mut choice, frame) = (TopChoice::default(), frame(&["a", "b"]));
        for (key, page) in [("w", TopPage::Waits), ("e", TopPage::Events), ("c", TopPage::Cluster), ("?", TopPage::Help)] {
            type_keys(&mut choice, &format!("p{key}"), &frame);
            assert_eq!((&choice.page, choice.is_paused), (&page, false), "a new page is not paused");
        }
        type_keys(&mut choice, "pu", &frame);
        type_keys(&mut choice, "p", &frame);
        assert!(choice.is_paused);
        for sort in ["waiters", "hold", "wait", "contention", "name", "longest_wait"] {
            type_keys(&mut choice, "js", &frame);
            assert_eq!((choice.query(&frame).sort, choice.row, choice.is_paused), (sort, 0, false));
        }
    }
}

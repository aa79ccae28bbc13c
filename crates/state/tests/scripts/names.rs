//! The short names of scripts and their meaning: `s1` is a session; `a`, `a7` and `b` are ids, in the order in which
//! they were created.

use fairhold_types::{GrantId, GrantNumber, SessionId, SessionNumber};
use std::{collections::BTreeMap, error::Error};

/// Room for the numbered ids of one letter.
const IDS_OF_A_LETTER: u128 = 1_000_000;

/// The names so far, so that numbers can be printed by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    sessions: BTreeMap<String, SessionNumber>,
    grants: BTreeMap<String, GrantNumber>,
}

/// `a` < `a1` < `a2` < … < `b`: a later ULID is greater.
pub(crate) fn grant_id(name: &str) -> Result<GrantId, Box<dyn Error>> {
    let wrong = || format!("an id is a small letter and perhaps a number, like a or b7, not {name}");
    let mut rest = name.chars();
    let letter = rest.next().filter(char::is_ascii_lowercase).ok_or_else(wrong)?;
    let number: u128 = match rest.as_str() {
        "" => 0,
        digits => digits.parse().ok().filter(|number| *number < IDS_OF_A_LETTER).ok_or_else(wrong)?,
    };
    Ok(GrantId::from_ulid(u128::from(u32::from(letter)) * IDS_OF_A_LETTER + number))
}

/// `s1`, `s2`, …
pub(crate) fn session_id(name: &str) -> Result<SessionId, Box<dyn Error>> {
    let number = name.strip_prefix('s').and_then(|number| number.parse().ok());
    Ok(SessionId(number.ok_or_else(|| format!("a session is s1, s2 …, not {name}"))?))
}

impl Names {
    pub(crate) fn note_session(&mut self, name: &str, number: SessionNumber) {
        self.sessions.insert(name.to_owned(), number);
    }

    pub(crate) fn note_grant(&mut self, name: &str, number: GrantNumber) {
        self.grants.insert(name.to_owned(), number);
    }

    /// The number of a session by its name, even after it has ended.
    pub(crate) fn session(&self, name: &str) -> Option<SessionNumber> {
        self.sessions.get(name).copied()
    }

    /// The number of a grant by the name of its id, even after it has ended.
    pub(crate) fn grant(&self, name: &str) -> Option<GrantNumber> {
        self.grants.get(name).copied()
    }

    /// How a session is printed.
    pub(crate) fn of_session(&self, number: SessionNumber) -> String {
        match self.sessions.iter().find(|(_, known)| **known == number) {
            Some((name, _)) => name.clone(),
            None => format!("session-{number}"),
        }
    }
}

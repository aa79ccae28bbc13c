//! How fresh a read has to be, and how fresh it was.

use crate::exchange::Call;
use fairhold_types::Revision;

/// What was read, and when: to go on from there, and to miss nothing in between.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AsOf<T> {
    /// The revision of the whole state that it shows: what comes later is newer.
    pub revision: Revision,
    /// What was read.
    pub value: T,
}

/// How fresh the answers of a handle are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// Without asking the leader.
    pub(crate) local: bool,
    /// With this revision at least.
    pub(crate) least: Option<Revision>,
}

impl Reading {
    /// Adds it to a read whose path ends with its query, if it has one.
    pub(crate) fn of(self, mut call: Call) -> Call {
        if self.local {
            let mark = if call.path.contains('?') { '&' } else { '?' };
            call.path = format!("{}{mark}consistency=local", call.path);
        }
        match self.least {
            Some(Revision(revision)) => call.header("fairhold-min-revision", revision.to_string()),
            None => call,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::Method;

    #[test]
    fn what_is_asked_of_a_read_stands_in_its_query_and_a_header() {
        let of = |path: &str, local, least| Reading { local, least }.of(Call::new(Method::GET, path.to_owned()));
        assert_eq!(of("/v1/locks", false, None).path, "/v1/locks");
        assert_eq!(of("/v1/locks", true, None).path, "/v1/locks?consistency=local");
        let call = of("/v1/locks?limit=2", true, Some(Revision(42)));
        assert_eq!(call.path, "/v1/locks?limit=2&consistency=local");
        assert_eq!(call.headers, [("fairhold-min-revision", "42".to_owned())]);
    }
}

//! The definite answer of one node to one request.

use crate::{
    error::Error,
    problem::ProblemBody,
    wire::{at::At, clock::Moment},
};
use fairhold_types::Revision;
use reqwest::{StatusCode, header};
use serde::de::DeserializeOwned;

pub(crate) const LEADER: &str = "fairhold-leader";
/// Names a number that is another one after each change of the members. Only few answers have it.
pub(crate) const MEMBERS: &str = "fairhold-members";
/// Names the revision that an answer shows.
pub(crate) const REVISION: &str = "fairhold-revision";

/// A definite answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: header::HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The body is complete: it is no larger than this client reads.
    pub(crate) is_whole: bool,
    /// Taken before the request was sent.
    pub(crate) sent: Moment,
    /// An earlier attempt of the same call got no answer and may have been carried out.
    pub(crate) may_be_done: bool,
}

impl Reply {
    /// The body of a success, or the refusal as an error.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.done()?;
        serde_json::from_slice(&self.body).map_err(|error| Error::NotUnderstood { why: error.to_string() })
    }

    /// The refusal as an error, if it is one.
    pub(crate) fn done(&self) -> Result<(), Error> {
        if self.status.is_success() { Ok(()) } else { Err(Error::refused(self.status.as_u16(), self.problem())) }
    }

    pub(crate) fn problem(&self) -> ProblemBody {
        ProblemBody::read(&self.body)
    }

    /// The revision that the answer shows. A refusal names that of the server, which may be later or earlier than the state
    /// that the refusal describes.
    pub(crate) fn revision(&self) -> Result<Revision, Error> {
        let named = self.headers.get(REVISION).and_then(|value| value.to_str().ok()?.parse().ok());
        named.map(Revision).ok_or_else(|| Error::NotUnderstood { why: "it names no revision".to_owned() })
    }

    /// The body of a success with its revision, or the refusal as an error.
    pub(crate) fn as_of<T: DeserializeOwned>(&self) -> Result<At<T>, Error> {
        let value = self.json()?;
        Ok(At { revision: self.revision()?, value })
    }
}

/// The leader's address, if the answer names it.
pub(crate) fn leader_of(headers: &header::HeaderMap) -> Option<&str> {
    headers.get(LEADER).and_then(|value| value.to_str().ok())
}

/// The number of the members, if the answer names it.
pub(crate) fn members_of(headers: &header::HeaderMap) -> Option<u64> {
    headers.get(MEMBERS).and_then(|value| value.to_str().ok()?.parse().ok())
}

//! The body of a refusal, as far as this client uses it. The client ignores fields and codes that it does not know.

use fairhold_types::{
    Code, EndReason, FencingToken, Revision,
    dto::Contender,
    problem::{Effect, FailedStep},
};
use serde::{Deserialize, Deserializer, de::IntoDeserializer};

/// A problem in the sense of RFC 9457.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ProblemBody {
    #[serde(deserialize_with = "known")]
    pub(crate) code: Option<Code>,
    pub(crate) detail: String,
    pub(crate) advice: Option<String>,
    pub(crate) retryable: bool,
    pub(crate) outcome: Option<Effect>,
    pub(crate) reason: Option<EndReason>,
    pub(crate) holder: Option<Contender>,
    pub(crate) current_token: Option<FencingToken>,
    pub(crate) current_version: Option<i32>,
    pub(crate) path: Option<String>,
    pub(crate) failed: Option<FailedStep>,
    pub(crate) oldest: Option<Revision>,
}

impl ProblemBody {
    /// What went wrong, and what to do.
    pub(crate) fn message(self) -> String {
        match self.advice {
            Some(advice) => format!("{}: {advice}", self.detail),
            None => self.detail,
        }
    }

    /// Reads a body. If it is not a problem, its beginning becomes the detail.
    pub(crate) fn read(body: &[u8]) -> ProblemBody {
        serde_json::from_slice(body).unwrap_or_else(|_| ProblemBody { detail: detail(body), ..ProblemBody::default() })
    }
}

/// The detail of a body that is not a problem: `/readyz?verbose`, for example, has a `reason`.
fn detail(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct OtherBody {
        detail: Option<String>,
        reason: Option<String>,
    }
    let other: Option<OtherBody> = serde_json::from_slice(body).ok();
    let start = || String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
    other.and_then(|other| other.detail.or(other.reason)).unwrap_or_else(start)
}

/// A newer server may have more codes.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Code>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| {
        let code: Result<Code, serde::de::value::Error> = Code::deserialize(text.into_deserializer());
        code.ok()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_problems_are_read() {
        let problem =
            ProblemBody::read(br#"{"type":"about:blank","code":"stale_token","detail":"d","current_token":57,"new":1}"#);
        assert_eq!((problem.code, problem.current_token), (Some(Code::StaleToken), Some(FencingToken(57))));
        let newer = ProblemBody::read(br#"{"code":"of_next_year","detail":"d"}"#);
        assert_eq!((newer.code, newer.detail.as_str()), (None, "d"));
        assert_eq!(ProblemBody::read(b"<html>").detail, "<html>");
    }
}

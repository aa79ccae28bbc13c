//! Why a client command failed, and its exit code.

use crate::{exit, output};
use fairhold_client::Error;
use fairhold_types::{Code, text::terminal_safe};
use serde::Deserialize;
use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// Why a client command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Wrong usage.
    #[error("{0}")]
    Usage(String),
    /// No node that can serve answered.
    #[error("{0}")]
    Unavailable(String),
    /// The cluster refused the request; the body says why.
    #[error("{}", explain(*status, body))]
    Refused {
        status: u16,
        /// The body of the answer.
        body: Vec<u8>,
    },
    /// An I/O error on this machine.
    #[error(transparent)]
    Local(#[from] io::Error),
    /// The request did not apply, or an endless stream ended.
    #[error("{0}")]
    Ended(String),
}

impl Failure {
    /// The failure for an error of the Rust client.
    pub(crate) fn from_client(error: &Error) -> Failure {
        if let Error::Refused { code, status, detail, .. } = error {
            let code = code.map_or("refused", Code::as_str);
            let body = serde_json::json!({ "code": code, "detail": detail }).to_string().into_bytes();
            return Failure::Refused { status: *status, body };
        }
        if let Error::Invalid(why) = error {
            return Failure::Usage(why.clone());
        }
        if error.is_retryable() { Failure::Unavailable(error.to_string()) } else { Failure::Ended(error.to_string()) }
    }

    /// Whether the cluster refused the request with this code.
    pub(crate) fn has_code(&self, code: Code) -> bool {
        matches!(self, Failure::Refused { body, .. } if has_code(body, &[code]))
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => exit::USAGE,
            Failure::Unavailable(_) => exit::UNAVAILABLE,
            Failure::Refused { status: 401 | 403, .. } => exit::DENIED,
            Failure::Refused { body, .. } if is_busy(body) => exit::NOT_ACQUIRED,
            Failure::Refused { body, .. } if is_full(body) => exit::UNAVAILABLE,
            // The request itself is invalid.
            Failure::Refused { status: 400 | 413 | 422, .. } => exit::USAGE,
            Failure::Refused { .. } | Failure::Local(_) | Failure::Ended(_) => exit::FAILURE,
        }
    }

    /// The message for a terminal: what went wrong, and on a second line what to do.
    fn lines(&self) -> String {
        let advice = match self {
            Failure::Refused { body, .. } => advice(body),
            Failure::Usage(_) | Failure::Unavailable(_) | Failure::Local(_) | Failure::Ended(_) => None,
        };
        let line = |text: &str| format!("fairhold: {}", terminal_safe(text));
        std::iter::once(self.to_string()).chain(advice).map(|text| line(&text)).collect::<Vec<_>>().join("\n")
    }

    /// Prints the failure and returns its exit code. With `body_wanted`, the body of a refusal goes to standard output.
    pub(crate) fn exit(&self, body_wanted: bool) -> ExitCode {
        if let (Failure::Refused { body, .. }, true) = (self, body_wanted) {
            // If nobody reads the output, the exit code still shows the outcome.
            output::write_bytes(body).ok();
        }
        writeln!(io::stderr(), "{}", self.lines()).ok();
        ExitCode::from(self.code())
    }
}

/// Whether another client has the lock or the place in the queue, so that a later attempt may succeed.
fn is_busy(body: &[u8]) -> bool {
    has_code(body, &[Code::LockHeld, Code::WaitTimeout, Code::QueueFull])
}

/// Whether the state of the cluster is full, or a tenant has as much as it may.
fn is_full(body: &[u8]) -> bool {
    has_code(body, &[Code::StateFull, Code::QuotaExceeded])
}

/// Whether the body is a problem with one of these codes.
pub(super) fn has_code(body: &[u8], codes: &[Code]) -> bool {
    let code = serde_json::from_slice::<RefusalBody>(body).map(|problem| problem.code);
    code.is_ok_and(|code| codes.iter().any(|known| known.as_str() == code))
}

#[derive(Deserialize)]
struct RefusalBody {
    code: String,
    detail: String,
    advice: Option<String>,
    /// How many voters there would be after a change.
    voters: Option<u64>,
}

fn explain(status: u16, body: &[u8]) -> String {
    match serde_json::from_slice::<RefusalBody>(body) {
        Ok(RefusalBody { code, detail, .. }) => format!("{detail} ({code})"),
        Err(_) => format!("the answer is {status}, but not from a fairhold node: is -e its address for clients?"),
    }
}

/// What to do, in terms of commands. Falls back to the server's advice, which is in terms of HTTP.
fn advice(body: &[u8]) -> Option<String> {
    let RefusalBody { code, advice, voters, .. } = serde_json::from_slice(body).ok()?;
    if code == Code::WouldLoseQuorum.as_str() && voters == Some(0) {
        // It is the last voter, and the reason says what to do. No other member is missing.
        return None;
    }
    // The server gives no advice if the grant need not be the caller's: the caller has lost nothing.
    let is_other = code == Code::GrantNotFound.as_str() && advice.is_none();
    advice_here(&code).filter(|_| !is_other).map(str::to_owned).or(advice)
}

fn advice_here(code: &str) -> Option<&'static str> {
    let is = |known: Code| known.as_str() == code;
    if is(Code::LockHeld) {
        Some("to queue for it, pass --wait 30s")
    } else if is(Code::NotHeld) {
        Some("to wait until it is held: fairhold grants show ID --wait 30s")
    } else if is(Code::NoLeader) {
        Some("to follow the election until it has one: fairhold elections watch NAME")
    } else if is(Code::NotEmpty) {
        Some("remove what is below it first, or remove everything in one step: fairhold node rm -r PATH")
    } else if is(Code::NoNode) {
        Some("to see what exists: fairhold node tree; to create missing parents, pass --parents")
    } else if is(Code::IdempotencyMismatch) || is(Code::Forgotten) {
        Some("leave out --idempotency-key, or use a new one for each request")
    } else if is(Code::SessionNotFound) || is(Code::SessionExpired) {
        Some("to see which sessions exist: fairhold sessions ls; to open one: fairhold sessions open")
    } else if is(Code::GrantNotFound) || is(Code::GrantGone) {
        Some("stop all work under it; to acquire the lock again: fairhold grants take LOCK")
    } else if is(Code::WouldDeadlock) {
        Some("release a lock that you hold, or acquire all of them in one step: fairhold lock A B -- CMD")
    } else if is(Code::WrongCluster) {
        Some("check the addresses of -e and the id of --cluster-id; a restored cluster has a new id")
    } else if is(Code::NeedsUpgrade) {
        Some("to see what the upgrade waits for: fairhold cluster upgrade status; then: fairhold cluster upgrade finalize")
    } else if is(Code::ChangeInProgress) {
        Some("to see what is in progress: fairhold cluster members; to give up a join: fairhold cluster remove N")
    } else if is(Code::WouldLoseQuorum) {
        Some("to see which members do not answer: fairhold cluster members; start or replace them first")
    } else if is(Code::TimingTooFast) {
        Some("to see the round trips: fairhold cluster timing; to set the profile anyway, pass --force")
    } else if is(Code::WrongNode) {
        Some(
            "to see the address of each member: fairhold cluster members; pass the address at which this member answers, and \
             stop its other process if there is one",
        )
    } else if is(Code::Unauthenticated) {
        Some("pass the file with a valid token: --auth-token-file FILE")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_control_the_terminal() {
        let body = r#"{"code":"lock_held","detail":"the lock is held by \u001b]0;pwned\u0007\r\nFAKE\u009bA\u202e"}"#;
        let refused = Failure::Refused { status: 409, body: body.as_bytes().to_vec() };
        let lines = refused.lines();
        assert!(lines.contains("pwned\\u{7}\\r\\nFAKE\\u{9b}A\\u{202e} (lock_held)\n"), "{lines}");
    }

    #[test]
    fn advice_names_commands_instead_of_parts_of_a_request() {
        let lines = |body: &str| Failure::Refused { status: 409, body: body.as_bytes().to_vec() }.lines();
        let held = r#"{"code":"lock_held","detail":"the lock is held by ci-7","advice":"to queue for it, pass wait=30s"}"#;
        let expected = "fairhold: the lock is held by ci-7 (lock_held)\nfairhold: to queue for it, pass --wait 30s";
        assert_eq!(lines(held), expected);
        let full = r#"{"code":"queue_full","detail":"the queue is full","advice":"try again later"}"#;
        assert_eq!(lines(full), "fairhold: the queue is full (queue_full)\nfairhold: try again later");
        assert_eq!(lines(r#"{"code":"denied","detail":"no"}"#), "fairhold: no (denied)");
        assert_eq!(
            lines(r#"{"code":"unauthenticated","detail":"no"}"#),
            "fairhold: no (unauthenticated)\nfairhold: pass the file with a valid token: --auth-token-file FILE"
        );
        let lost = r#"{"code":"grant_not_found","detail":"no grant has this id","advice":"acquire a new one"}"#;
        assert!(lines(lost).contains("\nfairhold: stop all work under it"), "{}", lines(lost));
        let other = r#"{"code":"grant_not_found","detail":"grant 9 neither holds a nor waits for it"}"#;
        assert_eq!(lines(other), "fairhold: grant 9 neither holds a nor waits for it (grant_not_found)");
        let last = r#"{"code":"would_lose_quorum","detail":"node 1 is the last voter","advice":"x","voters":0}"#;
        assert_eq!(lines(last), "fairhold: node 1 is the last voter (would_lose_quorum)");
        for code in ["needs_upgrade", "change_in_progress", "would_lose_quorum", "wrong_node", "timing_too_fast"] {
            let said = lines(&format!(r#"{{"code":"{code}","detail":"no","advice":"HTTP"}}"#));
            assert!(said.contains("\nfairhold: to see ") && said.contains(": fairhold cluster "), "{said}");
        }
    }

    #[test]
    fn each_failure_has_its_exit_code_and_reason() {
        let refused = |status, body: &str| Failure::Refused { status, body: body.as_bytes().to_vec() };
        let problem = refused(404, r#"{"code":"no_node","detail":"there is no node /a"}"#);
        assert_eq!((problem.code(), problem.to_string().as_str()), (1, "there is no node /a (no_node)"));
        assert_eq!([refused(401, "").code(), refused(403, "").code(), refused(500, "").code()], [77, 77, 1]);
        assert_eq!((Failure::Usage(String::new()).code(), Failure::Unavailable(String::new()).code()), (2, 69));
        let held = refused(409, r#"{"code":"lock_held","detail":"the lock is held by ci-7"}"#);
        assert_eq!((held.code(), refused(409, r#"{"code":"not_empty","detail":"x"}"#).code()), (75, 1));
        let full = refused(429, r#"{"code":"state_full","detail":"x"}"#);
        assert_eq!((full.code(), refused(400, r#"{"code":"bad_request","detail":"x"}"#).code()), (69, 2));
        assert!(refused(502, "<html>").to_string().contains("502"));
    }
}

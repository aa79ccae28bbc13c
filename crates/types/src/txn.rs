//! The JSON bodies of `POST /v1/txn`: conditions, then operations, all or nothing.
//!
//! ```json
//! {"if":   [{"path": "/jobs/7", "version": 3}, {"fence": {"lock": "deploy", "token": 42}}],
//!  "then": [{"put": {"path": "/jobs/7", "value": "done"}}, {"delete": {"path": "/jobs/7/owner"}}],
//!  "else": [{"put": {"path": "/jobs/7/seen", "value": "1"}}]}
//! ```

use crate::{FencingToken, GrantId, LockName, Path, Revision, SessionId, SessionNumber};
use serde::{Deserialize, Serialize};

/// Conditions, and what is done where they hold or where they do not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// What must hold; nothing: `then` is done.
    #[serde(default, rename = "if", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What is done where all conditions hold, each operation after those before it.
    #[serde(default)]
    pub then: Vec<Operation>,
    /// What is done where one condition does not hold. Without it the transaction is refused then, and says which.
    #[serde(default, rename = "else", skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Vec<Operation>>,
}

/// One thing that must hold: a path with `version` or with `exists`, or a fence, or a session that is open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The node, for `version` and `exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
    /// The node exists and has this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    /// Whether the node exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
    /// A grant with this token is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<Fence>,
    /// This session is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionName>,
}

/// A lock and the token that must be that of a held grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Fence {
    /// The lock.
    pub lock: LockName,
    /// The token.
    pub token: FencingToken,
    /// The grant's id, to be exact among readers who share a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
}

/// A session by its public number or by its secret id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a session's number, or its id of 32 hexadecimal digits as a text, is expected")]
pub enum SessionName {
    /// Its number.
    Number(SessionNumber),
    /// Its id.
    Id(SessionId),
}

/// A duration: a text with a unit, or whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "a duration with a unit, like \"30s\", or whole seconds, is expected")]
pub enum Span {
    /// Whole seconds.
    Seconds(u64),
    /// A number with a unit.
    Text(String),
}

/// One operation, named by its only field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Creates a node that must not exist.
    Create(Create),
    /// Writes a node's value, and creates it where it does not exist.
    Put(Put),
    /// Writes the value of a node that exists.
    Set(Set),
    /// Removes a node.
    Delete(Delete),
    /// Changes nothing: the node must exist, or have that version. It sees the operations before it.
    Check(Check),
}

/// Creates a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// The node; with `sequential`, its parent.
    pub path: Path,
    /// Its value, where it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// Whether missing parents are created too.
    #[serde(default)]
    pub parents: bool,
    /// Whether the name is made of `name` and the parent's counter in ten digits.
    #[serde(default)]
    pub sequential: bool,
    /// What a sequential name begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node is ephemeral: it lives as long as this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The node is removed when it was not changed and had no children for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// The node is a container: it is removed some time after its last child.
    #[serde(default)]
    pub container: bool,
}

/// Writes a node's value, and creates it where it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Put {
    /// The node.
    pub path: Path,
    /// Its value, where it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// Whether missing parents are created too.
    #[serde(default)]
    pub parents: bool,
    /// The node is ephemeral: it lives as long as this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The node is removed when it was not changed and had no children for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// The node is a container: it is removed some time after its last child.
    #[serde(default)]
    pub container: bool,
}

/// Writes the value of a node that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The node.
    pub path: Path,
    /// Its value, where it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// The version that it must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
}

/// Removes a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// The node.
    pub path: Path,
    /// The version that it must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    /// Whether all that is below it is removed too.
    #[serde(default)]
    pub recursive: bool,
}

/// Asks that a node exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The node.
    pub path: Path,
    /// The version that it must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
}

/// What a transaction did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Transacted {
    /// Whether all conditions held: `then` was done, and not `else`.
    pub succeeded: bool,
    /// What each operation did, in order.
    pub results: Vec<OperationResult>,
    /// The revision of the transaction.
    pub revision: Revision,
    /// The transaction was done before, with the same key, and its results were too many to be remembered: `results` is empty.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// What one operation did, named as the operation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum OperationResult {
    /// The node was created.
    Create {
        /// Its path, with the number that a sequential one got.
        path: Path,
    },
    /// The node has a new value.
    Put {
        /// Its path.
        path: Path,
        /// Whether it was created.
        created: bool,
        /// Its version now.
        version: i32,
    },
    /// The node has a new value.
    Set {
        /// Its path.
        path: Path,
        /// Its version now.
        version: i32,
    },
    /// The node was removed.
    Delete {
        /// Its path.
        path: Path,
        /// How many nodes went, itself counted.
        count: u32,
    },
    /// The node is as asked.
    Check {
        /// Its path.
        path: Path,
        /// Its version.
        version: i32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_is_named_wherever_it_stands() {
        for (text, name) in [
            (r#"{"than":[]}"#, "than"),
            (r#"{"if":[{"pth":"/a"}]}"#, "pth"),
            (r#"{"if":[{"fence":{"lock":"a","tokn":1}}]}"#, "tokn"),
            (r#"{"then":[{"craete":{"path":"/a"}}]}"#, "craete"),
            (r#"{"then":[{"create":{"path":"/a","vlaue":""}}]}"#, "vlaue"),
            (r#"{"then":[{"put":{"path":"/a","version":1}}]}"#, "version"),
            (r#"{"then":[{"delete":{"path":"/a","value":""}}]}"#, "value"),
            (r#"{"then":[{"check":{"path":"/a","exists":true}}]}"#, "exists"),
        ] {
            let error = serde_json::from_str::<Transaction>(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`")), "{text}: {error}");
        }
    }

    #[test]
    fn what_a_session_or_a_duration_should_be_is_said() {
        for (text, expected) in [
            (r#"{"if":[{"session":true}]}"#, "a session's number, or its id"),
            (r#"{"then":[{"put":{"path":"/a","ttl":true}}]}"#, "a duration with a unit"),
            (r#"{"then":[{"put":{"path":"a"}}]}"#, "a path begins with /"),
        ] {
            let error = serde_json::from_str::<Transaction>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}

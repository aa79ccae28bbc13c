//! The JSON bodies of `POST /v1/txn`: conditions, then operations, all or nothing.
//!
//! ```json
//! {"if":   [{"path": "/jobs/7", "version": 3}, {"fence": {"lock": "deploy", "token": 42}}],
//!  "then": [{"put": {"path": "/jobs/7", "value": "done"}}, {"delete": {"path": "/jobs/7/owner"}}],
//!  "else": [{"put": {"path": "/jobs/7/seen", "value": "1"}}]}
//! ```

use crate::{FencingToken, GrantId, LockName, Path, Revision, SessionId, SessionNumber};
use serde::{Deserialize, Serialize};

/// Conditions, and the operations to run if they hold or do not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = r#"a transaction, such as {"then": [{"put": {"path": "/a", "value": "b"}}]}"#)]
pub struct Transaction {
    /// The conditions; if there are none, `then` runs.
    #[serde(default, rename = "if", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The operations to run if all conditions hold, in order.
    #[serde(default)]
    pub then: Vec<Operation>,
    /// The operations to run if a condition does not hold. Without `else`, the server then refuses the transaction, and
    /// the answer names the condition.
    #[serde(default, rename = "else", skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Vec<Operation>>,
}

/// One condition: a path with `version` or `exists`, a fence, or an open session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = r#"a condition, such as {"path": "/a", "exists": true}"#)]
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

/// A lock, and a token that must belong to a held grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = r#"a lock and a token, such as {"lock": "reports", "token": 42}"#)]
pub struct Fence {
    /// The lock.
    pub lock: LockName,
    /// The token.
    pub token: FencingToken,
    /// The grant's id, to tell apart shared grants with the same token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
}

/// A session by its public number or by its secret id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a session's number, or its id of 32 hexadecimal digits as a string")]
pub enum SessionName {
    /// Its number.
    Number(SessionNumber),
    /// Its id.
    Id(SessionId),
}

/// A duration: a string with a unit, or whole seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged, expecting = "expected a duration with a unit, like \"30s\", or whole seconds")]
pub enum Span {
    /// Whole seconds.
    Seconds(u64),
    /// A number with a unit.
    Text(String),
}

/// One operation: an object whose only field names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Creates a node that must not exist.
    Create(Create),
    /// Writes a node's value, and creates the node if it does not exist.
    Put(Put),
    /// Writes the value of an existing node.
    Set(Set),
    /// Removes a node.
    Delete(Delete),
    /// Changes nothing: checks that the node exists or has that version, after the operations before it.
    Check(Check),
}

/// Creates a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = r#"a path and what to create there, such as {"path": "/a", "value": "b"}"#)]
pub struct Create {
    /// The node; with `sequential`, its parent.
    pub path: Path,
    /// Its value, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// Whether to create missing parents.
    #[serde(default)]
    pub parents: bool,
    /// Whether to build the name from `name` and the parent's counter in ten digits.
    #[serde(default)]
    pub sequential: bool,
    /// The prefix of a sequential name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node is ephemeral: it lives as long as this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The server removes the node once it has been unchanged and without children for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// The node is a container: the server removes it some time after its last child is removed.
    #[serde(default)]
    pub container: bool,
}

/// Writes a node's value, and creates the node if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = r#"a path and a value, such as {"path": "/a", "value": "b"}"#)]
pub struct Put {
    /// The node.
    pub path: Path,
    /// Its value, if it is UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Its value in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<String>,
    /// Whether to create missing parents.
    #[serde(default)]
    pub parents: bool,
    /// The node is ephemeral: it lives as long as this session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The server removes the node once it has been unchanged and without children for this long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Span>,
    /// The node is a container: the server removes it some time after its last child is removed.
    #[serde(default)]
    pub container: bool,
}

/// Writes the value of an existing node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = r#"a path and a value, such as {"path": "/a", "value": "b"}"#)]
pub struct Set {
    /// The node.
    pub path: Path,
    /// Its value, if it is UTF-8.
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
#[serde(deny_unknown_fields, expecting = r#"a path, such as {"path": "/a"}"#)]
pub struct Delete {
    /// The node.
    pub path: Path,
    /// The version that it must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
    /// Whether to remove everything below it too.
    #[serde(default)]
    pub recursive: bool,
}

/// Checks that a node exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, expecting = r#"a path, such as {"path": "/a"}"#)]
pub struct Check {
    /// The node.
    pub path: Path,
    /// The version that it must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i32>,
}

/// The result of a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Transacted {
    /// Whether all conditions held: if so, `then` ran, otherwise `else`.
    pub succeeded: bool,
    /// The result of each operation, in order.
    pub results: Vec<OperationResult>,
    /// The revision of the transaction.
    pub revision: Revision,
    /// The transaction was done earlier with the same key, and its results were too large to keep: `results` is empty.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replayed: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// The result of one operation, named after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum OperationResult {
    /// The node was created.
    Create {
        /// Its path, with the number if it is sequential.
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
        /// How many nodes were removed, including the named one.
        count: u32,
    },
    /// The check passed.
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
    fn an_unknown_field_is_named_at_every_level() {
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
    fn an_error_names_the_expected_form_of_a_session_or_a_duration() {
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

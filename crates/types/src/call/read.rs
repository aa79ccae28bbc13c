//! The options that all reads share.

use serde::{Deserialize, Serialize};

/// How fresh the answer to a read is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// It reflects the state of the server that answers.
    Local,
    /// It reflects everything acknowledged before the request.
    #[default]
    Linearizable,
}

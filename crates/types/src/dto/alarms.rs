//! The JSON body of the alarms of a node.

use crate::NodeId;
use serde::{Deserialize, Serialize};

/// The alarms that a node raises now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Alarms {
    /// The node that answers. Each node tells only what it knows itself.
    pub id: NodeId,
    /// The alarms, the critical ones first.
    pub alarms: Vec<Alarm>,
}

/// An alarm. It is raised while its cause is there, and gone when the cause is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Alarm {
    /// Its name.
    pub alarm: String,
    /// How bad it is.
    pub severity: AlarmSeverity,
    /// Since when it has been raised, by the wall clock of the node.
    pub since: String,
    /// What the node sees.
    pub seen: String,
    /// What to do.
    #[serde(rename = "do")]
    pub advice: String,
}

/// How bad the cause of an alarm is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AlarmSeverity {
    /// The service works, and may fail later.
    Warning,
    /// The service does not work, or fails soon.
    Critical,
}

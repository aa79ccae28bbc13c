//! Why a join token does not admit a node.

use fairhold_types::NodeId;
use serde::{Deserialize, Serialize};

/// Why a join token does not admit a node. Frames encode variants by position: add at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum JoinTokenFault {
    /// The cluster has no such token: it was revoked or forgotten, or its secret differs.
    #[error(
        "the cluster does not know this join token, or it was revoked: create another one with `fairhold cluster invite` or \
         `fairhold cluster replace N`"
    )]
    Unknown,
    /// The token has expired.
    #[error("the join token has expired: create another one with `fairhold cluster invite` or `fairhold cluster replace N`")]
    Expired,
    /// Another node has used the token, or a node that has been removed since.
    #[error(
        "the join token was used before, by node {node}, and admits one node only: create another one with `fairhold cluster \
         invite` or `fairhold cluster replace N`. If node {node} has lost its data, and is a member, replace it: `fairhold \
         cluster replace {node}`. If it is still joining, give up its join: `fairhold cluster remove {node}`"
    )]
    Used {
        /// The node that the token admitted.
        node: NodeId,
    },
    /// The token admits a node only in place of a member, and that member is gone, or another node already replaces it.
    #[error(
        "no member can be replaced with this join token: its member is gone or is already being replaced, or, with a standing \
         token, no member has this address. `fairhold cluster members` shows the members, their addresses and the joins, and \
         `fairhold cluster remove N` gives up the join of node N"
    )]
    NoReplacement,
    /// The data directory is that of a node that has been removed.
    #[error(
        "the data directory is that of node {node}, which was removed from this cluster: start with an empty data directory, \
         and create another join token"
    )]
    Removed {
        /// The removed node.
        node: NodeId,
    },
}

//! The calls, a file for each area.

pub(crate) mod access;
pub(crate) mod acts;
pub(crate) mod backup;
pub(crate) mod batch;
pub(crate) mod cluster;
pub(crate) mod elections;
pub(crate) mod events;
pub(crate) mod front_page;
pub(crate) mod grant_list;
pub(crate) mod grants;
pub(crate) mod history;
pub(crate) mod hold;
pub(crate) mod locks;
pub(crate) mod membership;
pub(crate) mod node_kind;
pub(crate) mod nodes;
pub(crate) mod overview;
pub(crate) mod sessions;
pub(crate) mod txn;
pub(crate) mod ui;
pub(crate) mod waiting;
pub(crate) mod watch;

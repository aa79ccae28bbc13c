//! A new machine, which has no id before the cluster gives it one.

use super::slot::{address_of, url_of};
use crate::disk::Disk;
use fairhold_raft::{JoinRequest, JoinToken};
use fairhold_types::{Incarnation, SupportedVersions};

/// A machine with an empty disk that has no id yet.
#[derive(Clone)]
pub(crate) struct NewMachine {
    /// The host name in its addresses.
    pub(super) name: String,
    pub(super) disk: Disk,
    pub(super) rate: u64,
}

impl NewMachine {
    /// Its request to join.
    pub(crate) fn request(&self, token: &JoinToken) -> JoinRequest {
        JoinRequest {
            token: token.number,
            secret: token.secret.clone(),
            cluster: token.cluster,
            incarnation: self.disk.incarnation,
            url: url_of(&self.name),
            address: address_of(&self.name, 0),
            version: Some("newer".to_owned()),
            supports: SupportedVersions::OWN,
        }
    }

    /// The identity of its data directory.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.disk.incarnation
    }
}

//! How a node starts: with a list of members, with what its data directory knows, or by joining a running cluster.

use super::error::ConfigError;
use crate::{
    member::{MemberError, ServeMember, parse_advertised, parse_members},
    serve::join_token,
    token_name::is_token,
};
use fairhold_storage::{
    data_dir::{DataDir, DataDirError, RecordedNode},
    known_members::{KnownAddresses, KnownMembers},
};
use fairhold_types::{ClusterId, NodeId, Timing};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

/// How a node starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// With an id.
    Known(StartingNode),
    /// Without one: it joins a running cluster.
    Join {
        /// The file with the join token.
        token_file: PathBuf,
    },
}

/// A node that has an id, and the members that it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StartingNode {
    /// Its number.
    pub(crate) id: NodeId,
    /// All nodes that it knows, including itself.
    pub(crate) members: BTreeMap<NodeId, ServeMember>,
    /// Where the members come from.
    pub(crate) source: MemberSource,
    /// Whether it joined a running cluster with a join token.
    pub(crate) joined: bool,
}

/// Where a node knows members from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberSource {
    /// From the configuration. These addresses replace the ones in the data directory.
    List,
    /// From its data directory.
    DataDirectory,
}

/// A remark on the configuration, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartNote {
    /// The node has joined before.
    TokenNotNeeded { file: PathBuf, id: NodeId, cluster: ClusterId },
    /// The cluster has another timing profile.
    TimingIgnored { given: Timing, recorded: Timing },
    /// The node has other addresses than at its last start, and the cluster does not know them.
    AddressesChanged { id: NodeId, from: ServeMember, to: ServeMember },
}

/// What the configuration says about the start.
#[derive(Debug, Default)]
pub(super) struct StartInput {
    pub(super) id: Option<NodeId>,
    pub(super) members: Vec<String>,
    pub(super) join_file: Option<PathBuf>,
    pub(super) advertise: Option<String>,
    pub(super) timing: Option<Timing>,
}

/// How a node starts, with its addresses and its timing profile.
#[derive(Debug)]
pub(super) struct ResolvedStart {
    pub(super) start: Start,
    pub(super) own: ServeMember,
    pub(super) timing: Timing,
    pub(super) notes: Vec<StartNote>,
    /// The names of the values that come from the data directory.
    pub(super) from_directory: Vec<&'static str>,
}

impl Start {
    /// The number of the node, if it has one.
    pub(crate) fn id(&self) -> Option<NodeId> {
        match self {
            Start::Known(node) => Some(node.id),
            Start::Join { .. } => None,
        }
    }
}

impl StartingNode {
    /// The members, as the data directory records them.
    pub(crate) fn known_members(&self) -> KnownMembers {
        let members = self.members.iter().map(|(id, member)| (*id, KnownAddresses::from(member.clone())));
        KnownMembers { joined: self.joined, members: members.collect() }
    }
}

impl StartNote {
    /// Writes it to the log.
    pub(crate) fn log(&self) {
        match self {
            StartNote::TokenNotNeeded { file, id, cluster } => {
                tracing::info!(
                    "the data directory is that of node {id} of the cluster {cluster}: it continues as node {id}, and does not \
                     need the join token in {}",
                    file.display()
                );
            }
            StartNote::TimingIgnored { given, recorded } => tracing::warn!(
                "the cluster has the timing profile {recorded}: --timing {given} has no effect. To change the profile, run \
                 `fairhold cluster set timing={given}`"
            ),
            StartNote::AddressesChanged { id, from, to } => tracing::warn!(
                "this node had the addresses {from} and now has {to}. The cluster does not learn new addresses by itself: run \
                 `fairhold cluster set-member {id} --url {} --peer {}`",
                to.url,
                to.peer
            ),
        }
    }
}

impl StartInput {
    /// Decides how the node starts, by what its data directory knows.
    pub(super) fn resolve(self, data: &Path) -> Result<ResolvedStart, ConfigError> {
        if self.id == Some(0) {
            return Err(ConfigError::IdZero);
        }
        if self.join_file.as_deref().is_some_and(is_token) {
            return Err(ConfigError::TokenAsFile { name: "join-file", token: "join token" });
        }
        let recorded = recorded(data)?;
        let advertised = self.advertise.as_deref().map(parse_advertised).transpose()?;
        let known = recorded.as_ref().and_then(|node| node.id.map(|id| (id, node)));
        let mut notes = Vec::new();
        let mut from_directory = Vec::new();
        if self.id.is_none() && known.is_some() {
            from_directory.push("id");
        }
        let has_list = self.members.iter().any(|entry| !entry.trim().is_empty());
        let (start, own) = match (has_list, &self.join_file, known) {
            (true, Some(_), _) => return Err(ConfigError::MemberAndJoin),
            (true, None, _) => self.with_list(recorded.as_ref(), advertised)?,
            (false, token_file, Some((id, node))) => {
                if let Some(file) = token_file {
                    let Some(cluster) = node.cluster else {
                        return Err(DataDirError::NoCluster { path: data.to_owned(), node: id }.into());
                    };
                    refuse_token_of_another(file, data, (id, cluster))?;
                    notes.push(StartNote::TokenNotNeeded { file: file.clone(), id, cluster });
                }
                if let Some(own) = self.id.filter(|own| *own != id) {
                    return Err(DataDirError::OtherNode { path: data.to_owned(), recorded: id, own }.into());
                }
                if advertised.is_none() {
                    from_directory.push("advertise");
                }
                again(id, node, advertised, &mut notes)?
            }
            (false, Some(token_file), None) => self.joining(token_file, advertised)?,
            (false, None, None) if recorded.is_some() => {
                return Err(DataDirError::NotJoined { path: data.to_owned() }.into());
            }
            (false, None, None) if self.id.is_none() && advertised.is_some() => return Err(ConfigError::JoinFileMissing),
            (false, None, None) => return Err(MemberError::None { id: self.own_id(None)? }.into()),
        };
        let recorded_timing = recorded.and_then(|node| node.timing);
        if let (Some(recorded), Some(given)) = (recorded_timing, self.timing)
            && recorded != given
        {
            notes.push(StartNote::TimingIgnored { given, recorded });
        }
        if recorded_timing.is_some() {
            from_directory.push("timing");
        }
        let timing = recorded_timing.or(self.timing).unwrap_or_default();
        Ok(ResolvedStart { start, own, timing, notes, from_directory })
    }

    /// Starts with a list of members, which replaces what the data directory knows.
    fn with_list(
        &self,
        recorded: Option<&RecordedNode>,
        advertised: Option<ServeMember>,
    ) -> Result<(Start, ServeMember), ConfigError> {
        let id = self.own_id(recorded.and_then(|node| node.id))?;
        let members = parse_members(id, &self.members)?;
        let Some(own) = members.get(&id).cloned() else {
            return Err(MemberError::OwnMissing { id, known: members.into_keys().collect() }.into());
        };
        if let Some(advertised) = advertised.filter(|advertised| *advertised != own) {
            return Err(ConfigError::AdvertiseDiffers { advertised: advertised.to_string(), listed: own.to_string() });
        }
        let joined = recorded.and_then(|node| node.members.as_ref()).is_some_and(|members| members.joined);
        Ok((Start::Known(StartingNode { id, members, source: MemberSource::List, joined }), own))
    }

    /// Joins a running cluster.
    fn joining(&self, token_file: &Path, advertised: Option<ServeMember>) -> Result<(Start, ServeMember), ConfigError> {
        if let Some(id) = self.id {
            return Err(ConfigError::IdAndJoin { id });
        }
        let own = advertised.ok_or(ConfigError::Missing {
            name: "advertise",
            form: "http://HOST:7171,HOST:7271",
            variable: "FAIRHOLD_ADVERTISE",
        })?;
        Ok((Start::Join { token_file: token_file.to_owned() }, own))
    }

    fn own_id(&self, recorded: Option<NodeId>) -> Result<NodeId, ConfigError> {
        let missing = ConfigError::Missing { name: "id", form: "N", variable: "FAIRHOLD_ID" };
        self.id.or(recorded).ok_or(missing)
    }
}

/// Refuses a join token of another cluster than the directory's: the node would not join where its operator wants it to,
/// and that other cluster would grant the same locks. A node that has joined does not need the token, so a file that is
/// gone or has no token is no reason.
fn refuse_token_of_another(file: &Path, data: &Path, (node, recorded): (NodeId, ClusterId)) -> Result<(), ConfigError> {
    match join_token::read(file) {
        Ok(token) if token.cluster != recorded => Err(ConfigError::TokenOfOtherCluster {
            data: data.display().to_string(),
            node,
            recorded,
            file: file.display().to_string(),
            named: token.cluster,
        }),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Starts again with what the data directory knows.
fn again(
    id: NodeId,
    node: &RecordedNode,
    advertised: Option<ServeMember>,
    notes: &mut Vec<StartNote>,
) -> Result<(Start, ServeMember), ConfigError> {
    let Some(known) = node.members.clone() else { return Err(MemberError::None { id }.into()) };
    let mut members: BTreeMap<NodeId, ServeMember> =
        known.members.into_iter().map(|(id, addresses)| (id, addresses.into())).collect();
    let former = members.get(&id).cloned();
    let Some(own) = advertised.or_else(|| former.clone()) else { return Err(MemberError::None { id }.into()) };
    if let Some(from) = former.filter(|former| *former != own && node.cluster.is_some()) {
        notes.push(StartNote::AddressesChanged { id, from, to: own.clone() });
    }
    members.insert(id, own.clone());
    let source = MemberSource::DataDirectory;
    Ok((Start::Known(StartingNode { id, members, source, joined: known.joined }), own))
}

/// What the data directory knows. A directory that cannot be read counts as unknown: opening it reports the reason.
fn recorded(data: &Path) -> Result<Option<RecordedNode>, ConfigError> {
    match DataDir::recorded(data) {
        Err(DataDirError::Io(error))
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        recorded => Ok(recorded?),
    }
}

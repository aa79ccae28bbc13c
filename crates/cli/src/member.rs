//! The addresses of nodes: the list of members, `1=http://HOST:7171,HOST:7271` for each node, and those of a node that
//! joins. Every error says what to write instead.

use fairhold_storage::known_members::KnownAddresses;
use fairhold_types::{
    NodeId,
    call::{NodeUrl, ParseAddressError, PeerAddress, split_url},
    limits::NODE_ID_MAX,
};
use std::{collections::BTreeMap, fmt};

/// The addresses of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServeMember {
    /// For clients: `http://HOST:PORT` or `https://HOST:PORT`.
    pub(crate) url: String,
    /// For the other nodes: `HOST:PORT`.
    pub(crate) peer: String,
}

impl fmt::Display for ServeMember {
    /// As in `--member` and `--advertise`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.url, self.peer)
    }
}

impl From<KnownAddresses> for ServeMember {
    fn from(KnownAddresses { url, peer }: KnownAddresses) -> ServeMember {
        ServeMember { url, peer }
    }
}

impl From<ServeMember> for KnownAddresses {
    fn from(ServeMember { url, peer }: ServeMember) -> KnownAddresses {
        KnownAddresses { url, peer }
    }
}

/// Why a list of members is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MemberError {
    /// The list is empty.
    #[error(
        "there are no members: pass --member {id}=http://HOST:7171,HOST:7271 and the same for every other node, on every node. \
         To join a running cluster, pass --join-file and --advertise instead"
    )]
    None {
        /// This node.
        id: NodeId,
    },
    /// A malformed member.
    #[error("--member {entry}: {fault}; write it as N=http://HOST:7171,HOST:7271 (number, URL for clients, address for nodes)")]
    Malformed { entry: String, fault: MemberFault },
    /// Two nodes with one number.
    #[error("--member {id}=… appears twice: list every node once, with its own number")]
    Duplicate { id: NodeId },
    /// One address used twice.
    #[error("{address} is the address of node {first} and of node {second}: every node needs two addresses of its own")]
    Shared {
        address: String,
        /// The node that has it.
        first: NodeId,
        /// The node that has it too.
        second: NodeId,
    },
    /// The list lacks this node.
    #[error(
        "node {id} is not among the members {known:?}: start every node with the same list, which includes the node itself. Add \
         --member {id}=http://HOST:7171,HOST:7271, or correct --id"
    )]
    OwnMissing {
        /// This node.
        id: NodeId,
        /// The nodes in the list.
        known: Vec<NodeId>,
    },
}

/// Why a member is malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MemberFault {
    /// No number, 0, or a number that is too high.
    #[error("it does not start with a number from 1 to {}, and `=`", NODE_ID_MAX)]
    Number,
    /// No comma.
    #[error("it has one address but needs two, separated by a comma")]
    OneAddress,
    /// Neither `http://` nor `https://`.
    #[error("its URL does not start with http:// or https://")]
    Scheme,
    /// More than scheme, host and port.
    #[error("its URL contains more than http://HOST:PORT")]
    UrlTail,
    /// Not host and port.
    #[error("{0}")]
    Address(#[from] AddressFault),
}

/// The string is not `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a HOST:PORT (a port from 1 to 65535; an IPv6 address in brackets)")]
pub(crate) struct AddressFault(pub(crate) String);

/// Parses and checks the whole list. One entry may contain several members separated by white space, as in an
/// environment variable.
pub(crate) fn parse_members(id: NodeId, entries: &[String]) -> Result<BTreeMap<NodeId, ServeMember>, MemberError> {
    let mut members = BTreeMap::new();
    let mut owners: BTreeMap<String, NodeId> = BTreeMap::new();
    for entry in entries.iter().flat_map(|entry| entry.split_whitespace()) {
        let (member_id, member) =
            parse_member(entry).map_err(|fault| MemberError::Malformed { entry: entry.to_owned(), fault })?;
        if members.contains_key(&member_id) {
            return Err(MemberError::Duplicate { id: member_id });
        }
        for address in [client_address(&member), &member.peer] {
            if let Some(first) = owners.insert(address.to_owned(), member_id) {
                return Err(MemberError::Shared { address: address.to_owned(), first, second: member_id });
            }
        }
        members.insert(member_id, member);
    }
    if members.is_empty() {
        return Err(MemberError::None { id });
    }
    if !members.contains_key(&id) {
        return Err(MemberError::OwnMissing { id, known: members.into_keys().collect() });
    }
    Ok(members)
}

/// Why the addresses of a node are malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--advertise {text}: {fault}; write it as http://HOST:7171,HOST:7271 (URL for clients, address for nodes)")]
pub(crate) struct AdvertiseError {
    text: String,
    fault: AdvertiseFault,
}

/// What is wrong with the addresses of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum AdvertiseFault {
    #[error("it has one address but needs two, separated by a comma")]
    OneAddress,
    #[error("both addresses are {0}, but a node needs one port for clients and another one for nodes")]
    Same(String),
    #[error("{0}")]
    Address(#[from] ParseAddressError),
}

/// Parses the two addresses at which a node can be reached.
pub(crate) fn parse_advertised(text: &str) -> Result<ServeMember, AdvertiseError> {
    advertised(text).map_err(|fault| AdvertiseError { text: text.to_owned(), fault })
}

fn advertised(text: &str) -> Result<ServeMember, AdvertiseFault> {
    let (url, peer) = text.split_once(',').ok_or(AdvertiseFault::OneAddress)?;
    let url: NodeUrl = url.parse()?;
    let peer: PeerAddress = peer.parse()?;
    let member = ServeMember { url: url.into_string(), peer: peer.into_string() };
    if client_address(&member) == member.peer {
        return Err(AdvertiseFault::Same(member.peer));
    }
    Ok(member)
}

/// `HOST:PORT` of the member's URL.
pub(crate) fn client_address(member: &ServeMember) -> &str {
    split_url(&member.url).map_or(&member.url, |(_, address)| address)
}

fn parse_member(entry: &str) -> Result<(NodeId, ServeMember), MemberFault> {
    let (id, addresses) = entry.split_once('=').ok_or(MemberFault::Number)?;
    let id: NodeId = id.parse().ok().filter(|id| (1..=NODE_ID_MAX).contains(id)).ok_or(MemberFault::Number)?;
    let (url, peer) = addresses.split_once(',').ok_or(MemberFault::OneAddress)?;
    let (scheme, client) = split_url(url).ok_or(MemberFault::Scheme)?;
    let client = client.strip_suffix('/').unwrap_or(client);
    if client.contains(['/', '?', '#', '@']) {
        return Err(MemberFault::UrlTail);
    }
    check_address(client)?;
    check_address(peer)?;
    Ok((id, ServeMember { url: format!("{scheme}{client}"), peer: peer.to_owned() }))
}

/// Checks the syntax of `HOST:PORT`. Does not resolve the host.
pub(crate) fn check_address(text: &str) -> Result<(), AddressFault> {
    let fault = || AddressFault(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']').ok_or_else(fault)?,
        None if host.contains(':') => return Err(fault()),
        None => host,
    };
    let is_host = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || ".-_:%".contains(c));
    let is_port = port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0);
    if is_host && is_port { Ok(()) } else { Err(fault()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(id: NodeId, entries: &[&str]) -> Result<BTreeMap<NodeId, ServeMember>, MemberError> {
        parse_members(id, &entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>())
    }

    fn complaint(id: NodeId, entries: &[&str]) -> String {
        parse(id, entries).unwrap_err().to_string()
    }

    #[test]
    fn several_flags_and_one_variable_give_the_same_list() {
        let flags = parse(2, &["1=http://a:7171,a:7271", "2=http://[::1]:7171/,[::1]:7271"]).unwrap();
        let secure = parse(1, &["1=https://a:7171/,a:7271"]).unwrap();
        assert_eq!((secure[&1].url.as_str(), client_address(&secure[&1])), ("https://a:7171", "a:7171"));
        let variable = parse(2, &["1=http://a:7171,a:7271  2=http://[::1]:7171,[::1]:7271\n"]).unwrap();
        assert_eq!(flags, variable);
        assert_eq!(flags[&2], ServeMember { url: "http://[::1]:7171".to_owned(), peer: "[::1]:7271".to_owned() });
        assert_eq!(client_address(&flags[&1]), "a:7171");
    }

    #[test]
    fn a_list_without_this_node_names_its_members() {
        assert!(complaint(3, &["1=http://a:1,a:2", "2=http://b:1,b:2"]).contains("node 3 is not among the members [1, 2]"));
        assert!(complaint(3, &[]).contains("--member 3=http://HOST:7171,HOST:7271"));
    }

    #[test]
    fn duplicate_numbers_and_addresses_are_refused() {
        assert!(complaint(1, &["1=http://a:1,a:2", "1=http://b:1,b:2"]).contains("--member 1=… appears twice"));
        assert!(complaint(1, &["1=http://a:1,a:2", "2=http://b:1,a:2"]).contains("a:2 is the address of node 1 and of node 2"));
        assert!(complaint(1, &["1=http://a:1,a:1"]).contains("a:1 is the address of node 1 and of node 1"));
    }

    #[test]
    fn advertised_addresses_can_be_reached_by_other_machines() {
        let member = parse_advertised("http://d:7171/,d:7271").unwrap();
        assert_eq!(member, ServeMember { url: "http://d:7171".to_owned(), peer: "d:7271".to_owned() });
        assert_eq!(ServeMember::from(KnownAddresses::from(member.clone())), member);
        for (text, fault) in [
            ("http://d:7171", "one address"),
            ("d:7171,d:7271", "http://HOST:PORT"),
            ("http://d:7171,d", "HOST:PORT"),
            ("http://d:7171,0.0.0.0:7271", "other machines can reach"),
            ("http://[::]:7171,d:7271", "other machines can reach"),
            ("4=http://d:7171,d:7271", "http://HOST:PORT"),
            ("http://d:7271,d:7271", "both addresses are d:7271"),
            ("https://d:7271/,d:7271", "both addresses are d:7271"),
        ] {
            let error = parse_advertised(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--advertise {text}: ")) && error.contains(fault), "{error}");
        }
    }

    #[test]
    fn an_error_about_a_member_names_the_fault() {
        for (entry, fault) in [
            ("http://a:1,a:2", "start with a number"),
            ("0=http://a:1,a:2", "start with a number"),
            ("-1=http://a:1,a:2", "start with a number"),
            ("x=http://a:1,a:2", "start with a number"),
            ("1000000000000001=http://a:1,a:2", "a number from 1 to 1000000000000000, and `=`"),
            ("1=http://a:1", "one address"),
            ("1=ftp://a:1,a:2", "http:// or https://"),
            ("1=a:1,a:2", "http://"),
            ("1=http://a:1/x,a:2", "contains more than http://HOST:PORT"),
            ("1=http://u@a:1,a:2", "contains more than http://HOST:PORT"),
            ("1=http://a,a:2", "`a` is not a HOST:PORT"),
            ("1=http://a:0,a:2", "`a:0` is not a HOST:PORT"),
            ("1=http://a:1,a:65536", "`a:65536` is not a HOST:PORT"),
            ("1=http://a:1,a:+2", "`a:+2` is not a HOST:PORT"),
            ("1=http://a:1,::1:2", "`::1:2` is not a HOST:PORT"),
            ("1=http://a:1,:2", "`:2` is not a HOST:PORT"),
            ("1=http://a:1,a:2,a:3", "`a:2,a:3` is not a HOST:PORT"),
        ] {
            let text = complaint(1, &[entry]);
            assert!(text.starts_with(&format!("--member {entry}: ")) && text.contains(fault), "{entry}: {text}");
        }
    }
}

//! What a node leaves unprotected at addresses that other machines can reach. Only `--insecure` allows it.

/// Something that a node leaves unprotected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposure {
    /// Other nodes need not authenticate.
    OpenPeers,
    /// The connections to the other nodes have no TLS.
    PlainPeers,
    /// Clients use plain text.
    PlainClients,
    /// Clients can use plain text, at the second address for them.
    PlainClientsToo,
}

impl Exposure {
    /// The value in `GET /v1/cluster`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Exposure::OpenPeers => "open_peers",
            Exposure::PlainPeers => "plain_peers",
            Exposure::PlainClients | Exposure::PlainClientsToo => "plain_clients",
        }
    }

    /// What an attacker can do, and from where.
    pub(crate) fn danger(self) -> &'static str {
        match self {
            Exposure::OpenPeers => "anyone who can reach the peer port can read, change and destroy all data of this cluster",
            Exposure::PlainPeers => "anyone on the network between the nodes can read and alter all data of this cluster",
            Exposure::PlainClients | Exposure::PlainClientsToo => {
                "anyone on the network of the clients can read and alter what they send and get"
            }
        }
    }

    /// What to do instead, or under which condition `--insecure` is right.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Exposure::OpenPeers => {
                "Either give every node a certificate, with --peer-tls required (--peer-cert, --peer-key, --peer-ca, \
                 --cluster-name; `fairhold cert` makes the files), or pass --insecure if a firewall admits nobody but the \
                 nodes; then let them authenticate each other at least, with the same --peer-key-file on every node \
                 (`openssl rand -hex 32 > peer.key; chmod 600 peer.key`)"
            }
            Exposure::PlainPeers => {
                "Either give every node a certificate (--peer-cert, --peer-key, --peer-ca, --cluster-name; `fairhold cert` \
                 makes the files), or pass --insecure if you trust that network"
            }
            Exposure::PlainClients => {
                "Either give this node a certificate (--cert, --key; `fairhold cert node` makes one), or pass --insecure if you \
                 trust that network"
            }
            Exposure::PlainClientsToo => "Either use a loopback address, or pass --insecure if you trust that network",
        }
    }
}

//! The dialling side of a join: a node without an id shows its join token to a node of a cluster.

use crate::{
    exchange::Exchange,
    frame::FrameKind,
    handshake::{self, HANDSHAKE_TIMEOUT, HandshakeSettings, Hello, Purpose},
    handshake_error::{DialError, HandshakeError},
    join_texts::check_decision,
    key::PeerKeys,
    reader::FrameLimits,
    security::PeerSecurity,
    serve_join::JOIN_TIMEOUT,
};
use fairhold_raft::peer::{JoinRefusal, JoinRequest, Joined, KeyMismatch, Refusal, WIRE_VERSION};
use fairhold_trust::fault::TlsFault;
use std::time::Duration;
use tokio::time::timeout;

/// How long to wait for the decision: longer than the other node waits for it.
const DECISION_TIMEOUT: Duration = JOIN_TIMEOUT.saturating_add(Duration::from_secs(2));

/// Why a node gave no decision on a join. Each reason can pass: try this node again later, or another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// No node answers at the address. The join token was not sent.
    #[error("no node can be reached there: {0}")]
    Unreachable(String),
    /// TLS failed, or a certificate does not fit. The join token was not sent.
    #[error("{0}")]
    Tls(TlsFault),
    /// The two nodes share no peer key. The join token was not sent.
    #[error("{0}")]
    Key(KeyMismatch),
    /// The other node's program is too old. The join token was not sent.
    #[error("the node there runs a program that is older than join tokens: finish its upgrade first")]
    TooOld,
    /// The other node's program is too new. The join token was not sent.
    #[error(
        "the node there uses peer protocol {theirs}, but this program uses {ours}: install the program that the cluster runs \
         on this machine"
    )]
    TooNew {
        /// The other node's.
        theirs: u16,
        /// This program's.
        ours: u16,
    },
    /// The other node has no cluster. The join token was not sent.
    #[error("the node there is starting, or its cluster has not formed yet: try again in a moment")]
    NoCluster,
    /// The other node refused this one before the decision.
    #[error("the node there refuses: {0}")]
    Refused(Refusal),
    /// The connection ended without a decision. The cluster may have admitted this node: a repeated join gets the same
    /// id.
    #[error("the node there gave no answer, possibly because too many nodes want to join: {0}")]
    NoAnswer(String),
    /// The answer makes no sense.
    #[error("the node there gave an answer that makes no sense: {0}")]
    Malformed(String),
}

/// Asks the node at this address to let this node join its cluster. The join token's secret is sent only to a node that
/// has one of the keys, fits `security`, and is in the token's cluster.
pub async fn join(
    address: &str,
    request: JoinRequest,
    keys: &PeerKeys,
    security: &PeerSecurity,
) -> Result<Result<Joined, JoinRefusal>, JoinError> {
    let settings = HandshakeSettings {
        keys: keys.clone(),
        security: security.clone(),
        frame_limits: FrameLimits::default(),
        time_limit: HANDSHAKE_TIMEOUT,
    };
    let socket = security.dial(address, None, settings.time_limit).await.map_err(not_dialled)?;
    // The node has no id yet, and it knows only addresses.
    let hello = Hello { from: 0, to: 0, purpose: Purpose::Join, nonce: rand::random() };
    let begun = timeout(settings.time_limit, handshake::begin(socket, WIRE_VERSION, &hello, &settings)).await;
    let begun = begun.unwrap_or(Err(HandshakeError::TimedOut(settings.time_limit)));
    let (exchange, other) = match begun {
        Ok(welcomed) => welcomed.map_err(before_decision)?,
        Err(error) => return Err(not_dialled(error.into())),
    };
    match other.cluster {
        Some(cluster) if cluster == request.cluster => {}
        Some(cluster) => return Ok(Err(JoinRefusal::OtherCluster { theirs: request.cluster, ours: cluster })),
        None => return Err(JoinError::NoCluster),
    }
    let answered = timeout(DECISION_TIMEOUT, ask(exchange, &request)).await;
    let answered = answered.unwrap_or(Err(HandshakeError::TimedOut(DECISION_TIMEOUT)));
    let decision = match answered {
        Ok(answered) => answered.map_err(before_decision)?,
        Err(HandshakeError::Unreadable(error)) => return Err(JoinError::Malformed(error.to_string())),
        Err(error) => return Err(JoinError::NoAnswer(error.to_string())),
    };
    check_decision(&decision).map_err(JoinError::Malformed)?;
    match &decision {
        Ok(joined) if joined.cluster != request.cluster => {
            Err(JoinError::Malformed(format!("this node joined cluster {}, not {}", joined.cluster, request.cluster)))
        }
        Ok(joined) if joined.id == 0 => Err(JoinError::Malformed("this node got the id 0".to_owned())),
        Ok(_) | Err(_) => Ok(decision),
    }
}

/// Sends the request and receives the decision. The inner error is a refusal by either side.
async fn ask(
    mut exchange: Exchange,
    request: &JoinRequest,
) -> Result<Result<Result<Joined, JoinRefusal>, Refusal>, HandshakeError> {
    exchange.send_with_proof(FrameKind::Join, request).await?;
    match handshake::receive_answer(&mut exchange, FrameKind::Joined).await? {
        Ok(message) => Ok(Ok(message.read()?)),
        Err(refusal) => Ok(Err(refusal)),
    }
}

fn not_dialled(error: DialError) -> JoinError {
    match error {
        DialError::Refused(refusal) => before_decision(refusal),
        DialError::Tls(fault) => JoinError::Tls(fault),
        DialError::Failed(reason) => JoinError::Unreachable(reason),
    }
}

fn before_decision(refusal: Refusal) -> JoinError {
    match refusal {
        // The refused preamble names the other node's version.
        Refusal::Version { theirs, ours } if theirs > ours => JoinError::TooNew { theirs, ours },
        Refusal::Version { .. } => JoinError::TooOld,
        Refusal::Key(mismatch) => JoinError::Key(mismatch),
        Refusal::Cluster { .. }
        | Refusal::Incarnation { .. }
        | Refusal::Identity { .. }
        | Refusal::Starting
        | Refusal::NotAMember { .. }
        | Refusal::LostEntries(_)
        | Refusal::Removed { .. }
        | Refusal::Duplicate { .. } => JoinError::Refused(refusal),
    }
}

//! The handshake of two nodes: preambles, proofs, introductions and refusals, before any request.
//!
//! Until the other side has proved that it is a member (`key`), each side reveals only its node id and its purpose. The
//! preamble is the same in all versions. A dialler offers its newest version; if the acceptor answers with an older one
//! that the dialler speaks too, the dialler dials again with that one. A node that wants to join dials only with the
//! newest one.

pub use crate::{
    exchange::{MAGIC, PREAMBLE_BYTES, preamble},
    handshake_error::HandshakeError,
    socket::CONNECT_TIMEOUT,
};

use crate::{
    compat::refusal_in,
    exchange::{self, Connection, Exchange},
    frame::{Frame, FrameError, FrameKind},
    handshake_error::DialError,
    key::{Keys, PeerKeys, Side, Transcript},
    peer_socket::PeerSocket,
    reader::FrameLimits,
    security::PeerSecurity,
};
use fairhold_raft::peer::{
    ConnectionSide, Introduction, JoinRefusal, JoinRequest, Joined, KeyMismatch, Lane, Refusal, Requester, Service, Target,
    WIRE_VERSION, WIRE_VERSION_OLDEST,
};
use fairhold_types::NodeId;
use serde::{Deserialize, Serialize};
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// The timeout of a handshake, on both sides.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The oldest wire version in which a node can join.
pub const JOIN_WIRE_VERSION: u16 = 4;

/// Random bytes that make each handshake unique.
pub type Nonce = [u8; 32];

/// The dialler's first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The dialler's node id; 0 if it wants to join, because then it has none.
    pub from: NodeId,
    /// The node id that it expects to reach; 0 if it wants to join, because then it knows only addresses.
    pub to: NodeId,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// Fresh random bytes.
    pub nonce: Nonce,
}

/// The acceptor's first message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// Fresh random bytes.
    pub nonce: Nonce,
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To fetch the peer's identity, nothing else.
    Greet,
    /// To carry the requests of one lane.
    Lane(Lane),
    /// To join the peer's cluster, nothing else.
    Join,
}

/// The result of an accepted connection's handshake.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A member fetched this node's identity.
    Greeted,
    /// The peer did not prove that it is a member. It learned nothing.
    Unauthenticated(KeyMismatch),
    /// A member that may send requests.
    Admitted { connection: Connection, requester: Requester },
    /// A member that received a refusal with its reason, or a node of another version.
    Refused { from: Option<NodeId>, refusal: Refusal },
    /// A node that waits for the cluster's decision.
    Joining(Box<Joining>),
}

/// A node that wants to join. It has proved that it has the cluster's peer key, but it is no member.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) exchange: Exchange,
    pub(crate) request: JoinRequest,
}

/// The dialler's hello.
pub fn hello(hello: &Hello, transcript: &mut Transcript) -> Result<Frame, HandshakeError> {
    exchange::frame_without_proof(FrameKind::Hello, hello, transcript)
}

/// Decodes a hello, the first frame from an unknown peer.
pub fn read_hello(frame: &Frame) -> Result<Hello, HandshakeError> {
    exchange::unsealed(&frame.payload)
}

/// The acceptor's challenge.
pub fn challenge(challenge: &Challenge, transcript: &mut Transcript) -> Result<Frame, HandshakeError> {
    exchange::frame_without_proof(FrameKind::Challenge, challenge, transcript)
}

/// The dialler's proof.
pub fn proof(transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    exchange::frame_with_proof(FrameKind::Proof, &(), transcript, keys, Side::Dialler)
}

/// The acceptor's proof and introduction.
pub fn welcome(version: u16, own: &Introduction, transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    exchange::frame_with_introduction(FrameKind::Welcome, version, own, transcript, keys, Side::Acceptor)
}

/// The dialler's introduction.
pub fn introduction(version: u16, own: &Introduction, transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    exchange::frame_with_introduction(FrameKind::Introduction, version, own, transcript, keys, Side::Dialler)
}

/// The frame that admits a dialler.
pub fn admitted(transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    exchange::frame_with_proof(FrameKind::Admitted, &(), transcript, keys, Side::Acceptor)
}

/// The frame that refuses a dialler.
pub fn refused(refusal: &Refusal, transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    exchange::frame_with_proof(FrameKind::Refused, refusal, transcript, keys, Side::Acceptor)
}

/// The request of a node that wants to join.
pub fn join(request: &JoinRequest, transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    exchange::frame_with_proof(FrameKind::Join, request, transcript, keys, Side::Dialler)
}

/// The cluster's decision on a join.
pub fn joined(decision: &Result<Joined, JoinRefusal>, transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    exchange::frame_with_proof(FrameKind::Joined, decision, transcript, keys, Side::Acceptor)
}

/// The parameters of one side of a handshake.
#[derive(Debug, Clone)]
pub(crate) struct HandshakeSettings {
    pub(crate) keys: PeerKeys,
    pub(crate) security: PeerSecurity,
    pub(crate) frame_limits: FrameLimits,
    pub(crate) time_limit: Duration,
}

/// Dials a node and performs the handshake. No request can reach the peer before this returns. Without a lane, the
/// handshake ends with the peer's introduction.
pub(crate) async fn dial(
    to: &Target,
    lane: Option<Lane>,
    service: &dyn Service,
    settings: &HandshakeSettings,
) -> Result<(Connection, Introduction), DialError> {
    let time_limit = settings.time_limit;
    let mut version = WIRE_VERSION;
    loop {
        let socket = settings.security.dial(&to.address, Some(to.id), time_limit).await?;
        let answered = timeout(time_limit, introduce(socket, version, to, lane, service, settings)).await;
        match answered.unwrap_or(Err(HandshakeError::TimedOut(time_limit))) {
            // An older program.
            Ok(Err(Refusal::Version { theirs, .. })) if (WIRE_VERSION_OLDEST..version).contains(&theirs) => version = theirs,
            Ok(answer) => return answer.map_err(DialError::Refused),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether the target machine refuses connections to the port. If a node listens there, it gets a complete handshake.
pub(crate) async fn is_refused(to: &Target, service: &dyn Service, settings: &HandshakeSettings) -> bool {
    let probe = async {
        match TcpStream::connect(&to.address).await {
            Ok(stream) => {
                // The result does not matter: the machine accepted the connection.
                if let Ok(socket) = settings.security.secure(stream, &to.address, Some(to.id), settings.time_limit).await {
                    drop(introduce(socket, WIRE_VERSION, to, None, service, settings).await);
                }
                false
            }
            Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        }
    };
    timeout(settings.time_limit, probe).await.unwrap_or(false)
}

/// The dialler's side of the handshake. The inner error is the refusal.
async fn introduce(
    socket: PeerSocket,
    version: u16,
    to: &Target,
    lane: Option<Lane>,
    service: &dyn Service,
    settings: &HandshakeSettings,
) -> Result<Result<(Connection, Introduction), Refusal>, HandshakeError> {
    let own = service.introduction();
    let purpose = lane.map_or(Purpose::Greet, Purpose::Lane);
    let hello = Hello { from: own.id, to: to.id, purpose, nonce: rand::random() };
    let (mut exchange, other) = match begin(socket, version, &hello, settings).await? {
        Ok(welcomed) => welcomed,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if lane.is_none() {
        return Ok(to.check(&other).map(|()| (exchange.admit(), other)));
    }
    exchange.send_introduction(FrameKind::Introduction, &own).await?;
    // Wait for the peer's verdict before checking the peer: then the peer also logs why the nodes cannot communicate.
    let answer = receive_answer(&mut exchange, FrameKind::Admitted).await?;
    let verdict = answer.and_then(|_| to.check(&other)).and_then(|()| service.admit(&other, ConnectionSide::Dialled));
    if verdict.is_ok() {
        settings.security.check_process(&other, exchange.has_tls())?;
    }
    Ok(verdict.map(|()| (exchange.admit(), other)))
}

/// The dialler's side of every handshake, up to the acceptor's introduction. The inner error is the refusal.
pub(crate) async fn begin(
    socket: PeerSocket,
    version: u16,
    hello: &Hello,
    settings: &HandshakeSettings,
) -> Result<Result<(Exchange, Introduction), Refusal>, HandshakeError> {
    let mut exchange = Exchange::dial(socket, version, settings.keys.now(), &settings.frame_limits).await?;
    exchange.send_without_proof(FrameKind::Hello, hello).await?;
    if let Err(refusal) = exchange.receive_version().await? {
        return Ok(Err(refusal));
    }
    let _: Challenge = exchange.receive(FrameKind::Challenge).await?.read()?;
    exchange.send_with_proof(FrameKind::Proof, &()).await?;
    match receive_answer(&mut exchange, FrameKind::Welcome).await? {
        Ok(message) => {
            let other = exchange.read_introduction(&message)?;
            exchange.check_certificate(other.id)?;
            Ok(Ok((exchange, other)))
        }
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Receives a member's answer. The inner error is a refusal by either side.
pub(crate) async fn receive_answer(
    exchange: &mut Exchange,
    kind: FrameKind,
) -> Result<Result<exchange::Message, Refusal>, HandshakeError> {
    let message = match exchange.receive_with_proof().await? {
        Ok(message) => message,
        Err(mismatch) => return Ok(Err(Refusal::Key(mismatch))),
    };
    match message.kind {
        found if found == kind => Ok(Ok(message)),
        FrameKind::Refused => Ok(Err(message.read()?)),
        FrameKind::Hello
        | FrameKind::Welcome
        | FrameKind::Request
        | FrameKind::Answer
        | FrameKind::Challenge
        | FrameKind::Proof
        | FrameKind::Introduction
        | FrameKind::Admitted
        | FrameKind::Join
        | FrameKind::Joined => Err(FrameError::UnexpectedKind(message.kind).into()),
    }
}

/// Performs the handshake with a dialler, and admits or refuses it.
pub(crate) async fn accept(
    stream: TcpStream,
    service: &dyn Service,
    settings: &HandshakeSettings,
) -> Result<Accepted, HandshakeError> {
    let accepted = timeout(settings.time_limit, answer(stream, service, settings)).await;
    accepted.unwrap_or(Err(HandshakeError::TimedOut(settings.time_limit)))
}

async fn answer(stream: TcpStream, service: &dyn Service, settings: &HandshakeSettings) -> Result<Accepted, HandshakeError> {
    let socket = settings.security.accept(stream).await?;
    let (mut exchange, version) = Exchange::accept(socket, settings.keys.now(), &settings.frame_limits).await?;
    if let Err(refusal) = version {
        exchange.close_gracefully().await?;
        return Ok(Accepted::Refused { from: None, refusal });
    }
    let hello: Hello = exchange.receive(FrameKind::Hello).await?.read()?;
    if hello.purpose == Purpose::Join && exchange.version() < JOIN_WIRE_VERSION {
        return Err(HandshakeError::JoinTooOld { version: exchange.version() });
    }
    if hello.purpose != Purpose::Join {
        exchange.check_certificate(hello.from)?;
    }
    exchange.send_without_proof(FrameKind::Challenge, &Challenge { nonce: rand::random() }).await?;
    if let Err(mismatch) = receive_member(&mut exchange, FrameKind::Proof).await? {
        return refuse_key(exchange, mismatch).await;
    }
    // From here on, the peer has the key of the members. Its node id is not confirmed until it introduces itself.
    let own = service.introduction();
    let from = hello.from;
    if hello.purpose != Purpose::Join && hello.to != own.id {
        return refuse(exchange, from, Refusal::Identity { expected: hello.to, found: own.id }).await;
    }
    // Any member receives the introduction: a node that will be refused must be able to learn why.
    exchange.send_introduction(FrameKind::Welcome, &own).await?;
    let lane = match hello.purpose {
        Purpose::Greet => {
            exchange.close_gracefully().await?;
            return Ok(Accepted::Greeted);
        }
        Purpose::Lane(lane) => lane,
        Purpose::Join => {
            return match receive_member(&mut exchange, FrameKind::Join).await? {
                Ok(message) => Ok(Accepted::Joining(Box::new(Joining { request: message.read()?, exchange }))),
                Err(mismatch) => refuse_key(exchange, mismatch).await,
            };
        }
    };
    let other: Introduction = match receive_member(&mut exchange, FrameKind::Introduction).await? {
        Ok(message) => exchange.read_introduction(&message)?,
        Err(mismatch) => return refuse_key(exchange, mismatch).await,
    };
    if other.id != from {
        return Err(HandshakeError::IdChanged { first: from, introduced: other.id });
    }
    match service.admit(&other, ConnectionSide::Accepted) {
        Ok(()) => {
            settings.security.check_process(&other, exchange.has_tls())?;
            exchange.send_with_proof(FrameKind::Admitted, &()).await?;
            Ok(Accepted::Admitted { connection: exchange.admit(), requester: Requester { node: from, boot: other.boot, lane } })
        }
        Err(refusal) => refuse(exchange, from, refusal).await,
    }
}

/// Receives a frame with a proof. The inner error is an invalid proof.
async fn receive_member(
    exchange: &mut Exchange,
    kind: FrameKind,
) -> Result<Result<exchange::Message, KeyMismatch>, HandshakeError> {
    match exchange.receive_with_proof().await? {
        Ok(message) if message.kind != kind => Err(FrameError::UnexpectedKind(message.kind).into()),
        message => Ok(message),
    }
}

async fn refuse_key(mut exchange: Exchange, mismatch: KeyMismatch) -> Result<Accepted, HandshakeError> {
    exchange.refuse_key(mismatch).await?;
    exchange.close_gracefully().await?;
    Ok(Accepted::Unauthenticated(mismatch))
}

async fn refuse(mut exchange: Exchange, from: NodeId, refusal: Refusal) -> Result<Accepted, HandshakeError> {
    exchange.send_with_proof(FrameKind::Refused, &refusal_in(exchange.version(), &refusal)).await?;
    exchange.close_gracefully().await?;
    Ok(Accepted::Refused { from: Some(from), refusal })
}

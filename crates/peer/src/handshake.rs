//! The handshake of two nodes: preambles, proofs, introductions and refusals, before any request.
//!
//! Neither says more than its number and what it wants before the other one has proved that it is a member (`key`). The preamble
//! stays the same in all versions, so that nodes of different versions can tell each other which they are.

pub use crate::{
    handshake_error::HandshakeError,
    meeting::{MAGIC, PREAMBLE_BYTES},
};

use crate::{
    frame::{Frame, FrameError, FrameKind},
    key::{Keys, PeerKeys, Side, Transcript},
    meeting::{self, Connection, Meeting},
    reader::Arrivals,
};
use fairhold_raft::peer::{Introduction, KeyMismatch, Lane, PeerError, Refusal, Service, Target, WIRE_VERSION};
use fairhold_types::NodeId;
use serde::{Deserialize, Serialize};
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// A handshake that takes longer is given up, by both sides.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// A host that does not take a connection within this time counts as unreachable.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Random bytes that make each handshake unique.
pub type Nonce = [u8; 32];

/// What the dialler says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Who dials.
    pub from: NodeId,
    /// Whom it thinks that it dials.
    pub to: NodeId,
    /// What for.
    pub purpose: Purpose,
    /// New random bytes.
    pub nonce: Nonce,
}

/// What the acceptor says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// New random bytes.
    pub nonce: Nonce,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To learn who the other side is, nothing else.
    Greet,
    /// To carry the requests of one lane.
    Lane(Lane),
}

/// What became of an accepted connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// A member asked for this node's identity and got it.
    Greeted,
    /// It did not prove that it is a member, and learned nothing.
    Unproved(KeyMismatch),
    /// A member that may send requests.
    Admitted { connection: Connection, from: NodeId, lane: Lane },
    /// A member that was told why not; or a node of another version.
    Refused { from: Option<NodeId>, refusal: Refusal },
}

/// This node's preamble.
#[must_use]
pub fn preamble() -> [u8; PREAMBLE_BYTES] {
    let [low, high] = WIRE_VERSION.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = MAGIC;
    [a, b, c, d, e, f, g, h, low, high]
}

/// What a dialler says before it is answered.
pub fn hello(hello: &Hello, transcript: &mut Transcript) -> Result<Frame, HandshakeError> {
    meeting::said(FrameKind::Hello, hello, transcript)
}

/// What a frame says as a hello, the first that is heard of a stranger.
pub fn read_hello(frame: &Frame) -> Result<Hello, HandshakeError> {
    meeting::unsealed(&frame.payload)
}

/// What the acceptor answers.
pub fn challenge(challenge: &Challenge, transcript: &mut Transcript) -> Result<Frame, HandshakeError> {
    meeting::said(FrameKind::Challenge, challenge, transcript)
}

/// The frame by which a dialler proves itself.
pub fn proof(transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    meeting::proved(FrameKind::Proof, &(), transcript, keys, Side::Dialler)
}

/// The frame by which an acceptor proves and introduces itself.
pub fn welcome(own: &Introduction, transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    meeting::proved(FrameKind::Welcome, own, transcript, keys, Side::Acceptor)
}

/// The frame by which a dialler introduces itself.
pub fn introduction(own: &Introduction, transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    meeting::proved(FrameKind::Introduction, own, transcript, keys, Side::Dialler)
}

/// The frame by which a dialler is let in.
pub fn admitted(transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    meeting::proved(FrameKind::Admitted, &(), transcript, keys, Side::Acceptor)
}

/// The frame by which a dialler is refused.
pub fn refused(refusal: &Refusal, transcript: &mut Transcript, keys: &Keys) -> Result<Frame, HandshakeError> {
    meeting::proved(FrameKind::Refused, refusal, transcript, keys, Side::Acceptor)
}

/// The parameters of one side of a handshake.
#[derive(Debug, Clone)]
pub(crate) struct Manners {
    pub(crate) keys: PeerKeys,
    pub(crate) arrivals: Arrivals,
    pub(crate) time_limit: Duration,
}

/// Dials a node and introduces this one. Before this returns, no request can have reached the other side.
pub(crate) async fn dial(
    to: &Target,
    purpose: Purpose,
    service: &dyn Service,
    manners: &Manners,
) -> Result<(Connection, Introduction), PeerError> {
    let unreachable = |reason: String| PeerError::Unreachable(format!("node {} at {}: {reason}", to.id, to.address));
    let time_limit = manners.time_limit;
    let connect_limit = CONNECT_TIMEOUT.min(time_limit);
    let stream = match timeout(connect_limit, TcpStream::connect(&to.address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(unreachable(error.to_string())),
        Err(_) => return Err(unreachable(format!("no connection within {connect_limit:?}"))),
    };
    let answered = timeout(time_limit, introduce(stream, to, purpose, service, manners)).await;
    match answered.unwrap_or(Err(HandshakeError::TimedOut(time_limit))) {
        Ok(answer) => answer.map_err(PeerError::Refused),
        Err(error) => Err(unreachable(error.to_string())),
    }
}

/// Whether the machine there refuses connections to this port. Who listens is greeted, and not left with a stranger.
pub(crate) async fn is_refused(to: &Target, service: &dyn Service, manners: &Manners) -> bool {
    let asked = async {
        match TcpStream::connect(&to.address).await {
            Ok(stream) => {
                // Whatever becomes of it: the connection was let in.
                drop(introduce(stream, to, Purpose::Greet, service, manners).await);
                false
            }
            Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        }
    };
    timeout(manners.time_limit, asked).await.unwrap_or(false)
}

/// The dialler's half. The inner error is the refusal.
async fn introduce(
    stream: TcpStream,
    to: &Target,
    purpose: Purpose,
    service: &dyn Service,
    manners: &Manners,
) -> Result<Result<(Connection, Introduction), Refusal>, HandshakeError> {
    let mut meeting = Meeting::new(stream, Side::Dialler, manners.keys.now(), &manners.arrivals)?;
    let own = service.introduction();
    meeting.write(&preamble()).await?;
    meeting.say(FrameKind::Hello, &Hello { from: own.id, to: to.id, purpose, nonce: rand::random() }).await?;
    if let Err(refusal) = meeting.hear_preamble().await? {
        return Ok(Err(refusal));
    }
    let _: Challenge = meeting.hear(FrameKind::Challenge).await?.read()?;
    meeting.prove(FrameKind::Proof, &()).await?;
    let other: Introduction = match hear_answer(&mut meeting, FrameKind::Welcome).await? {
        Ok(heard) => heard.read()?,
        Err(refusal) => return Ok(Err(refusal)),
    };
    match purpose {
        Purpose::Greet => return Ok(check_target(to, &other).map(|()| (meeting.admit(), other))),
        Purpose::Lane(_) => {}
    }
    meeting.prove(FrameKind::Introduction, &own).await?;
    // The other side's verdict comes first: so it knows, and says in its log too, why the two do not speak.
    let answer = hear_answer(&mut meeting, FrameKind::Admitted).await?;
    let verdict = answer.and_then(|_| check_target(to, &other)).and_then(|()| service.admit(&other));
    Ok(verdict.map(|()| (meeting.admit(), other)))
}

/// Hears what a member answers. The inner error is a refusal, of either side.
async fn hear_answer(meeting: &mut Meeting, kind: FrameKind) -> Result<Result<meeting::Greeting, Refusal>, HandshakeError> {
    let heard = match meeting.hear_proved().await? {
        Ok(heard) => heard,
        Err(mismatch) => return Ok(Err(Refusal::Key(mismatch))),
    };
    match heard.kind {
        found if found == kind => Ok(Ok(heard)),
        FrameKind::Refused => Ok(Err(heard.read()?)),
        FrameKind::Hello
        | FrameKind::Welcome
        | FrameKind::Request
        | FrameKind::Answer
        | FrameKind::Challenge
        | FrameKind::Proof
        | FrameKind::Introduction
        | FrameKind::Admitted => Err(FrameError::UnexpectedKind(heard.kind).into()),
    }
}

/// Whether the one who answered is the one who was dialled.
fn check_target(to: &Target, other: &Introduction) -> Result<(), Refusal> {
    if other.id != to.id {
        return Err(Refusal::Identity { expected: to.id, found: other.id });
    }
    match to.incarnation {
        Some(expected) if expected != other.incarnation => {
            Err(Refusal::Incarnation { id: to.id, expected, found: other.incarnation })
        }
        Some(_) | None => Ok(()),
    }
}

/// Hears out who connected, and lets it in or not.
pub(crate) async fn accept(stream: TcpStream, service: &dyn Service, manners: &Manners) -> Result<Accepted, HandshakeError> {
    let accepted = timeout(manners.time_limit, answer(stream, service, manners)).await;
    accepted.unwrap_or(Err(HandshakeError::TimedOut(manners.time_limit)))
}

async fn answer(stream: TcpStream, service: &dyn Service, manners: &Manners) -> Result<Accepted, HandshakeError> {
    let mut meeting = Meeting::new(stream, Side::Acceptor, manners.keys.now(), &manners.arrivals)?;
    // A stranger learns nothing: this node says its preamble only to one who said the magic.
    let version = meeting.hear_preamble().await?;
    meeting.write(&preamble()).await?;
    if let Err(refusal) = version {
        meeting.part().await?;
        return Ok(Accepted::Refused { from: None, refusal });
    }
    let hello: Hello = meeting.hear(FrameKind::Hello).await?.read()?;
    meeting.say(FrameKind::Challenge, &Challenge { nonce: rand::random() }).await?;
    if let Err(mismatch) = hear_member(&mut meeting, FrameKind::Proof).await? {
        return turn_away(meeting, mismatch).await;
    }
    // From here on it is a member that hears. Which one it says that it is counts when it introduces itself.
    let (own, from) = (service.introduction(), hello.from);
    if hello.to != own.id {
        return refuse(meeting, from, Refusal::Identity { expected: hello.to, found: own.id }).await;
    }
    // From any member: a node that would be refused must be able to learn why.
    meeting.prove(FrameKind::Welcome, &own).await?;
    let lane = match hello.purpose {
        Purpose::Greet => {
            meeting.part().await?;
            return Ok(Accepted::Greeted);
        }
        Purpose::Lane(lane) => lane,
    };
    let other: Introduction = match hear_member(&mut meeting, FrameKind::Introduction).await? {
        Ok(heard) => heard.read()?,
        Err(mismatch) => return turn_away(meeting, mismatch).await,
    };
    if other.id != from {
        return Err(HandshakeError::TwoNames { began: from, introduced: other.id });
    }
    match service.admit(&other) {
        Ok(()) => {
            meeting.prove(FrameKind::Admitted, &()).await?;
            Ok(Accepted::Admitted { connection: meeting.admit(), from, lane })
        }
        Err(refusal) => refuse(meeting, from, refusal).await,
    }
}

/// Hears what the dialler has to prove next. The inner error: it has not proved it.
async fn hear_member(meeting: &mut Meeting, kind: FrameKind) -> Result<Result<meeting::Greeting, KeyMismatch>, HandshakeError> {
    match meeting.hear_proved().await? {
        Ok(heard) if heard.kind != kind => Err(FrameError::UnexpectedKind(heard.kind).into()),
        heard => Ok(heard),
    }
}

async fn turn_away(mut meeting: Meeting, mismatch: KeyMismatch) -> Result<Accepted, HandshakeError> {
    meeting.refuse_key(mismatch).await?;
    meeting.part().await?;
    Ok(Accepted::Unproved(mismatch))
}

async fn refuse(mut meeting: Meeting, from: NodeId, refusal: Refusal) -> Result<Accepted, HandshakeError> {
    meeting.prove(FrameKind::Refused, &refusal).await?;
    meeting.part().await?;
    Ok(Accepted::Refused { from: Some(from), refusal })
}

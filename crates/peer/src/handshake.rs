//! How two nodes meet: preambles, introductions, and who refuses whom, before any request.
//!
//! The preamble stays the same in all versions, so that nodes of different versions can tell each other which they are.

use crate::frame::{Frame, FrameCodec, FrameError, HANDSHAKE_BYTES_MAX, Kind, WRITE_BYTES};
use bytes::{Bytes, BytesMut};
use fairhold_codec::{DecodeError, EncodeError};
use fairhold_raft::peer::{Introduction, Lane, PeerError, Refusal, Service, Target, WIRE_VERSION};
use fairhold_types::NodeId;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{io, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};
use tokio_util::codec::{Encoder, FramedRead};

/// How long the end of a connection whose peer is refused may take.
const PARTING_MAX: Duration = Duration::from_secs(1);

/// What every connection begins with, in both directions.
pub const MAGIC: [u8; 8] = *b"FAIRHOLD";

/// Magic and version.
pub const PREAMBLE_BYTES: usize = MAGIC.len() + 2;

/// A handshake that takes longer is given up, by both sides.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// A host that does not take a connection within this time counts as unreachable.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The codec's version byte of the values in the handshake.
const VALUE_VERSION: u8 = 1;

/// What the dialler says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Who dials.
    pub introduction: Introduction,
    /// Whom it thinks that it dials.
    pub to: NodeId,
    /// What for.
    pub purpose: Purpose,
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To learn who the other side is, nothing else.
    Greet,
    /// To carry the requests of one lane.
    Lane(Lane),
}

/// Why a handshake came to nothing, other than by a refusal.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// Not a node at all.
    #[error("the other side is no fairhold node, or this is not its peer port")]
    Stranger,
    /// It ended the connection.
    #[error("the other side closed the connection during the handshake")]
    Closed,
    /// It took too long.
    #[error("no handshake within {0:?}")]
    TimedOut(Duration),
    /// A frame that is none.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// A frame with something else in it.
    #[error("an unreadable introduction: {0}")]
    Unreadable(#[from] DecodeError),
    /// This node's own introduction cannot be written.
    #[error("this node's introduction cannot be sent: {0}")]
    Unwritable(#[from] EncodeError),
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        match error.kind() == io::ErrorKind::UnexpectedEof {
            true => HandshakeError::Closed,
            false => HandshakeError::Frame(FrameError::Io(error)),
        }
    }
}

/// Both directions of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) reader: FramedRead<OwnedReadHalf, FrameCodec>,
    pub(crate) writer: OwnedWriteHalf,
}

/// What became of an accepted connection.
#[derive(Debug)]
pub(crate) enum Accepted {
    /// It wanted to know who this node is, and was told.
    Greeted,
    /// It may send requests.
    Admitted { connection: Connection, from: NodeId, lane: Lane },
    /// It was told why not.
    Refused { from: Option<NodeId>, refusal: Refusal },
}

/// This node's preamble.
#[must_use]
pub fn preamble() -> [u8; PREAMBLE_BYTES] {
    let [low, high] = WIRE_VERSION.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = MAGIC;
    [a, b, c, d, e, f, g, h, low, high]
}

/// All that a dialler sends before it is answered.
pub fn opening(hello: &Hello) -> Result<Bytes, HandshakeError> {
    let mut bytes = BytesMut::from(&preamble()[..]);
    FrameCodec::for_handshake().encode(sealed(Kind::Hello, hello)?, &mut bytes)?;
    Ok(bytes.freeze())
}

/// The frame by which a dialler is let in.
pub fn welcome(own: &Introduction) -> Result<Frame, HandshakeError> {
    sealed(Kind::Welcome, own)
}

/// The frame by which a dialler is refused.
pub fn refused(refusal: &Refusal) -> Result<Frame, HandshakeError> {
    sealed(Kind::Refused, refusal)
}

/// Dials a node and introduces this one. Before this returns, no request can have reached the other side.
pub(crate) async fn dial(
    to: &Target,
    purpose: Purpose,
    service: &dyn Service,
    time_limit: Duration,
) -> Result<(Connection, Introduction), PeerError> {
    let unreachable = |reason: String| PeerError::Unreachable(format!("node {} at {}: {reason}", to.id, to.address));
    let connect_limit = CONNECT_TIMEOUT.min(time_limit);
    let stream = match timeout(connect_limit, TcpStream::connect(&to.address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(unreachable(error.to_string())),
        Err(_) => return Err(unreachable(format!("no connection within {connect_limit:?}"))),
    };
    let answered = timeout(time_limit, introduce(stream, to, purpose, service)).await;
    let (connection, other) = match answered.unwrap_or(Err(HandshakeError::TimedOut(time_limit))) {
        Ok(answer) => answer.map_err(PeerError::Refused)?,
        Err(error) => return Err(unreachable(error.to_string())),
    };
    check_target(to, &other).map_err(PeerError::Refused)?;
    match purpose {
        Purpose::Greet => {}
        Purpose::Lane(_) => service.admit(&other).map_err(PeerError::Refused)?,
    }
    Ok((connection, other))
}

/// Whether the machine there refuses connections to this port. Who listens is greeted, and not left with a stranger.
pub(crate) async fn is_refused(to: &Target, service: &dyn Service, time_limit: Duration) -> bool {
    let asked = async {
        match TcpStream::connect(&to.address).await {
            Ok(stream) => {
                // Whatever becomes of it: the connection was let in.
                drop(introduce(stream, to, Purpose::Greet, service).await);
                false
            }
            Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        }
    };
    timeout(time_limit, asked).await.unwrap_or(false)
}

/// The dialler's half. The inner error is the refusal.
async fn introduce(
    stream: TcpStream,
    to: &Target,
    purpose: Purpose,
    service: &dyn Service,
) -> Result<Result<(Connection, Introduction), Refusal>, HandshakeError> {
    let mut connection = Connection::new(stream)?;
    let hello = Hello { introduction: service.introduction(), to: to.id, purpose };
    connection.writer.write_all(&opening(&hello)?).await?;
    if let Err(refusal) = connection.read_preamble().await? {
        return Ok(Err(refusal));
    }
    let answer = connection.read_frame().await?;
    match answer.kind {
        Kind::Welcome => {
            let other = unsealed(&answer)?;
            connection.reader.decoder_mut().admit();
            Ok(Ok((connection, other)))
        }
        Kind::Refused => Ok(Err(unsealed(&answer)?)),
        Kind::Hello | Kind::Request | Kind::Answer => Err(FrameError::UnexpectedKind(answer.kind).into()),
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
pub(crate) async fn accept(stream: TcpStream, service: &dyn Service, time_limit: Duration) -> Result<Accepted, HandshakeError> {
    let accepted = timeout(time_limit, answer(stream, service)).await;
    accepted.unwrap_or(Err(HandshakeError::TimedOut(time_limit)))
}

async fn answer(stream: TcpStream, service: &dyn Service) -> Result<Accepted, HandshakeError> {
    let mut connection = Connection::new(stream)?;
    // A stranger learns nothing: this node says its preamble only to one who said the magic.
    let version = connection.read_preamble().await?;
    connection.writer.write_all(&preamble()).await?;
    if let Err(refusal) = version {
        connection.part().await?;
        return Ok(Accepted::Refused { from: None, refusal });
    }
    let frame = connection.read_frame().await?;
    let hello: Hello = match frame.kind {
        Kind::Hello => unsealed(&frame)?,
        Kind::Welcome | Kind::Refused | Kind::Request | Kind::Answer => {
            return Err(FrameError::UnexpectedKind(frame.kind).into());
        }
    };
    let own = service.introduction();
    let lane = match hello.purpose {
        Purpose::Greet => {
            // Answered whoever asks: a node that would be refused must be able to learn why.
            connection.send(welcome(&own)?).await?;
            connection.part().await?;
            return Ok(Accepted::Greeted);
        }
        Purpose::Lane(lane) => lane,
    };
    let from = hello.introduction.id;
    let verdict = match hello.to == own.id {
        true => service.admit(&hello.introduction),
        false => Err(Refusal::Identity { expected: hello.to, found: own.id }),
    };
    match verdict {
        Ok(()) => {
            connection.send(welcome(&own)?).await?;
            connection.reader.decoder_mut().admit();
            Ok(Accepted::Admitted { connection, from, lane })
        }
        Err(refusal) => {
            connection.send(refused(&refusal)?).await?;
            connection.part().await?;
            Ok(Accepted::Refused { from: Some(from), refusal })
        }
    }
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Self> {
        crate::socket::configure(&stream)?;
        let (reader, writer) = stream.into_split();
        let reader = FramedRead::with_capacity(reader, FrameCodec::for_handshake(), WRITE_BYTES);
        Ok(Connection { reader, writer })
    }

    /// The inner error refuses another version.
    async fn read_preamble(&mut self) -> Result<Result<(), Refusal>, HandshakeError> {
        let mut bytes = [0; PREAMBLE_BYTES];
        self.reader.get_mut().read_exact(&mut bytes).await?;
        let [magic @ .., low, high] = bytes;
        if magic != MAGIC {
            return Err(HandshakeError::Stranger);
        }
        match u16::from_le_bytes([low, high]) {
            WIRE_VERSION => Ok(Ok(())),
            theirs => Ok(Err(Refusal::Version { theirs, ours: WIRE_VERSION })),
        }
    }

    async fn read_frame(&mut self) -> Result<Frame, HandshakeError> {
        match self.reader.next().await {
            Some(frame) => Ok(frame?),
            None => Err(HandshakeError::Closed),
        }
    }

    async fn send(&mut self, frame: Frame) -> Result<(), HandshakeError> {
        let mut bytes = BytesMut::new();
        FrameCodec::for_handshake().encode(frame, &mut bytes)?;
        Ok(self.writer.write_all(&bytes).await?)
    }

    /// Ends a connection so that the last words arrive: a socket that is closed with unread bytes in it sends a reset, which
    /// can overtake them. A peer that goes on sending, or does not hang up, is not waited for long.
    async fn part(mut self) -> Result<(), HandshakeError> {
        self.writer.shutdown().await?;
        let mut rest = self.reader.into_inner().take(HANDSHAKE_BYTES_MAX as u64);
        match timeout(PARTING_MAX, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await {
            Ok(Ok(_)) | Err(_) => Ok(()),
            // The other side has read what it wanted and hung up.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
            Ok(Err(error)) => Err(error.into()),
        }
    }
}

fn sealed(kind: Kind, value: &impl Serialize) -> Result<Frame, HandshakeError> {
    let payload = fairhold_codec::encode(VALUE_VERSION, value)?;
    Ok(Frame { kind, number: 0, payload: payload.into() })
}

/// What the payload of a frame of the handshake says.
pub fn unsealed<T: DeserializeOwned>(frame: &Frame) -> Result<T, HandshakeError> {
    Ok(fairhold_codec::decode(VALUE_VERSION, &frame.payload)?)
}

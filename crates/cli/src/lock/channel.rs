//! The messages between `fairhold lock` and its supervisor over a socket. The socket also tells each that the other
//! lives: it closes when the process at its other end ends, for any reason.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    os::unix::net::UnixStream as StdStream,
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

/// The byte that travels with the command's standard input.
const INPUT: u8 = b'i';

/// An order to the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SupervisorOrder {
    /// The lock is certainly held until this time since boot, in milliseconds. Shortly before it, the supervisor stops
    /// the command without a further order.
    HeldUntil(u64),
    /// Pass this signal on to the process group.
    Signal(i32),
    /// Stop the group: SIGTERM, and SIGKILL after this many milliseconds.
    Stop(u64),
    /// Continue the group after a suspension.
    Continue,
}

/// A report of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SupervisorReport {
    /// The command was suspended by this signal.
    Suspended(i32),
    /// The lock was about to pass, so the group is being stopped.
    OutOfTime,
    /// The command has ended with this exit code, and the rest of its group is gone or goes with the supervisor.
    Ended(u8),
}

/// Time since boot, in which suspension of the machine counts: the same for both processes.
pub(super) fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // Neither part of a time since boot is negative.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Hands over the command's standard input. The supervisor starts the command when it receives it.
pub(super) fn send_input(socket: &StdStream, input: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let inputs = [input];
    if !control.push(SendAncillaryMessage::ScmRights(&inputs)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    sendmsg(socket, &[IoSlice::new(&[INPUT])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Waits for the command's standard input; none if the other side is gone.
pub(super) fn receive_input(socket: &StdStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = loop {
        match recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let files = control.drain().filter_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut files) = message else { return None };
        files.next()
    });
    Ok(files.last())
}

/// One end of the socket.
#[derive(Debug)]
pub(super) struct Channel {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Channel {
    /// Needs a runtime.
    pub(super) fn new(socket: StdStream) -> io::Result<Channel> {
        socket.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(socket)?.into_split();
        Ok(Channel { lines: BufReader::new(reader).lines(), writer })
    }

    /// Sends a message. If the other side is gone, `receive` reports it.
    pub(super) async fn send(&mut self, message: impl Serialize) {
        // Serialising cannot fail, and a lost message does not matter: the other side has ended then.
        let line = format!("{}\n", serde_json::to_string(&message).unwrap_or_default());
        self.writer.write_all(line.as_bytes()).await.ok();
    }

    /// Waits for a message of the other side; none when it is gone. Dropping this loses nothing.
    pub(super) async fn receive<T: DeserializeOwned>(&mut self) -> Option<T> {
        let line = self.lines.next_line().await.ok().flatten()?;
        serde_json::from_str(&line).ok()
    }
}

//! What both ends of a connection ask of the operating system.

use socket2::{SockRef, TcpKeepalive};
use std::{io, time::Duration};
use tokio::net::TcpStream;

/// An idle connection is probed after this long.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(2);

/// Then this often.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);

/// And given up after this many unanswered probes.
const KEEPALIVE_PROBES: u32 = 3;

/// A connection on which sent bytes stay unacknowledged for so long is broken: a host that lost its power sends no goodbye.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(4);

/// Sends at once, and notices a peer that vanished without a word.
pub(crate) fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY).with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

//! How a TCP connection is opened, and its options on both ends.

use socket2::{SockRef, TcpKeepalive};
use std::{io, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// The connect timeout: after this time the host counts as unreachable.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// An idle connection is probed after this long.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(2);

/// The interval of further probes.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);

/// The number of unanswered probes before it is closed.
const KEEPALIVE_PROBES: u32 = 3;

/// A connection breaks if sent bytes stay unacknowledged for this long: a host that lost power does not close it.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(4);

/// Opens a connection, or returns the reason why there is none.
pub(crate) async fn connect(address: &str, within: Duration) -> Result<TcpStream, String> {
    match timeout(within, TcpStream::connect(address)).await {
        Ok(connected) => connected.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no connection within {within:?}")),
    }
}

/// Sends without delay, and detects a peer that vanished silently.
pub(crate) fn configure(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY).with_retries(KEEPALIVE_PROBES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

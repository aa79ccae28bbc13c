//! A spare descriptor for when the process has no other left. The listener frees it to accept a connection and close
//! it, so that the client notices and the next connection can be handled.

use futures_util::FutureExt as _;
use std::{
    fs::File,
    io,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

/// The kernel's errors if this process or the machine has too many open files: EMFILE, ENFILE.
const TOO_MANY_OPEN: [i32; 2] = [24, 23];
/// The shortest time between two log lines about missing descriptors.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The spare descriptor.
#[derive(Debug)]
pub(super) struct Spare {
    file: Option<File>,
    logged_at: Option<Instant>,
    shed: u64,
}

impl Spare {
    pub(super) fn new() -> Spare {
        Spare { file: open(), logged_at: None, shed: 0 }
    }

    /// If the error means that no descriptors are left, closes the next waiting connection. Returns whether it did.
    pub(super) fn shed(&mut self, error: &io::Error, socket: &TcpListener) -> bool {
        if !error.raw_os_error().is_some_and(|number| TOO_MANY_OPEN.contains(&number)) {
            return false;
        }
        self.file = None;
        let shed = matches!(socket.accept().now_or_never(), Some(Ok(_)));
        self.file = open();
        self.shed += u64::from(shed);
        let now = Instant::now();
        if shed && self.logged_at.is_none_or(|logged_at| now.duration_since(logged_at) >= LOG_INTERVAL) {
            self.logged_at = Some(now);
            let shed = std::mem::take(&mut self.shed);
            tracing::warn!(
                %error,
                shed,
                "closed connections without an answer: raise the limit on open files, or lower --connections-max"
            );
        }
        shed
    }
}

fn open() -> Option<File> {
    File::open("/dev/null").ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncReadExt, net::TcpStream};

    #[tokio::test]
    async fn a_connection_without_a_descriptor_is_closed_and_not_left_waiting() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(socket.local_addr().unwrap()).await.unwrap();
        let mut spare = Spare::new();
        assert!(!spare.shed(&io::Error::from_raw_os_error(103), &socket), "an aborted connection needs no descriptor");
        while !spare.shed(&io::Error::from_raw_os_error(24), &socket) {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
        assert!(spare.file.is_some(), "the spare is open again");
    }
}

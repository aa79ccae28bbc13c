//! A descriptor that is kept for the moment in which the process has no other left: with it, a connection that cannot be served
//! is taken and closed, so that its client hears of it and the next one can be looked at.

use futures_util::FutureExt as _;
use std::{
    fs::File,
    io,
    time::{Duration, Instant},
};
use tokio::net::TcpListener;

/// What the kernel answers where this process, or the machine, has too many files open: EMFILE, ENFILE.
const TOO_MANY_OPEN: [i32; 2] = [24, 23];
/// Between two log lines about it at least this much passes.
const SAID_EVERY: Duration = Duration::from_secs(10);

/// The descriptor.
#[derive(Debug)]
pub(super) struct Spare {
    file: Option<File>,
    said: Option<Instant>,
    shed: u64,
}

impl Spare {
    pub(super) fn new() -> Spare {
        Spare { file: open(), said: None, shed: 0 }
    }

    /// Closes the next connection that waits, where the error is that there are no more descriptors. Says whether it did.
    pub(super) fn shed(&mut self, error: &io::Error, socket: &TcpListener) -> bool {
        if !error.raw_os_error().is_some_and(|number| TOO_MANY_OPEN.contains(&number)) {
            return false;
        }
        self.file = None;
        let shed = matches!(socket.accept().now_or_never(), Some(Ok(_)));
        self.file = open();
        self.shed += u64::from(shed);
        let now = Instant::now();
        if shed && self.said.is_none_or(|said| now.duration_since(said) >= SAID_EVERY) {
            self.said = Some(now);
            let shed = std::mem::take(&mut self.shed);
            tracing::warn!(
                %error,
                shed,
                "connections were closed unheard: raise the limit on open files, or lower --connections-max"
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
    async fn a_connection_for_which_there_is_no_descriptor_is_closed_and_not_left_waiting() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(socket.local_addr().unwrap()).await.unwrap();
        let mut spare = Spare::new();
        assert!(!spare.shed(&io::Error::from_raw_os_error(103), &socket), "a connection that was given up needs no descriptor");
        while !spare.shed(&io::Error::from_raw_os_error(24), &socket) {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
        assert!(spare.file.is_some(), "for the next one");
    }
}

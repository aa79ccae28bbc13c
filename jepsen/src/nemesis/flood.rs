//! A client machine opens TLS connections as fast as it can: it sends the beginning of a handshake, so that the server
//! signs its answer, and closes the connection.

use super::{Injected, Undo, World};
use crate::cluster::CLIENT_PORT;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
    task::JoinSet,
};

/// How many connections are open at a time.
const AT_ONCE: usize = 24;
/// A connection without an answer is closed after this time.
const GIVES_UP_AFTER: Duration = Duration::from_secs(2);
/// The pause of each attacker between two connections.
const PAUSE: Duration = Duration::from_millis(5);
/// The first byte of an answer that belongs to a handshake.
const HANDSHAKE: u8 = 0x16;

/// A flood under way.
#[derive(Debug)]
pub(super) struct Flood {
    attackers: JoinSet<()>,
    stop: watch::Sender<()>,
    answered: Arc<AtomicU64>,
}

pub(super) async fn flood_handshakes(world: &mut World) -> Injected {
    let leader = world.leader().await?;
    let address = format!("{}:{CLIENT_PORT}", world.network.address(leader));
    let (stop, stopped) = watch::channel(());
    let answered = Arc::new(AtomicU64::new(0));
    let mut attackers = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (address, answered, mut stopped) = (address.clone(), Arc::clone(&answered), stopped.clone());
        attackers.spawn(async move {
            // The sender is dropped at the end.
            tokio::select! { _ = stopped.changed() => {}, () = attack(&address, &answered) => {} }
        });
    }
    Ok((format!("node {leader}"), Undo::Flood(Flood { attackers, stop, answered })))
}

/// Ends it. Returns how many handshakes the node has answered.
pub(super) async fn heal(flood: Flood) -> Result<String, String> {
    let Flood { attackers, stop, answered } = flood;
    drop(stop);
    attackers.join_all().await;
    match answered.load(Ordering::Relaxed) {
        0 => Err("no handshake was answered".to_owned()),
        answered => Ok(format!("{answered} handshakes")),
    }
}

async fn attack(address: &str, answered: &AtomicU64) {
    let hello = client_hello(rand::random());
    loop {
        if let Ok(Ok(HANDSHAKE)) = tokio::time::timeout(GIVES_UP_AFTER, answer(address, &hello)).await {
            answered.fetch_add(1, Ordering::Relaxed);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The first byte that a server answers to a beginning of a handshake.
async fn answer(address: &str, hello: &[u8]) -> std::io::Result<u8> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(hello).await?;
    stream.read_u8().await
}

/// A `ClientHello` of TLS 1.3 with a share for X25519: any 32 bytes are a public key.
fn client_hello(random: [u8; 32]) -> Vec<u8> {
    let supported_versions = extension(43, &[2, 0x03, 0x04]);
    let supported_groups = extension(10, &sized(&[0x00, 0x1d]));
    let signatures = [0x04, 0x03, 0x08, 0x07, 0x08, 0x04, 0x04, 0x01];
    let signature_algorithms = extension(13, &sized(&signatures));
    let share = [&[0x00, 0x1d][..], &sized(&random)].concat();
    let key_share = extension(51, &sized(&share));
    let extensions = sized(&[supported_versions, supported_groups, signature_algorithms, key_share].concat());
    let suites = sized(&[0x13, 0x01, 0x13, 0x02, 0x13, 0x03]);
    // The version of TLS 1.2, no session to resume, and no compression, as the standard demands.
    let body = [&[0x03, 0x03][..], &random, &[0], &suites, &[1, 0], &extensions].concat();
    let message = [&[0x01, 0x00][..], &sized(&body)].concat();
    [&[HANDSHAKE, 0x03, 0x01][..], &sized(&message)].concat()
}

fn extension(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[0x00, kind][..], &sized(body)].concat()
}

/// The bytes after their length in two bytes.
fn sized(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&length.to_be_bytes()[..], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_of_a_hello_fit() {
        let hello = client_hello([7; 32]);
        let length = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
        assert_eq!(hello.len(), 5 + length(3));
        assert_eq!(hello.len(), 9 + length(7), "the length of the message has three bytes");
        // Version, random bytes, an empty session, the suites and the compression come before the extensions.
        let extensions = 9 + 2 + 32 + 1 + (2 + 6) + 2;
        assert_eq!(hello.len(), extensions + 2 + length(extensions));
    }
}

//! A handshake of a pair with itself, in memory. It shows what no look at a certificate shows: that both sides accept it.

use crate::fault::{FaultReason, TlsFault};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use rustls_pki_types::ServerName;
use std::sync::Arc;

/// The most rounds of a handshake. It takes three.
const ROUNDS_MAX: usize = 10;

/// Runs a handshake between the two sides, and fails with the error of the side that refuses it.
pub(crate) fn handshake(client: Arc<ClientConfig>, server: Arc<ServerConfig>, host: &str) -> Result<(), TlsFault> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| TlsFault::new(FaultReason::OtherHost, format!("its name {host} is not the name of a host")))?;
    let mut client = Connection::from(ClientConnection::new(client, name).map_err(|error| TlsFault::of_rustls(&error))?);
    let mut server = Connection::from(ServerConnection::new(server).map_err(|error| TlsFault::of_rustls(&error))?);
    for _ in 0..ROUNDS_MAX {
        deliver(&mut client, &mut server)?;
        deliver(&mut server, &mut client)?;
        if !client.is_handshaking() && !server.is_handshaking() && !client.wants_write() {
            return Ok(());
        }
    }
    Err(TlsFault::new(FaultReason::Damaged, "the TLS handshake does not end"))
}

/// Delivers what one side has to say to the other one.
fn deliver(from: &mut Connection, to: &mut Connection) -> Result<(), TlsFault> {
    let mut bytes = Vec::new();
    // A Vec takes all bytes, and a slice gives them: neither can fail.
    while from.wants_write() {
        from.write_tls(&mut bytes).map_err(|error| TlsFault::of_handshake(&error))?;
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        to.read_tls(&mut rest).map_err(|error| TlsFault::of_handshake(&error))?;
        to.process_new_packets().map_err(|error| TlsFault::of_rustls(&error))?;
    }
    Ok(())
}

//! Certificates, private keys, TLS and JWTs. No other crate names rustls, rcgen, x509-parser or jsonwebtoken.
//!
//! # Layout
//!
//! - `name`, `certificate`: what a certificate says. `fairhold://CLUSTER/node/3` names a node, `…/user/ci` a user.
//! - `files`, `pair`, `trial`, `live_pair`: a certificate, its key and its authorities, from PEM files into memory. A
//!   pair proves in a handshake with itself that it works before it serves. Changed files replace it at run time.
//! - `fault`, `verifier`, `tls_config`: which certificates count, and what is told about the others.
//! - `peer`: TLS between nodes. `client_port`: TLS of the port for clients. `stream`: a socket with TLS.
//! - `issuer`, `ca_directory`: an authority that issues certificates, offline.
//! - `jwt`: JWTs of providers whose public keys are in files.
//! - `file_check`: when files are read again, and what is told about bad ones.
//!
//! # What must hold
//!
//! - Every connection verifies its certificates: there is no resumption and no early data.
//! - A pair that does not work changes nothing: the last one that worked stays in use.
//! - A private key is in no error, no log line and no `Debug` output.
//!
//! `fairhold cert` is the command line of the authority.

mod accept;
pub mod ca_directory;
pub mod certificate;
pub mod client_port;
pub mod fault;
pub mod file_check;
pub mod files;
pub mod issuer;
pub mod jwt;
pub mod late;
pub mod live_pair;
pub mod name;
pub mod pair;
pub mod peer;
pub mod stream;
mod tls_config;
mod trial;
mod verifier;

#[cfg(any(test, feature = "testing"))]
pub mod authority_for_tests;
#[cfg(any(test, feature = "testing"))]
pub mod careless_for_tests;
#[cfg(test)]
mod client_port_tests;
#[cfg(test)]
mod issuer_tests;
#[cfg(any(test, feature = "testing"))]
pub mod jwt_for_tests;
#[cfg(test)]
mod jwt_tests;
#[cfg(test)]
mod live_pair_tests;
#[cfg(test)]
mod peer_tests;

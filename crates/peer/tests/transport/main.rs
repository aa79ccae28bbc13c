//! Both ends of the transport on real sockets: delivery, refusals, and broken or hostile peers.

#![cfg(test)]

mod hostile;
mod joins;
mod keys;
mod node;
mod raw;
mod refusals;
mod requests;
mod tls;
mod versions;

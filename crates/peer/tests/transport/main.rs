//! Two ends of the transport on real sockets: what arrives, what is refused, and what a broken or hostile other side does.

#![cfg(test)]

mod hostile;
mod keys;
mod node;
mod raw;
mod refusals;
mod requests;

//! Two ends of the transport on real sockets: what arrives, what is refused, and what a broken or hostile other side does.

#![cfg(test)]

mod hostile;
mod node;
mod refusals;
mod requests;

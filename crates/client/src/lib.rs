//! The Rust client of Fairhold: a fair lock in one line, with a guard that knows when the lock is lost.
//!
//! ```no_run
//! # async fn example() -> Result<(), fairhold_client::Error> {
//! let client = fairhold_client::Client::new("http://127.0.0.1:7171")?;
//! let guard = client.lock("deploy").await?; //              queues, for as long as it takes
//! let token = guard.token()?; //                            for every write; an error once the lock is lost
//! tokio::select! {
//!     _ = guard.lost() => eprintln!("stop: the lock is gone"),
//!     _ = deploy(token) => guard.release().await?, //       or just drop it
//! }
//! # Ok(())
//! # }
//! # async fn deploy(_: fairhold_client::FencingToken) {}
//! ```
//!
//! Without async code, with the feature `blocking`: a call ends in a verb, and `with` sets its options.
//!
//! ```no_run
//! # #[cfg(feature = "blocking")]
//! # fn example() -> Result<(), fairhold_client::Error> {
//! let client = fairhold_client::blocking::Client::new("http://127.0.0.1:7171")?;
//! let guard = client.lock("deploy").with(|lock| lock.wait(std::time::Duration::from_secs(60))).take()?;
//! deploy(guard.token()?); //                                pass the token with every write: nothing stops this by itself
//! guard.release()?; //                                      or just drop it
//! # Ok(())
//! # }
//! # fn deploy(_: fairhold_client::FencingToken) {}
//! ```
//!
//! To stop the work automatically when the lock is lost:
//!
//! ```no_run
//! # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
//! client.lock("deploy").run(|held| async move { held.put("/deployed/version", "v1.7").parents().await }).await??;
//! # Ok(())
//! # }
//! ```
//!
//! # Overview
//!
//! - [`Client::lock`], [`read_lock`](Client::read_lock), [`write_lock`](Client::write_lock),
//!   [`semaphore`](Client::semaphore) return a builder, [`Acquire`]. `.await` it, call [`try_now`](Acquire::try_now),
//!   or [`run`](Acquire::run) work under the lock.
//! - [`Client::elect`]: a guard that means leadership, with a value that observers see. [`leader`](Client::leader) and
//!   [`observe`](Client::observe) show who leads.
//! - [`Guard`] and [`Held`]: a held lock. [`token`](Held::token), [`lost`](Held::lost), fenced writes
//!   ([`put`](Held::put)), [`release`](Guard::release), [`upgrade`](Guard::upgrade) and
//!   [`downgrade`](Guard::downgrade).
//! - [`Client::session`]: a [`Session`] keeps many grants alive with one keepalive, and a thousand acquires wait
//!   through it over a few connections.
//! - [`Client::nodes`]: the tree of [`Nodes`]. [`Client::transaction`]: several changes in one step.
//! - [`Client::watch`]: changes as a stream, which resumes by itself after broken connections and nodes.
//! - [`Client::locks`], [`Client::sessions`], [`Client::cluster`]: holders, waiters, members and the leader, with the
//!   operations of administrators.
//! - [`Client::backups`]: the whole state, as a stream, for administrators.
//! - [`Client::call`]: any call of the HTTP API, with this client's retries and deadlines, and an answer that is not
//!   parsed.
//! - [`recipes`]: barriers, latches, queues, counters, groups and `once`.
//! - `blocking`: the same without async code, with the feature of that name.
//!
//! # Guarantees
//!
//! - **A guard is lost before the cluster can grant its lock to another client.** The client relies on a lock only
//!   because of keepalives that it sent itself, counted from before each was sent, less a [`margin`]. That needs no
//!   network, and time in which the process is stopped or the machine suspended counts (on Linux; elsewhere a
//!   suspension may not). It assumes that the rates of the two clocks stay within [`CLOCK_RATE_BOUND_PERCENT`]. A
//!   program can still be stopped between checking the guard and writing: **send the token with every write**, and
//!   check it where the data is.
//! - **The client learns of a loss at once** if it can reach the cluster: [`Held::lost`] returns when an administrator
//!   breaks a lock. (With more than 16 guards outside sessions, some learn of it only at their next renewal.)
//! - **You can drop anything at any moment.** A dropped future leaves no place in a queue, and a dropped guard is
//!   released: in the background, with retries. [`Client::settled`] waits for that.
//! - **Retries are safe.** The client makes ids before it sends the first byte, and every retry has the same id. If no
//!   answer comes in the caller's time, the error says whether nothing happened ([`Error::Unavailable`]) or something
//!   may have happened ([`Error::OutcomeUnknown`]).
//! - **Any node can answer.** The client learns all nodes from one of them, and moves to another node if one is gone,
//!   silent or unable to serve. It reads the members again every minute, after failures, and within a second after the
//!   answer to a renewal shows that they have changed. So it goes on while every node is replaced, if the last node that
//!   it knew ends later than a third of the `ttl` and 2 s after the first new one has joined (or 62 s if that is less).
//!   While access rights are enforced, only a client with the right `status` on `cluster` can read the members.
//! - **Only the client's own cluster counts.** The client ignores the answer of a login page, a load balancer or
//!   another cluster: it neither keeps a guard alive nor ends it, and fails no call. The own cluster is the first one
//!   that answers, or the one that [`ClientBuilder::cluster_id`] names.
//!
//! # TLS
//!
//! With the feature `tls`, which is on by default, endpoints may be `https://` URLs. [`ClientBuilder::ca_certificate`] names
//! the authority of the servers, and [`ClientBuilder::client_certificate`] the client's own certificate. The client reads
//! the files when it is built. If all endpoints of the program have TLS, the client uses no `http://` address that the
//! cluster reports.
//!
//! # Many guards
//!
//! Each guard without a session is renewed separately; renewals that are due at the same time share a request. This
//! works for thousands of guards. For more than a few hundred, a [`Session`] is better: it has one keepalive for all of
//! them, and reports the loss of any of them at once.
//!
//! # Versions
//!
//! - The vocabulary of the API is in [`types`]; this crate re-exports the most used names. Structs that a server fills
//!   in, and codes, may get more fields and values within a version.
//! - **Rust 1.89.** The dependencies need it. The code itself needs 1.88 (`if let … && …`), and 1.83 of the standard
//!   library according to `clippy::incompatible_msrv`. It is compiled and tested only with the newest version.

mod acquire;
#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
mod error;
mod hold;
mod problem;
mod raw_call;
pub mod recipes;
mod tree;
mod views;
mod watch;
mod wire;

/// The vocabulary of the API: ids, names, limits, codes and bodies.
pub use fairhold_types as types;
pub use fairhold_types::{
    ClusterId, ClusterVersion, Code, FencingToken, GrantId, GrantNumber, JoinTokenNumber, LockName, MemberRole, Mode, NodeId,
    Revision, SessionNumber, Timing, dto::Contender,
};

pub use acquire::builder::Acquire;
pub use acquire::queue_place::QueuePlace;
pub use client::{Client, ClientBuilder};
pub use error::{Error, Lost};
pub use hold::guard::{Guard, Held};
pub use hold::session::{OpenSession, Session};
pub use hold::upgrade::Upgrade;
pub use raw_call::{CallEvent, RawCall, RawReply, RawResponse, RawStream};
pub use reqwest::{Method, StatusCode, header::HeaderMap};
pub use tree::nodes::{NodeValue, Nodes};
pub use tree::transaction::Transaction;
pub use tree::write::{Create, Delete, Put};
pub use views::backup::{BackupStream, Backups};
pub use views::cluster::{Cluster, Sessions};
pub use views::election::{ElectionEvent, Elections, ListElections, Observer};
pub use views::grants::Grants;
pub use views::histories::Histories;
pub use views::locks::{ListLocks, Locks, SetLock};
pub use watch::{Watch, WatchEvent, Watching};
pub use wire::at::At;
pub use wire::clock::{CLOCK_RATE_BOUND_PERCENT, MARGIN_MIN, margin};
pub use wire::identity::{Contact, LastRefusal};
pub use wire::tls::advice as tls_advice;

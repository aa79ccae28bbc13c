//! The Rust client of Fairhold: a fair lock in one line, which cannot be held wrong.
//!
//! ```no_run
//! # async fn example() -> Result<(), fairhold_client::Error> {
//! let client = fairhold_client::Client::new("http://127.0.0.1:7171")?;
//! let guard = client.lock("deploy").await?; //              waits in line, as long as it takes
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
//! The same without async code, with the feature `blocking`: a call ends in a verb, and what is said of it stands in `with`.
//!
//! ```no_run
//! # #[cfg(feature = "blocking")]
//! # fn example() -> Result<(), fairhold_client::Error> {
//! let client = fairhold_client::blocking::Client::new("http://127.0.0.1:7171")?;
//! let guard = client.lock("deploy").with(|lock| lock.wait(std::time::Duration::from_secs(60))).take()?;
//! deploy(guard.token()?); //                                give every write the token: nothing stops this by itself
//! guard.release()?; //                                      or just drop it
//! # Ok(())
//! # }
//! # fn deploy(_: fairhold_client::FencingToken) {}
//! ```
//!
//! Or, so that the work stops by itself when the lock is lost:
//!
//! ```no_run
//! # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
//! client.lock("deploy").run(|held| async move { held.put("/deployed/version", "v1.7").parents().await }).await??;
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! - [`Client::lock`], [`read_lock`](Client::read_lock), [`write_lock`](Client::write_lock), [`semaphore`](Client::semaphore):
//!   a builder, [`Acquire`]. `.await` it, [`try_now`](Acquire::try_now), or [`run`](Acquire::run) work under it.
//! - [`Client::elect`]: a guard that leads, and is known by a value; [`leader`](Client::leader) and
//!   [`observe`](Client::observe): who leads, for all others.
//! - [`Guard`] and [`Held`]: what is held. [`token`](Held::token), [`lost`](Held::lost), fenced writes ([`put`](Held::put)),
//!   [`release`](Guard::release), and another mode: [`upgrade`](Guard::upgrade), [`downgrade`](Guard::downgrade).
//! - [`Client::session`]: a [`Session`], which keeps many grants alive by one keepalive, and through which a thousand acquires
//!   wait over a few connections.
//! - [`Client::nodes`]: the tree of [`Nodes`]: read, list, write with versions, number, remove; [`Client::transaction`]: several
//!   changes in one step.
//! - [`Client::watch`]: what happens, as a stream that goes on by itself over breaks and nodes.
//! - [`Client::locks`], [`Client::sessions`], [`Client::cluster`]: who holds what, who waits, who leads; and what administrators
//!   do.
//! - [`Client::call`]: any call of the HTTP API, with this client's retries and deadlines; the answer is not parsed.
//! - [`recipes`]: barriers, latches, queues, counters, groups and `once`.
//! - `blocking`: the same without async code, with the feature of that name.
//!
//! # What can be relied on
//!
//! - **What is taken away is known at once**, where the cluster can be reached: [`Held::lost`] fires when an administrator breaks
//!   a lock. (Of more than 16 guards at a time that share no session, some hear of it when they are renewed.)
//! - **A guard is lost before another can be granted its lock.** It is believed in from keepalives that this client sent, counted
//!   from before each was sent, less a [`margin`]. That needs no network, and time in which the process was stopped or the
//!   machine suspended counts (on Linux; elsewhere a suspension may not). It rests on the rates of two clocks
//!   ([`CLOCK_RATE_BOUND_PERCENT`]). Between looking and acting a program can be stopped all the same: **give every write the
//!   token**, and have it checked where the data is.
//! - **Dropping is safe, at every moment.** A future that is dropped while it waits leaves no place in a queue, and a guard that
//!   is dropped is given back: in the background, with retries. [`Client::settled`] waits for that.
//! - **Asking again is safe.** Ids are made before the first byte is sent, and every retry has the same one. Where an answer is
//!   still missing at the end of the caller's time, the error says whether surely nothing happened ([`Error::Unavailable`])
//!   or something may have ([`Error::OutcomeUnknown`]).
//! - **Which node answers does not matter.** The client learns all of them from one, and goes to another when one is gone,
//!   silent, or not able to serve.
//! - **Only the own cluster counts.** A login page, a load balancer or another cluster that answers at an address is passed over:
//!   it neither keeps a guard alive nor ends it, and fails no call. The own cluster is the one that answers first, or the one
//!   that [`ClientBuilder::cluster_id`] names.
//!
//! # Many guards
//!
//! Guards without a session are renewed each by itself; what falls due together travels in one request. Thousands work. From some
//! hundred on a [`Session`] is the better choice: one keepalive for all, and a break of any of them is heard of at once.
//!
//! # Versions
//!
//! - The vocabulary of the API is [`types`], with its most used names here. Structs that a server fills in and codes may get more
//!   fields and values within a version.
//! - **Rust 1.89.** That is what the dependencies ask for; the code itself needs 1.88 (`if let … && …`), and 1.83 of the standard
//!   library, as `clippy::incompatible_msrv` has it. It is compiled and tested with the newest version alone.

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

/// What the API is about: ids, names, limits, codes and bodies.
pub use fairhold_types as types;
pub use fairhold_types::{
    ClusterId, Code, FencingToken, GrantId, GrantNumber, LockName, Mode, NodeId, Revision, SessionNumber, dto::Contender,
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
pub use views::cluster::{Cluster, Sessions};
pub use views::election::{Observer, Seen};
pub use views::locks::{ListLocks, Locks, SetLock};
pub use watch::{Watch, WatchEvent, Watching};
pub use wire::at::At;
pub use wire::clock::{CLOCK_RATE_BOUND_PERCENT, MARGIN_MIN, margin};
pub use wire::identity::Contact;

//! Locks as everybody may see them, and what administrators do with them. To take one: [`Client::lock`].

use crate::{
    client::Client,
    error::Error,
    views::{
        long_poll::LongPoll,
        read_options::{ReadOptions, freshness},
    },
    wire::{
        at::At,
        call::Call,
        reply::Reply,
        url::{PAGE, encode, page, with_query},
    },
};
use fairhold_types::{Code, FencingToken, GrantId, LockName, Revision, dto, duration};
use futures_util::future::BoxFuture;
use reqwest::Method;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The locks of the cluster.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(client: fairhold_client::Client) -> Result<(), fairhold_client::Error> {
/// let locks = client.locks();
/// let busy = locks.list().prefix("orders/").state("queued").sort("longest_wait").await?; //   page after page, or .page(…)
/// let lock = locks.get("deploy").await?.value; //                  who holds it, and how many wait
/// let queue = locks.queue("deploy").await?; //                     each waiter and what it waits for; or queue_page(…)
/// let newer = locks.next_queue("deploy", Some(queue.revision), Duration::from_secs(60)).await?; //   what came since
/// let past = locks.history("deploy", None).await?; //              who held it, and how that ended
/// let current = locks.check_fence("deploy", 42, None).await?; //   whether a held grant has that token
/// locks.revoke("deploy", "an upgrade").await?; //                  administrators: ask for it,
/// locks.take_away("deploy", "ci-7 hangs").await?; //               take it from all who hold it,
/// locks.set("gpu").limit(8).max_waiters(100).await?; //            and say what it allows
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Locks {
    client: Client,
    reading: ReadOptions,
}

impl Client {
    /// A grant by its secret id, wherever it was taken; none where no grant has it. To take one: [`Client::lock`].
    ///
    /// # Errors
    /// [`Error::Lost`] where it has ended; [`Error::Unavailable`] where no answer came in the client's time.
    pub async fn grant(&self, id: GrantId) -> Result<Option<dto::Grant>, Error> {
        let reply = self.send(&Call::new(Method::GET, format!("/v1/grants/{id}"))).await?;
        match reply.problem().code {
            Some(Code::GrantNotFound) => Ok(None),
            _ => reply.json().map(Some),
        }
    }

    /// The locks: who holds them, who waits, and what administrators do with them.
    #[must_use]
    pub fn locks(&self) -> Locks {
        Locks { client: self.clone(), reading: ReadOptions::default() }
    }
}

freshness!(Locks);

impl Locks {
    /// The locks in which somebody stands, and those that were used of late: `.await` it for all, or say which first.
    pub fn list(&self) -> ListLocks {
        ListLocks { locks: self.clone(), query: Vec::new() }
    }

    /// All holders of a lock, and the number of waiters. A lock that was never used has no holders. The client reads very many
    /// holders page by page, and the revision is that of the first page.
    ///
    /// # Errors
    /// [`Error::Invalid`] where that is no name; [`Error::Unavailable`] where no answer came in the client's time.
    pub async fn get(&self, name: &str) -> Result<At<dto::Lock>, Error> {
        let At { revision, value: mut lock } = self.get_page(name, PAGE, None).await?;
        if let Some(cursor) = lock.next_cursor.take() {
            let take = |page: dto::Lock| {
                lock.holders.extend(page.holders);
                page.next_cursor
            };
            self.client.follow(&url(name, "")?, self.reading, Some(cursor), take).await?;
        }
        Ok(At { revision, value: lock })
    }

    /// The same with one page of at most so many holders, 1 to 1,000, beginning where an earlier one ended.
    ///
    /// # Errors
    /// As [`get`](Locks::get).
    pub async fn get_page(&self, name: &str, limit: usize, cursor: Option<&str>) -> Result<At<dto::Lock>, Error> {
        self.read(page(&url(name, "")?, limit, cursor)).await?.as_of()
    }

    /// All contenders of a lock, in order, holders first. The client reads very many of them page by page, and the
    /// revision is that of the first page.
    ///
    /// # Errors
    /// As [`get`](Locks::get).
    pub async fn queue(&self, name: &str) -> Result<At<Vec<dto::QueueItem>>, Error> {
        let first = self.queue_page(name, PAGE, None).await?;
        self.whole_queue(name, first).await
    }

    /// One page of a lock's contenders, at most so many, 1 to 1,000, beginning where an earlier page ended.
    ///
    /// # Errors
    /// As [`get`](Locks::get).
    pub async fn queue_page(&self, name: &str, limit: usize, cursor: Option<&str>) -> Result<At<dto::Queue>, Error> {
        self.read(page(&url(name, "/queue")?, limit, cursor)).await?.as_of()
    }

    /// The same, once somebody's place has changed since a revision, or since now; nothing where none has in that time. It is
    /// asked again at another node where one is gone. To look and then wait for what comes, give the revision of the look: what
    /// came between the two is not missed.
    ///
    /// # Errors
    /// As [`get`](Locks::get).
    pub async fn next_queue(
        &self,
        name: &str,
        after: Option<Revision>,
        wait: Duration,
    ) -> Result<Option<At<Vec<dto::QueueItem>>>, Error> {
        let path = page(&url(name, "/queue")?, PAGE, None);
        let news = LongPoll { path: &path, reading: self.reading, after, wait: Some(wait) };
        match self.client.news(&news).await? {
            Some(reply) => self.whole_queue(name, reply.as_of()?).await.map(Some),
            None => Ok(None),
        }
    }

    /// Who held a lock, the newest first and those who hold it now before all; only who held it then, where a revision or a
    /// time (`2026-11-21T14:03:27Z`) is named.
    ///
    /// # Errors
    /// As [`get`](Locks::get); [`Error::Refused`] where `at` is neither.
    pub async fn history(&self, name: &str, at: Option<&str>) -> Result<Vec<dto::Holding>, Error> {
        let at = at.map_or_else(String::new, |at| format!("?at={}", encode(at)));
        self.client.pages(&format!("{}{at}", url(name, "/history")?), self.reading).await
    }

    /// Whether a held grant of the lock has this token now; with a grant's id, whether it is that one, to be exact among readers.
    ///
    /// # Errors
    /// As [`get`](Locks::get).
    pub async fn check_fence(&self, name: &str, token: u64, grant: Option<GrantId>) -> Result<bool, Error> {
        let grant = grant.map_or_else(String::new, |grant| format!("&grant={grant}"));
        let reply = self.read(format!("{}?token={token}{grant}", url(name, "/fence")?)).await?;
        match reply.problem().code {
            Some(Code::StaleToken) => Ok(false),
            _ => reply.json::<dto::FenceCheck>().map(|check| check.current),
        }
    }

    /// The token of the one who holds it, or of the last one who did; none where it was never held, or is forgotten.
    ///
    /// # Errors
    /// As [`get`](Locks::get).
    pub async fn last_token(&self, name: &str) -> Result<Option<FencingToken>, Error> {
        Ok(self.get_page(name, 1, None).await?.value.last_token)
    }

    /// For administrators: asks those who hold a lock to give it back. Nothing ends by it.
    ///
    /// # Errors
    /// [`Error::Refused`] where the [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators';
    /// [`Error::OutcomeUnknown`] where no answer came in the client's time.
    pub async fn revoke(&self, name: &str, reason: &str) -> Result<(), Error> {
        let call = Call::new(Method::POST, url(name, "/holders/revoke")?);
        self.change(call.json(&json!({ "reason": reason }))).await?.done()
    }

    /// For administrators: takes a lock from all who hold it. The next in line get their turn in the same step.
    ///
    /// # Errors
    /// As [`revoke`](Locks::revoke).
    pub async fn take_away(&self, name: &str, reason: &str) -> Result<(), Error> {
        self.change(Call::new(Method::DELETE, format!("{}?reason={}", url(name, "/holders")?, encode(reason)))).await?.done()
    }

    /// For administrators: what a lock allows. Say what, and `.await` it; what is not said stays as it is.
    pub fn set(&self, name: &str) -> SetLock {
        SetLock { locks: self.clone(), name: name.to_owned(), what: Map::new() }
    }

    /// Adds to the first page what follows it.
    async fn whole_queue(&self, name: &str, first: At<dto::Queue>) -> Result<At<Vec<dto::QueueItem>>, Error> {
        let At { revision, value: dto::Queue { mut items, next_cursor, .. } } = first;
        if next_cursor.is_some() {
            let take = |page: dto::Queue| {
                items.extend(page.items);
                page.next_cursor
            };
            self.client.follow(&url(name, "/queue")?, self.reading, next_cursor, take).await?;
        }
        Ok(At { revision, value: items })
    }

    async fn read(&self, path: String) -> Result<Reply, Error> {
        self.client.send(&self.reading.of(Call::new(Method::GET, path))).await
    }

    async fn change(&self, call: Call) -> Result<Reply, Error> {
        let call = call.key(self.client.inner().ids.make());
        self.client.send(&call).await
    }
}

/// A listing of locks: `.await` it for all of them.
#[derive(Debug, Clone)]
#[must_use = "locks are listed when this is awaited"]
pub struct ListLocks {
    locks: Locks,
    query: Vec<String>,
}

impl ListLocks {
    fn with(mut self, name: &str, value: &str) -> ListLocks {
        self.query.push(format!("{name}={}", encode(value)));
        self
    }

    fn path(&self) -> String {
        self.query.iter().fold("/v1/locks".to_owned(), |path, pair| with_query(&path, pair))
    }

    /// Only locks whose name has this prefix.
    pub fn prefix(self, prefix: &str) -> ListLocks {
        self.with("prefix", prefix)
    }

    /// Only those that are `held`, `queued` (somebody waits), `cooling` or `idle`.
    pub fn state(self, state: &str) -> ListLocks {
        self.with("state", state)
    }

    /// By `name`, or first those with most `waiters`, the `longest_wait`, most `wait`, `hold` or `contention`.
    pub fn sort(self, sort: &str) -> ListLocks {
        self.with("sort", sort)
    }

    /// One page of at most so many, 1 to 1,000, beginning where an earlier one ended.
    ///
    /// # Errors
    /// As [`Locks::get`]; [`Error::Refused`] where something that was said is not known.
    pub async fn page(self, limit: usize, cursor: Option<&str>) -> Result<dto::Page<dto::ListedLock>, Error> {
        self.locks.read(page(&self.path(), limit, cursor)).await?.json()
    }
}

impl IntoFuture for ListLocks {
    type Output = Result<Vec<dto::ListedLock>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Locks { client, reading } = &self.locks;
            client.pages(&self.path(), *reading).await
        })
    }
}

/// What a lock is to allow: `.await` it, for the lock as it is then.
#[derive(Debug, Clone)]
#[must_use = "it is set when this is awaited"]
pub struct SetLock {
    locks: Locks,
    name: String,
    what: Map<String, Value>,
}

impl SetLock {
    fn with(mut self, name: &str, value: Value) -> SetLock {
        self.what.insert(name.to_owned(), value);
        self
    }

    /// How many permits it has. Who holds keeps what he has.
    pub fn limit(self, limit: u32) -> SetLock {
        self.with("limit", json!(limit))
    }

    /// How many may wait for it.
    pub fn max_waiters(self, most: u64) -> SetLock {
        self.with("max_waiters", json!(most))
    }

    /// How long a grant may hold it that is given from now on; zero: as long as it likes.
    pub fn max_hold(self, most: Duration) -> SetLock {
        self.with("max_hold", json!(duration::format(most)))
    }
}

impl IntoFuture for SetLock {
    type Output = Result<dto::Lock, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let call = Call::new(Method::PATCH, url(&self.name, "")?).json(&Value::Object(self.what));
            self.locks.client.send(&call).await?.json()
        })
    }
}

fn url(name: &str, what: &str) -> Result<String, Error> {
    let name = LockName::parse(name).map_err(|error| Error::Invalid(format!("the lock's name: {error}")))?;
    Ok(format!("/v1/locks/{}{what}", encode(name.as_str())))
}

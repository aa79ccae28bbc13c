//! The state of locks, and the operations of administrators. To acquire a lock, see [`Client::lock`].

use crate::{
    client::Client,
    error::Error,
    views::{
        grants::Grants,
        histories::Histories,
        long_poll::LongPoll,
        read_options::{Listing, ReadOptions, freshness},
    },
    wire::{
        at::At,
        call::Call,
        reply::Reply,
        url::{PAGE, encode, page, with_query},
    },
};
use fairhold_types::{Code, FencingToken, GrantId, GrantNumber, LockName, Revision, dto, duration};
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
/// let busy = locks.list().prefix("orders/").state("queued").sort("longest_wait").await?; //   all pages; or .page(…)
/// let lock = locks.get("deploy").await?.value; //                  the holders and the number of waiters
/// let queue = locks.queue("deploy").await?; //                     all contenders; or queue_page(…)
/// let newer = locks.next_queue("deploy", Some(queue.revision), Duration::from_secs(60)).await?; //   the next change
/// let of_ci = locks.grants().owner("ci-7").await?; //              what ci-7 holds and waits for
/// let past = locks.history("deploy", None).await?; //              past holders, and how they ended
/// let then = locks.histories().at("2026-11-21T14:03:27Z").owner("ci-7").await?; //   everything that ci-7 held then
/// let current = locks.check_fence("deploy", 42, None).await?; //   whether a holder has this token now
/// locks.revoke("deploy", "an upgrade").await?; //                  administrators: ask the holders to release it,
/// locks.take_away("deploy", "ci-7 hangs").await?; //               take it from the holders,
/// locks.set("gpu").limit(8).max_waiters(100).await?; //            and change its settings
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Locks {
    client: Client,
    options: ReadOptions,
}

impl Client {
    /// Reads a grant by its secret id, whichever program acquired it. `None` if no grant has this id.
    ///
    /// # Errors
    /// [`Error::Lost`] if it has ended; [`Error::Unavailable`] if no answer came within the client's timeout.
    pub async fn grant(&self, id: GrantId) -> Result<Option<dto::Grant>, Error> {
        let reply = self.send(&Call::new(Method::GET, format!("/v1/grants/{id}"))).await?;
        match reply.problem().code {
            Some(Code::GrantNotFound) => Ok(None),
            _ => reply.json().map(Some),
        }
    }

    /// The locks of the cluster: holders, waiters, history and settings.
    #[must_use]
    pub fn locks(&self) -> Locks {
        Locks { client: self.clone(), options: ReadOptions::default() }
    }
}

freshness!(Locks);

impl Locks {
    /// Lists the locks that are held or queued for, or were used recently: set filters, then `.await` it.
    pub fn list(&self) -> ListLocks {
        ListLocks(Listing::new(&self.client, self.options, "/v1/locks"))
    }

    /// Reads all holders of a lock, and the number of waiters. A lock that was never used has no holders. If there are
    /// very many holders, the client reads them page by page; the revision is that of the first page.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is not valid; [`Error::Unavailable`] if no answer came within the client's
    /// timeout.
    pub async fn get(&self, name: &str) -> Result<At<dto::Lock>, Error> {
        let At { revision, value: mut lock } = self.get_page(name, PAGE, None).await?;
        if let Some(cursor) = lock.next_cursor.take() {
            let take = |page: dto::Lock| {
                lock.holders.extend(page.holders);
                page.next_cursor
            };
            self.client.follow(&url(name, "")?, self.options, Some(cursor), take).await?;
        }
        Ok(At { revision, value: lock })
    }

    /// The same for one page of at most `limit` holders (1 to 1,000). `cursor` continues after an earlier page.
    ///
    /// # Errors
    /// The errors of [`get`](Locks::get).
    pub async fn get_page(&self, name: &str, limit: usize, cursor: Option<&str>) -> Result<At<dto::Lock>, Error> {
        self.read(page(&url(name, "")?, limit, cursor)).await?.as_of()
    }

    /// Reads all contenders of a lock in order, holders first. If there are very many, the client reads them page by
    /// page; the revision is that of the first page.
    ///
    /// # Errors
    /// The errors of [`get`](Locks::get).
    pub async fn queue(&self, name: &str) -> Result<At<Vec<dto::QueueItem>>, Error> {
        let first = self.queue_page(name, PAGE, None).await?;
        self.whole_queue(name, first).await
    }

    /// The same for one page of at most `limit` contenders (1 to 1,000). `cursor` continues after an earlier page.
    ///
    /// # Errors
    /// The errors of [`get`](Locks::get).
    pub async fn queue_page(&self, name: &str, limit: usize, cursor: Option<&str>) -> Result<At<dto::Queue>, Error> {
        self.read(page(&url(name, "/queue")?, limit, cursor)).await?.as_of()
    }

    /// Reads the page of at most `limit` contenders (1 to 1,000) around a grant, such as your own grant in a long queue.
    /// `None` if the grant neither holds the lock nor waits for it.
    ///
    /// # Errors
    /// The errors of [`get`](Locks::get).
    pub async fn queue_around(&self, name: &str, grant: GrantNumber, limit: usize) -> Result<Option<At<dto::Queue>>, Error> {
        let path = with_query(&url(name, "/queue")?, &format!("around={grant}"));
        let reply = self.read(page(&path, limit, None)).await?;
        match reply.problem().code {
            Some(Code::GrantNotFound) => Ok(None),
            _ => reply.as_of().map(Some),
        }
    }

    /// Waits until the queue has changed since a revision, or since now, and reads it; `None` if it did not change in
    /// that time. If a node is gone, the client tries another one. To miss no change, pass the revision of your last
    /// read.
    ///
    /// # Errors
    /// The errors of [`get`](Locks::get).
    pub async fn next_queue(
        &self,
        name: &str,
        after: Option<Revision>,
        wait: Duration,
    ) -> Result<Option<At<Vec<dto::QueueItem>>>, Error> {
        let path = page(&url(name, "/queue")?, PAGE, None);
        let poll = LongPoll { path: &path, options: self.options, after, wait: Some(wait) };
        match self.client.long_poll(&poll).await? {
            Some(reply) => self.whole_queue(name, reply.as_of()?).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads what owners and sessions hold and wait for, over all locks: set filters, then `.await` it. A grant of several
    /// locks has one entry for each of them.
    pub fn grants(&self) -> Grants {
        Grants::new(&self.client, self.options)
    }

    /// Reads who held a lock: current holders first, then past ones, the newest first. With a revision or a time
    /// (`2026-11-21T14:03:27Z`), only the holders at that moment.
    ///
    /// # Errors
    /// The errors of [`get`](Locks::get); [`Error::Refused`] if `at` is neither.
    pub async fn history(&self, name: &str, at: Option<&str>) -> Result<Vec<dto::Holding>, Error> {
        let at = at.map_or_else(String::new, |at| format!("?at={}", encode(at)));
        self.client.pages(&format!("{}{at}", url(name, "/history")?), self.options).await
    }

    /// Reads the holders of all locks: set a moment or a window, and filters, then `.await` it. The holds are in the order of
    /// their locks' names, those of one lock newest first. The cluster keeps at most the newest 1,000 ended holds of each
    /// lock, and 100,000 in total.
    pub fn histories(&self) -> Histories {
        Histories::new(&self.client, self.options)
    }

    /// Whether a holder of the lock has this token now. With a grant's id, whether that grant is the one: this is exact
    /// even among readers, who share a token.
    ///
    /// # Errors
    /// The errors of [`get`](Locks::get).
    pub async fn check_fence(&self, name: &str, token: u64, grant: Option<GrantId>) -> Result<bool, Error> {
        let grant = grant.map_or_else(String::new, |grant| format!("&grant={grant}"));
        let reply = self.read(format!("{}?token={token}{grant}", url(name, "/fence")?)).await?;
        match reply.problem().code {
            Some(Code::StaleToken) => Ok(false),
            _ => reply.json::<dto::FenceCheck>().map(|check| check.current),
        }
    }

    /// The token of the current holder, or of the last one. `None` if the lock was never held, or is forgotten.
    ///
    /// # Errors
    /// The errors of [`get`](Locks::get).
    pub async fn last_token(&self, name: &str) -> Result<Option<FencingToken>, Error> {
        Ok(self.get_page(name, 1, None).await?.value.last_token)
    }

    /// For administrators: asks the holders of a lock to release it. They keep it until they do.
    ///
    /// # Errors
    /// [`Error::Refused`] if the [`auth_token`](crate::ClientBuilder::auth_token) is not the administrators';
    /// [`Error::OutcomeUnknown`] if no answer came within the client's timeout.
    pub async fn revoke(&self, name: &str, reason: &str) -> Result<(), Error> {
        let call = Call::new(Method::POST, url(name, "/holders/revoke")?);
        self.change(call.json(&json!({ "reason": reason }))).await?.done()
    }

    /// For administrators: takes a lock from all its holders. The next waiters are granted in the same step.
    ///
    /// # Errors
    /// The errors of [`revoke`](Locks::revoke).
    pub async fn take_away(&self, name: &str, reason: &str) -> Result<(), Error> {
        self.change(Call::new(Method::DELETE, format!("{}?reason={}", url(name, "/holders")?, encode(reason)))).await?.done()
    }

    /// For administrators: changes the settings of a lock. Set what to change, then `.await` it. Other settings stay.
    pub fn set(&self, name: &str) -> SetLock {
        SetLock { locks: self.clone(), name: name.to_owned(), settings: Map::new() }
    }

    /// Reads the rest of a queue after its first page.
    async fn whole_queue(&self, name: &str, first: At<dto::Queue>) -> Result<At<Vec<dto::QueueItem>>, Error> {
        let At { revision, value: dto::Queue { mut items, next_cursor, .. } } = first;
        if next_cursor.is_some() {
            let take = |page: dto::Queue| {
                items.extend(page.items);
                page.next_cursor
            };
            self.client.follow(&url(name, "/queue")?, self.options, next_cursor, take).await?;
        }
        Ok(At { revision, value: items })
    }

    async fn read(&self, path: String) -> Result<Reply, Error> {
        self.client.send(&self.options.apply(Call::new(Method::GET, path))).await
    }

    async fn change(&self, call: Call) -> Result<Reply, Error> {
        let call = call.key(self.client.inner().ids.make());
        self.client.send(&call).await
    }
}

/// A listing of locks: `.await` it to read all of them.
#[derive(Debug, Clone)]
#[must_use = "locks are listed when this is awaited"]
pub struct ListLocks(Listing);

impl ListLocks {
    /// Only locks whose names start with this prefix.
    pub fn prefix(self, prefix: &str) -> ListLocks {
        ListLocks(self.0.with("prefix", prefix))
    }

    /// Only locks whose names contain this text, in upper or lower case.
    pub fn matching(self, part: &str) -> ListLocks {
        ListLocks(self.0.with("match", part))
    }

    /// Only locks that a grant of this owner holds or waits for.
    pub fn owner(self, owner: &str) -> ListLocks {
        ListLocks(self.0.with("owner", owner))
    }

    /// Only locks in this state: `held`, `queued` (with waiters), `cooling` or `idle`.
    pub fn state(self, state: &str) -> ListLocks {
        ListLocks(self.0.with("state", state))
    }

    /// The order: by `name`, or by the most `waiters`, `longest_wait`, `held_for`, `wait`, `hold` or `contention`.
    pub fn sort(self, sort: &str) -> ListLocks {
        ListLocks(self.0.with("sort", sort))
    }

    /// Reads one page of at most `limit` locks (1 to 1,000). `cursor` continues after an earlier page.
    ///
    /// # Errors
    /// The errors of [`Locks::get`]; [`Error::Refused`] if a filter or the order is unknown.
    pub async fn page(self, limit: usize, cursor: Option<&str>) -> Result<dto::Page<dto::ListedLock>, Error> {
        self.0.page(limit, cursor).await
    }
}

impl IntoFuture for ListLocks {
    type Output = Result<Vec<dto::ListedLock>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        self.0.all()
    }
}

/// A change to the settings of a lock: `.await` it. The result is the lock after the change.
#[derive(Debug, Clone)]
#[must_use = "settings change when this is awaited"]
pub struct SetLock {
    locks: Locks,
    name: String,
    settings: Map<String, Value>,
}

impl SetLock {
    fn with(mut self, name: &str, value: Value) -> SetLock {
        self.settings.insert(name.to_owned(), value);
        self
    }

    /// The number of permits. Holders keep theirs.
    pub fn limit(self, limit: u32) -> SetLock {
        self.with("limit", json!(limit))
    }

    /// The most waiters.
    pub fn max_waiters(self, max: u64) -> SetLock {
        self.with("max_waiters", json!(max))
    }

    /// The longest time that a new grant may hold the lock. Zero means no bound.
    pub fn max_hold(self, max: Duration) -> SetLock {
        self.with("max_hold", json!(duration::format(max)))
    }
}

impl IntoFuture for SetLock {
    type Output = Result<dto::Lock, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let call = Call::new(Method::PATCH, url(&self.name, "")?).json(&Value::Object(self.settings));
            self.locks.client.send(&call).await?.json()
        })
    }
}

fn url(name: &str, what: &str) -> Result<String, Error> {
    let name = LockName::parse(name).map_err(|error| Error::Invalid(format!("the lock's name: {error}")))?;
    Ok(format!("/v1/locks/{}{what}", encode(name.as_str())))
}

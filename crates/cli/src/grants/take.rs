//! `fairhold grants take`: one acquire request with all its options.

use crate::remote::{self, ApiRequest, Failure, request::encode};
use clap::value_parser;
use fairhold_client::Method;
use fairhold_types::duration;
use serde_json::{Map, Value, json};
use std::time::Duration;

const AFTER_HELP: &str = "\
The first column is the grant's secret id: use it to renew, upgrade and release. The grant expires after --ttl unless you
renew it. Exit code 75: the grant was not acquired, and you are not in the queue.

Examples:
  fairhold grants take deploy --wait 1m                          wait in the queue for at most a minute
  fairhold grants take deploy --respond-async                    keep a place in the queue; then: grants show ID --wait 10m
  fairhold grants take table --shared                            together with other shared holders
  fairhold grants take gpu --limit 4 --permits 2                 two of four permits
  fairhold grants take orders --and-shared stock                 both locks or neither, in one step
  fairhold grants take primary --value http://10.0.0.7:8080      stand for an election
  fairhold grants take deploy --session 5f2b0c6e9d8a4b1f9c3e7a6d5b4c3d2e --owner ci-7 --reentrant";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct TakeArgs {
    /// Name of the lock; several names are acquired in one step, all or none
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,

    /// Acquire this lock too, shared, in the same step
    #[arg(long, value_name = "NAME")]
    and_shared: Vec<String>,

    /// Wait in the queue for at most this long [default: 0s]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    wait: Option<Duration>,

    /// Return at once with a place in the queue, which lasts for --ttl or as long as the session
    #[arg(long)]
    respond_async: bool,

    /// Share the lock with other shared holders
    #[arg(short, long)]
    shared: bool,

    /// Set the number of permits of the lock, at least 1; later requests pass the same number or none
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Take this many permits, at least 1 [default: 1]
    #[arg(short, long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    permits: Option<u32>,

    /// Stand for an election, with this public value while you lead
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["shared", "and_shared", "limit", "permits", "reentrant"])]
    value: Option<String>,

    /// Expire after this long without a renewal [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, conflicts_with = "session")]
    ttl: Option<Duration>,

    /// Let this session own the grant: you keep the session alive instead of renewing the grant
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Show this name to people who look at the queue [default: fairhold and your address]
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,

    /// Add a hold if the same --owner of the same --session already holds the lock
    ///
    /// The new hold belongs to the same grant. Release each hold by its own id.
    #[arg(long, requires = "session", requires = "owner")]
    reentrant: bool,

    /// Queue ahead of waiters with a lower priority [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,

    /// Block the lock for this long if the grant expires [default: 0s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    lock_delay: Option<Duration>,

    /// Hold the lock for at most this long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    max_hold: Option<Duration>,

    /// Show this key and value to people who look at the queue; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = remote::pair)]
    meta: Vec<(String, String)>,

    /// Use this key, a ULID or UUIDv7, as the grant's id: a repeated request changes nothing
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl TakeArgs {
    pub(super) fn request(&self) -> Result<ApiRequest, Failure> {
        let mut body = self.common();
        let several = self.names.len() + self.and_shared.len() > 1;
        let path = match (&self.value, several) {
            (Some(_), true) => {
                return Err(Failure::Usage("an election has one name: you cannot combine it with others".to_owned()));
            }
            (Some(value), false) => {
                body.insert("value".to_owned(), json!(value));
                format!("/v1/elections/{}", encode(&self.names[0]))
            }
            (None, true) => {
                if self.limit.is_some() || self.permits.is_some() || self.reentrant {
                    let why = "a request for several locks takes one permit of each: leave out --limit, --permits and \
                               --reentrant";
                    return Err(Failure::Usage(why.to_owned()));
                }
                body.insert("locks".to_owned(), self.locks());
                "/v1/locks".to_owned()
            }
            (None, false) => {
                self.of_one_lock(&mut body);
                format!("/v1/locks/{}", encode(&self.names[0]))
            }
        };
        let request = ApiRequest::keyed(Method::POST, path, self.idempotency_key.as_deref()).wait(self.wait);
        let request = if self.respond_async { request.header("prefer", "respond-async".to_owned()) } else { request };
        Ok(request.json(&Value::Object(body)))
    }

    /// The options that apply to every kind of acquire.
    fn common(&self) -> Map<String, Value> {
        let mut body = Map::new();
        let mut add = |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
        let span = |span: Option<Duration>| span.map(|span| json!(duration::format(span)));
        add("ttl", span(self.ttl));
        add("session", self.session.as_ref().map(|session| json!(session)));
        add("owner", self.owner.as_ref().map(|owner| json!(owner)));
        add("priority", self.priority.map(|priority| json!(priority)));
        add("lock_delay", span(self.lock_delay));
        add("max_hold", span(self.max_hold));
        let meta: Map<String, Value> = self.meta.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        add("meta", (!meta.is_empty()).then_some(Value::Object(meta)));
        body
    }

    fn of_one_lock(&self, body: &mut Map<String, Value>) {
        let mut add = |name: &str, value: Option<Value>| body.extend(value.map(|value| (name.to_owned(), value)));
        add("mode", self.shared.then(|| json!("shared")));
        add("limit", self.limit.map(|limit| json!(limit)));
        add("permits", self.permits.map(|permits| json!(permits)));
        add("reentrant", self.reentrant.then_some(json!(true)));
    }

    fn locks(&self) -> Value {
        let mode = if self.shared { "shared" } else { "exclusive" };
        let named = self.names.iter().map(|name| json!({ "name": name, "mode": mode }));
        named.chain(self.and_shared.iter().map(|name| json!({ "name": name, "mode": "shared" }))).collect()
    }
}

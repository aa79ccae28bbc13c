//! The calls on the tree's nodes: read, list, write, create, delete. `txn` has the transactions.

use crate::{
    api::node_kind,
    edge::answer,
    edge::error::{of_read, problem_of},
    edge::headers,
    edge::paging,
    edge::params::expected,
    edge::problem::Problem,
    edge::request::{Received, nothing_newer},
    edge::request_kind::RequestKind,
};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use fairhold_node::{
    Node,
    api::{At, Children, Freshness, Operated, Precondition, ReadOptions, WriteCall},
    watch_filter::WatchFilter,
};
use fairhold_state::{
    command::{Operation, OperationResult},
    record::Znode,
    value::Value,
};
use fairhold_types::{
    Code, Path, Revision,
    call::{self, BoundedText},
    dto,
    limits::VALUE_BYTES_MAX,
};
use http::{HeaderName, HeaderValue, StatusCode, header};
use openraft_rt::AsyncRuntime;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

const PREFIX: &str = "/v1/nodes";
/// Characters that a URL does not escape: the unreserved ones, and the slash of a path.
const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

/// `GET /v1/nodes/{path}`
pub(crate) async fn get<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let path = path(&received)?;
    let params: call::GetNode = received.query()?;
    let mut read = received.read_options(params.consistency)?;
    if let Some(listing) = Listing::of(&params, &path)? {
        let unchanged = nothing_newer(&node, (params.wait, params.after), || listing.scope(&path), &mut read).await?;
        if let Some(revision) = unchanged {
            return Ok(answer::empty(StatusCode::NOT_MODIFIED, revision));
        }
        return listing.answer(&node, path, received.path(), read).await;
    }
    let unchanged = nothing_newer(&node, (params.wait, params.after), || WatchFilter::Node(path.clone()), &mut read).await?;
    let found = node.get_node(&path, read).await.map_err(of_read)?;
    let znode = found.value.node;
    let mut response = if let Some(revision) = unchanged {
        answer::empty(StatusCode::NOT_MODIFIED, revision)
    } else if headers::has_version(received.headers(), znode.version)? {
        answer::empty(StatusCode::NOT_MODIFIED, found.revision)
    } else {
        return self::found(path, &znode, params.meta, found.revision);
    };
    identify(&mut response, &znode)?;
    Ok(response)
}

/// The answer to a read: the node's value, or with `meta` its stat.
pub(crate) fn found(path: Path, znode: &Znode, meta: bool, revision: Revision) -> Result<Response, Problem> {
    let mut response = if meta {
        answer::json(StatusCode::OK, revision, &stat(path, znode))?
    } else {
        let mut response = Response::new(Body::from(Bytes::from_owner(znode.value.clone())));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, OCTETS);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        headers.insert(header::CACHE_CONTROL, NO_CACHE);
        answer::stamped(response, revision)
    };
    identify(&mut response, znode)?;
    Ok(response)
}

/// Adds the node's version and stat.
fn identify(response: &mut Response, znode: &Znode) -> Result<(), Problem> {
    response.headers_mut().insert(header::ETAG, etag(znode.version)?);
    add_stat(response, znode)
}

/// `PUT /v1/nodes/{path}`
pub(crate) async fn put<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, mut body) = Received::with_body::<RT>(request, VALUE_BYTES_MAX).await?;
    // The share of memory is kept while the write is in progress.
    let value = Value::from(&*std::mem::take(&mut body.bytes));
    let path = path(&received)?;
    let params: call::PutNode = received.query()?;
    let lifetime = node_kind::of(params.session, params.ttl, params.container)?;
    let precondition = headers::precondition(received.headers(), &path)?;
    let operation = Operation::Put { path: path.clone(), value, parents: params.parents, lifetime };
    let At { value: Operated { result, at }, revision } = write(&node, &received, operation, precondition).await?;
    let OperationResult::Put { created, version } = result else { return Err(unexpected_result(&result)) };
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = answer::json(status, revision, &dto::Written { path, version, revision: at })?;
    response.headers_mut().insert(header::ETAG, etag(version)?);
    Ok(response)
}

/// `POST /v1/nodes/{path}?sequential`
pub(crate) async fn create<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, mut body) = Received::with_body::<RT>(request, VALUE_BYTES_MAX).await?;
    // The share of memory is kept while the write is in progress.
    let value = Value::from(&*std::mem::take(&mut body.bytes));
    let parent = path(&received)?;
    let params: call::CreateNode = received.query()?;
    if !params.sequential {
        return Err(Problem::bad_request(
            "POST creates a node with a number in its name: add ?sequential. To create a node with your own name, use PUT, with \
             If-None-Match: * if it must be new",
        ));
    }
    if headers::precondition(received.headers(), &parent)?.is_some() {
        return Err(Problem::bad_request("leave out If-Match and If-None-Match: the node is always new"));
    }
    let prefix = node_kind::sequential_prefix(&parent, params.name.map(BoundedText::into_string))?;
    let lifetime = node_kind::of(params.session, params.ttl, false)?;
    let operation = Operation::CreateSequential { parent, prefix, value, parents: params.parents, lifetime };
    let At { value: Operated { result, at }, revision } = write(&node, &received, operation, None).await?;
    let OperationResult::Created { path } = result else { return Err(unexpected_result(&result)) };
    let location = answer::header_value(format!("{PREFIX}{}", utf8_percent_encode(path.as_str(), &PLAIN)))?;
    let mut response = answer::json(StatusCode::CREATED, revision, &dto::Written { path, version: 0, revision: at })?;
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::ETAG, etag(0)?);
    Ok(response)
}

/// `DELETE /v1/nodes/{path}`
pub(crate) async fn delete<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let path = path(&received)?;
    let call::DeleteNode { recursive } = received.query()?;
    let precondition = match headers::precondition(received.headers(), &path)? {
        Some(Precondition::Absent(_)) => {
            return Err(Problem::bad_request("leave out the header If-None-Match: a node that you delete must exist"));
        }
        precondition => precondition,
    };
    let operation = Operation::Delete { path, version: None, recursive };
    let At { revision, .. } = write(&node, &received, operation, precondition).await?;
    Ok(answer::empty(StatusCode::NO_CONTENT, revision))
}

async fn write<RT: AsyncRuntime>(
    node: &Node<RT>,
    received: &Received,
    operation: Operation,
    precondition: Option<Precondition>,
) -> Result<At<Operated>, Problem> {
    let (key, _) = received.key_or_new(node)?;
    let fence = headers::fence(received.headers())?;
    let is_for_a_new_node = matches!(precondition, Some(Precondition::Absent(_)));
    let call = WriteCall { key, operation, precondition, fence, timeout: received.timeout };
    node.write_node(call).await.map_err(|error| {
        let problem = problem_of(error, RequestKind::Write { key });
        if is_for_a_new_node { problem.for_new_node() } else { problem }
    })
}

/// The state machine answered with the result of another operation.
fn unexpected_result(result: &OperationResult) -> Problem {
    Problem::new(Code::Internal, format!("a write has an unexpected result: {result:?}"))
}

/// A request to list the nodes below one.
#[derive(Debug)]
struct Listing {
    recursive: bool,
    meta: bool,
    limit: usize,
    /// The path after which the page starts.
    after: Option<String>,
}

impl Listing {
    /// The listing, if the request is for one.
    fn of(params: &call::GetNode, path: &Path) -> Result<Option<Listing>, Problem> {
        let (meta, recursive) = (params.meta, params.recursive);
        let cursor = params.cursor.as_ref().map(BoundedText::as_str);
        if !params.children && !recursive {
            return match (params.limit, cursor) {
                (None, None) => Ok(None),
                (Some(_), _) | (_, Some(_)) => {
                    Err(Problem::bad_request("limit and cursor are only for a listing: add ?children or ?recursive"))
                }
            };
        }
        let after = match cursor {
            None => None,
            Some(cursor) if recursive && cursor.starts_with(&path.prefix_below()) => Some(cursor.to_owned()),
            Some(cursor) if !recursive && !cursor.contains('/') => Some(format!("{}{cursor}", path.prefix_below())),
            Some(_) => return Err(expected("cursor", "the next_cursor of an earlier page of the same listing")),
        };
        Ok(Some(Listing { recursive, meta, limit: paging::limit(params.limit), after }))
    }

    /// The changes that affect it.
    fn scope(&self, path: &Path) -> WatchFilter {
        if self.recursive { WatchFilter::Subtree(path.clone()) } else { WatchFilter::Children(path.clone()) }
    }

    async fn answer<RT: AsyncRuntime>(
        self,
        node: &Node<RT>,
        path: Path,
        url: &str,
        read: ReadOptions,
    ) -> Result<Response, Problem> {
        let found = node.list_nodes(&path, self.recursive, self.after.as_deref(), self.limit, read).await.map_err(of_read)?;
        let Children { parent, rows, more } = found.value;
        let name = |path: &Path| if self.recursive { path.to_string() } else { path.name().to_owned() };
        let next_cursor = rows.last().filter(|_| more).map(|last| name(&last.path));
        let link = next_cursor.as_deref().map(|cursor| self.link(url, cursor, read.freshness)).transpose()?;
        let mut response = if self.meta {
            let items = rows.into_iter().map(|row| stat(row.path, &row.node)).collect();
            answer::json(StatusCode::OK, found.revision, &dto::Page::<dto::Stat> { items, next_cursor })?
        } else {
            let items = rows.iter().map(|row| name(&row.path)).collect();
            answer::json(StatusCode::OK, found.revision, &dto::Page::<String> { items, next_cursor })?
        };
        if let Some(link) = link {
            response.headers_mut().insert(header::LINK, link);
        }
        add_stat(&mut response, &parent)?;
        Ok(response)
    }

    /// The link to the next page: the same call with another cursor.
    fn link(&self, url: &str, cursor: &str, freshness: Freshness) -> Result<HeaderValue, Problem> {
        let kind = if self.recursive { "recursive" } else { "children" };
        let meta = if self.meta { "&meta" } else { "" };
        let local = match freshness {
            Freshness::Linearizable | Freshness::LinearizableAtLeast(_) => "",
            Freshness::Local | Freshness::AtLeast(_) => "&consistency=local",
        };
        let cursor = utf8_percent_encode(cursor, NON_ALPHANUMERIC);
        answer::header_value(format!("<{url}?{kind}{meta}&limit={}{local}&cursor={cursor}>; rel=\"next\"", self.limit))
    }
}

fn path(received: &Received) -> Result<Path, Problem> {
    let text = received.path_after(PREFIX)?;
    let text = if text.is_empty() { "/" } else { &*text };
    Path::parse(text).map_err(|error| Problem::bad_request(format!("the path: {error}")))
}

fn etag(version: i32) -> Result<HeaderValue, Problem> {
    answer::header_value(format!("\"{version}\""))
}

fn stat(path: Path, node: &Znode) -> dto::Stat {
    dto::Stat {
        path,
        czxid: node.czxid,
        mzxid: node.mzxid,
        pzxid: node.pzxid,
        ctime: node.ctime.to_rfc3339(),
        mtime: node.mtime.to_rfc3339(),
        version: node.version,
        cversion: node.cversion(),
        aversion: node.aversion,
        ephemeral_owner: node.ephemeral_owner,
        data_length: node.value.len(),
        num_children: node.num_children,
    }
}

/// How many headers a node's stat has.
const STAT_HEADERS: usize = 11;

fn add_stat(response: &mut Response, node: &Znode) -> Result<(), Problem> {
    let headers = response.headers_mut();
    // Allocate once, also for the headers that every answer has.
    headers.reserve(STAT_HEADERS + 8);
    let mut add = |name: &'static str, value: HeaderValue| {
        headers.insert(HeaderName::from_static(name), value);
    };
    add("fairhold-czxid", HeaderValue::from(node.czxid.0));
    add("fairhold-mzxid", HeaderValue::from(node.mzxid.0));
    add("fairhold-pzxid", HeaderValue::from(node.pzxid.0));
    add("fairhold-ctime", answer::header_value(node.ctime.to_rfc3339())?);
    add("fairhold-mtime", answer::header_value(node.mtime.to_rfc3339())?);
    add("fairhold-version", HeaderValue::from(node.version));
    add("fairhold-cversion", HeaderValue::from(node.cversion()));
    add("fairhold-aversion", HeaderValue::from(node.aversion));
    add("fairhold-ephemeral-owner", HeaderValue::from(node.ephemeral_owner.0));
    add("fairhold-data-length", HeaderValue::from(node.value.len()));
    add("fairhold-num-children", HeaderValue::from(node.num_children));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_state::record::{NodeKind, NodeRole};
    use fairhold_types::{SessionNumber, time::WallMillis};

    #[test]
    fn the_stat_is_the_same_in_headers_and_in_json() {
        let node = Znode {
            czxid: Revision(1),
            mzxid: Revision(2),
            pzxid: Revision(3),
            ctime: WallMillis(4),
            mtime: WallMillis(5),
            version: 6,
            aversion: 7,
            creates: 8,
            num_children: 5,
            ephemeral_owner: SessionNumber(10),
            kind: NodeKind::Persistent.into(),
            value: Value::from(&b"hello value"[..]),
            role: NodeRole::Data,
            acl: None,
        };
        let mut response = Response::default();
        add_stat(&mut response, &node).unwrap();
        let json = serde_json::to_value(stat(Path::parse("/a").unwrap(), &node)).unwrap();
        let fields = json.as_object().unwrap().iter().filter(|(name, _)| *name != "path");
        let mut count = 0;
        for (name, value) in fields {
            let header = response.headers()[format!("fairhold-{}", name.replace('_', "-"))].to_str().unwrap();
            assert_eq!(value.to_string().trim_matches('"'), header, "{name}");
            count += 1;
        }
        assert_eq!((count, response.headers().len()), (11, 11));
    }

    #[test]
    fn the_path_follows_the_prefix_in_the_url() {
        let path = |uri: &str| path(&Received::without_body(Request::get(uri).body(Body::empty()).unwrap()).unwrap());
        for (uri, expected) in [("/v1/nodes/", "/"), ("/v1/nodes/a/b?meta", "/a/b"), ("/v1/nodes/a%20b%2Fc+d", "/a b/c+d")] {
            assert_eq!(path(uri).unwrap().as_str(), expected);
        }
        for wrong in ["/v1/nodes/a/", "/v1/nodes//a", "/v1/nodes/a/../b", "/v1/nodes/%", "/v1/nodes/%C3"] {
            assert!(path(wrong).is_err(), "{wrong} was accepted");
        }
    }
}

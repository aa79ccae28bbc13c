//! The calls on the tree's nodes: read one, write one.

use crate::{
    answer,
    error::{Asked, Problem},
    headers,
    params::Known,
    request::Received,
};
use axum::{
    body::Body,
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use fairhold_node::{Node, api::PutCall};
use fairhold_state::record::Znode;
use fairhold_types::{Path, dto, limits::VALUE_BYTES_MAX};
use http::{HeaderName, HeaderValue, StatusCode, header};
use openraft_rt::AsyncRuntime;

const PREFIX: &str = "/v1/nodes";
pub(crate) const GET: Known = Known { now: &["meta", "consistency"], later: &["children", "recursive", "wait", "after"] };
pub(crate) const PUT: Known = Known { now: &["parents"], later: &["session", "ttl", "sequential", "name"] };
const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

/// `GET /v1/nodes/{path}`
pub(crate) async fn get<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let received = Received::without_body(request)?;
    let path = path(&received)?;
    let mut params = received.query(&GET)?;
    let read = received.read_options(&mut params)?;
    let meta = params.flag("meta")?;
    let found = node.get_node(&path, read).await.map_err(|error| Problem::of(error, Asked::Read))?;
    let znode = found.value.node;
    let mut response = if headers::has_version(received.headers(), znode.version)? {
        answer::empty(StatusCode::NOT_MODIFIED, found.revision)
    } else if meta {
        answer::json(StatusCode::OK, found.revision, &stat(path, &znode))?
    } else {
        let mut response = Response::new(Body::from(Bytes::from_owner(znode.value.clone())));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, OCTETS);
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        headers.insert(header::CACHE_CONTROL, NO_CACHE);
        answer::stamp(&mut response, found.revision);
        response
    };
    response.headers_mut().insert(header::ETAG, etag(znode.version)?);
    add_stat(&mut response, &znode)?;
    Ok(response)
}

/// `PUT /v1/nodes/{path}`
pub(crate) async fn put<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let mut received = Received::with_body::<RT>(request, VALUE_BYTES_MAX).await?;
    let value = Vec::from(std::mem::take(&mut received.body));
    let path = path(&received)?;
    let (key, _) = received.key_or_new(&node)?;
    let call = PutCall {
        key,
        path: path.clone(),
        value,
        parents: received.query(&PUT)?.flag("parents")?,
        version: headers::wanted_version(received.headers())?,
        fence: headers::fence(received.headers())?,
        timeout: received.timeout,
    };
    let put = node.put_node(call).await.map_err(|error| Problem::of(error, Asked::Write { key }))?;
    let status = if put.value.created { StatusCode::CREATED } else { StatusCode::OK };
    let written = dto::Written { path, version: put.value.version, revision: put.revision };
    let mut response = answer::json(status, put.revision, &written)?;
    response.headers_mut().insert(header::ETAG, etag(put.value.version)?);
    Ok(response)
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

fn add_stat(response: &mut Response, node: &Znode) -> Result<(), Problem> {
    let headers = response.headers_mut();
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
    use fairhold_state::record::{Kind, Role};
    use fairhold_types::{Revision, SessionNumber, time::WallMillis};
    use std::sync::Arc;

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
            kind: Kind::Persistent,
            value: Arc::from(&b"hello value"[..]),
            role: Role::Data,
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
    fn a_path_is_what_follows_in_the_url() {
        let path = |uri: &str| path(&Received::without_body(Request::get(uri).body(Body::empty()).unwrap()).unwrap());
        for (uri, expected) in [("/v1/nodes/", "/"), ("/v1/nodes/a/b?meta", "/a/b"), ("/v1/nodes/a%20b%2Fc+d", "/a b/c+d")] {
            assert_eq!(path(uri).unwrap().as_str(), expected);
        }
        for wrong in ["/v1/nodes/a/", "/v1/nodes//a", "/v1/nodes/a/../b", "/v1/nodes/%", "/v1/nodes/%C3"] {
            assert!(path(wrong).is_err(), "{wrong} was taken");
        }
    }
}

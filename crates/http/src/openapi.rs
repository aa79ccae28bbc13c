//! `/openapi.json`: the description of the API. It is generated from the types of the requests and the answers, and a page of
//! texts for each area. A test compares it with the router's table and with `proto/openapi.json`.
//!
//! To describe a new call, add an entry to its area's page. To describe a new area, add a page like `area_locks` and a line in
//! `calls`.

mod area_access;
mod area_audit;
mod area_cluster;
mod area_dashboard;
mod area_elections;
mod area_grants;
mod area_locks;
mod area_membership;
mod area_nodes;
mod area_sessions;
mod area_txn;
mod area_watch;
#[cfg(test)]
mod checks;
mod describe;
mod examples;
mod lines;
mod members_header;
mod operation;
mod parameter;
mod pattern;
mod problems;
mod schema;
mod vocabulary;

use crate::edge::{
    accept::{accepts_gzip, has_version},
    body::JSON,
    headers,
};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use describe::Describer;
use fairhold_types::pattern as id_pattern;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use operation::DescribedCall;
use serde_json::{Map, Value, json};
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Write as _,
    sync::OnceLock,
};

const GZIP: HeaderValue = HeaderValue::from_static("gzip");

const ABOUT: &str = "Fair locks, sessions and a tree of nodes, replicated on three or five servers.\n\nYou can send any request \
                     to any server. Durations are strings with a unit (`30s`, `250ms`; a bare number means seconds), times are \
                     RFC 3339 in UTC. Put each parameter of a POST either in the query or in a JSON body; `null` means that it \
                     is not given. Write a flag bare, as `=true` or as `=false`. The answer to an unknown parameter or field is \
                     `400` and names it.\n\nErrors are problems (RFC 9457) with a stable `code`. `503` means that nothing was \
                     done: retry freely. `504` with `\"outcome\":\"unknown\"` means that it may have happened: retry with the \
                     same `Idempotency-Key`.\n\nLimits named in bytes (`x-max-bytes`) count UTF-8.";

/// The description, ready to send.
struct Served {
    plain: Bytes,
    compressed: Bytes,
    /// Weak (RFC 9110, section 8.8.1), because both encodings share it.
    tag: HeaderValue,
}

impl Served {
    fn get() -> &'static Served {
        static SERVED: OnceLock<Served> = OnceLock::new();
        SERVED.get_or_init(|| {
            let plain = text().into_bytes();
            let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
            // Writing to memory does not fail. If it did, clients would get the plain form.
            let compressed = gzip.write_all(&plain).and_then(|()| gzip.finish()).unwrap_or_default();
            let mut hasher = DefaultHasher::new();
            plain.hash(&mut hasher);
            let tag = HeaderValue::try_from(format!("W/\"{:016x}\"", hasher.finish()));
            Served {
                plain: plain.into(),
                compressed: compressed.into(),
                tag: tag.unwrap_or_else(|_| HeaderValue::from_static("W/\"0\"")),
            }
        })
    }
}

/// `GET /openapi.json`: compressed if the client accepts gzip, and `304` if it has it already.
pub(crate) async fn serve(headers: HeaderMap) -> Response {
    let served = Served::get();
    let own = [(header::ETAG, served.tag.clone()), (header::VARY, HeaderValue::from_static("accept-encoding"))];
    if has_version(&headers, &served.tag) {
        return (StatusCode::NOT_MODIFIED, own).into_response();
    }
    if !served.compressed.is_empty() && accepts_gzip(&headers) {
        let compressed = [(header::CONTENT_TYPE, JSON), (header::CONTENT_ENCODING, GZIP)];
        return (own, compressed, served.compressed.clone()).into_response();
    }
    (own, [(header::CONTENT_TYPE, JSON)], served.plain.clone()).into_response()
}

/// The description as served and committed: indented, with sorted keys.
fn text() -> String {
    format!("{:#}\n", document())
}

/// Describes every call.
fn calls(describe: &mut Describer) -> Vec<DescribedCall> {
    let areas = [
        area_locks::CALLS,
        area_grants::CALLS,
        area_elections::CALLS,
        area_sessions::CALLS,
        area_nodes::CALLS,
        area_txn::CALLS,
        area_watch::CALLS,
        area_cluster::CALLS,
        area_dashboard::CALLS,
        area_membership::CALLS,
        area_access::CALLS,
        area_audit::CALLS,
    ];
    areas.concat().into_iter().map(|call| call(describe).finish()).collect()
}

fn document() -> Value {
    let mut describe = Describer::new();
    let mut paths = Map::new();
    for operation in calls(&mut describe) {
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        methods[operation.method.as_str().to_lowercase()] = operation.value;
    }
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Fairhold",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/", "description": "The server that sent this page; you can use any other." }],
        "tags": [
            { "name": "locks", "description": "Locks: what everyone can see, and the calls for administrators." },
            { "name": "grants", "description": "Grants: acquire, get, renew and release them." },
            { "name": "elections", "description": "Elections: locks whose holder publishes a value." },
            { "name": "sessions", "description": "Sessions: a client's liveness, which owns its grants." },
            { "name": "nodes", "description": "The tree of nodes." },
            { "name": "watch", "description": "Events, as they happen." },
            { "name": "cluster", "description": "The cluster and this server." },
            { "name": "dashboard", "description": "What a person looks at first, and the dashboard." },
            { "name": "access", "description": "Access rights: roles, bindings, users and tokens." },
            { "name": "members", "description": "The members of the cluster, and its settings." },
        ],
        "paths": paths,
        "components": {
            "examples": describe.refused,
            "schemas": describe.schemas(),
            "headers": {
                (headers::CLUSTER.as_str()): {
                    "description": "The id of the cluster that answers, once the cluster has formed. An answer without it, or \
                                    with another id, is not from this cluster.",
                    "schema": { "type": "string", "pattern": id_pattern::CLUSTER_ID },
                },
                (headers::REVISION.as_str()): {
                    "description": "The applied revision that the answer reflects. A refusal names that of this server.",
                    "required": true,
                    "schema": { "type": "integer", "minimum": 0 },
                },
                (headers::LEADER.as_str()): {
                    "description": "The leader's address for clients, if known.",
                    "schema": { "type": "string" },
                },
                (headers::REQUEST_ID.as_str()): {
                    "description": "The id of the request, as in the server's log.",
                    "required": true,
                    "schema": { "type": "string" },
                },
            },
            "securitySchemes": {
                "admin": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of the server's --admin-token-file; if the server has none, no call needs it.",
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::ui::Dashboard, edge::metrics::Exposition, edge::server_info::ServerInfo, router::routes};
    use openraft_rt_tokio::TokioRuntime;
    use std::{collections::BTreeSet, fs, path::PathBuf};

    /// `FAIRHOLD_GOLDEN=write` rewrites it.
    #[test]
    fn the_committed_description_matches_the_code() {
        let path = PathBuf::from("../../proto/openapi.json");
        let text = text();
        if std::env::var("FAIRHOLD_GOLDEN").is_ok_and(|value| value == "write") {
            fs::write(&path, &text).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap();
        assert!(text == committed, "proto/openapi.json is out of date: FAIRHOLD_GOLDEN=write rewrites it");
    }

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let routes = routes::<TokioRuntime>(
            ServerInfo { version: "", host: fairhold_types::dto::Host::default, insecure: Vec::new },
            Dashboard::BuiltIn,
            Exposition::default(),
        );
        let routed: BTreeSet<(String, String)> = routes
            .list()
            .iter()
            .flat_map(|route| route.methods().map(|method| (route.template.replace("{*", "{"), method.to_string())))
            .collect();
        let mut describe = Describer::new();
        let operations = calls(&mut describe);
        let described: Vec<(String, String)> =
            operations.iter().map(|operation| (operation.path.to_owned(), operation.method.to_string())).collect();
        let once: BTreeSet<_> = described.iter().cloned().collect();
        assert_eq!(once.len(), described.len(), "a call is described twice");
        assert_eq!(once, routed);
    }

    #[test]
    fn every_reference_resolves_and_every_schema_is_used() {
        let document = document();
        let mut used = BTreeSet::new();
        let mut open = vec![&document];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(reference)) = fields.get("$ref") {
                        let pointer = reference.strip_prefix('#').unwrap();
                        assert!(document.pointer(pointer).is_some(), "{reference} does not resolve");
                        used.insert(pointer.to_owned());
                    }
                    open.extend(fields.values());
                }
                Value::Array(items) => open.extend(items),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        for kind in ["schemas", "headers", "examples"] {
            for name in document["components"][kind].as_object().unwrap().keys() {
                assert!(used.contains(&format!("/components/{kind}/{name}")), "{name} is unused");
            }
        }
    }

    #[test]
    fn every_call_has_a_unique_id_and_texts() {
        let mut describe = Describer::new();
        let mut names = BTreeSet::new();
        for DescribedCall { value, path, .. } in calls(&mut describe) {
            assert!(names.insert(value["operationId"].as_str().unwrap().to_owned()), "{path}");
            assert!(value["summary"].as_str().is_some_and(|summary| summary.len() > 10), "{path}");
            assert!(value["responses"].as_object().is_some_and(|answers| answers.len() > 1), "{path}");
        }
    }
}

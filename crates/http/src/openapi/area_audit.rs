//! Describes the audit of administrative acts.

use super::{
    describe::{DescribeCall, Describer, Operation},
    operation::OperationKind::Read,
};
use fairhold_types::{call, dto};
use http::StatusCode;
use serde_json::{Value, json};

const TAG: &str = "access";

pub(super) const CALLS: &[DescribeCall] = &[list];

fn list(api: &mut Describer) -> Operation<'_> {
    let line = api.schema::<dto::AuditedAct>();
    api.call(Read, "/v1/audit", "listActs", TAG, "List the administrative acts, with their principals and results.")
        .about(
            "For administrators and auditors. The cluster keeps the newest 10,000 acts, and 8 MiB of them at most, from its \
             version 2 on. Every server has the same entries. Each entry has a hash over itself and the hash before it, so a \
             copy shows that it was altered or cut. Keep the bytes of the lines as they are: the hashes are made of them. \
             `from` and `cursor` select the first entry; the later one counts. With `newest`, the page ends with the newest \
             entry.",
        )
        .query::<call::ReadAudit>()
        .content("The acts, one a line.", "application/x-ndjson", line, act())
        .empty(StatusCode::NOT_MODIFIED, "There was nothing to wait for.")
        .admin()
}

fn act() -> Value {
    json!({
        "seq": 7, "revision": 90, "time": "2026-01-01T12:00:00.000Z", "principal": "user:ci", "address": "10.0.0.7",
        "request": "2-19a-f", "verb": "break", "on": "locks:orders/42", "detail": "", "reason": "ci-7 hangs", "result": "ok",
        "previous": "63f1b6c1b0a3c8a5d2b4e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b",
        "hash": "90b9f254d9630f4ebaead03bc7fdaf375e2fb80b6114ae5bbe4505dbfe373afe",
    })
}

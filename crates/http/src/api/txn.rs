//! `POST /v1/txn`: conditions, then operations, all or nothing, at one revision.

use crate::{
    api::node_kind, edge::advice::bounded, edge::answer, edge::error::problem_of, edge::json_fault, edge::problem::Problem,
    edge::request::Received, edge::request_kind::RequestKind,
};
use axum::{
    extract::{Request, State},
    response::Response,
};
use fairhold_node::{Node, api::TransactCall};
use fairhold_state::command::{Condition, Operation, OperationResult, SessionKey};
use fairhold_types::{
    Path, call,
    limits::TRANSACTION_STEPS_MAX,
    txn::{self, SessionName},
};
use http::StatusCode;
use openraft_rt::AsyncRuntime;

/// `POST /v1/txn`
pub(crate) async fn transact<RT: AsyncRuntime>(State(node): State<Node<RT>>, request: Request) -> Result<Response, Problem> {
    let (received, mut body) = Received::with_list::<RT>(request).await?;
    let call::Empty {} = received.query()?;
    let (key, _) = received.key_or_new(&node)?;
    let malformed = |error| {
        let fault = json_fault::describe(&error);
        Problem::bad_request(bounded(format!("the body must be a transaction, like {EXAMPLE}: {fault}")))
    };
    let transaction: txn::Transaction = serde_json::from_slice(&std::mem::take(&mut body.bytes)).map_err(malformed)?;
    check_length("if", transaction.conditions.len())?;
    let conditions = numbered("if", transaction.conditions, condition)?;
    let then = operations("then", transaction.then)?;
    let otherwise = transaction.otherwise.map(|otherwise| operations("else", otherwise)).transpose()?;
    let (then_paths, else_paths) = (paths(&then), otherwise.as_deref().map(paths).unwrap_or_default());
    let call = TransactCall { key, conditions, then, otherwise, timeout: received.timeout };
    let done = node.transact(call).await.map_err(|error| problem_of(error, RequestKind::Write { key }))?;
    let paths = if done.value.succeeded { then_paths } else { else_paths };
    let body = txn::Transacted {
        succeeded: done.value.succeeded,
        results: paths.into_iter().zip(done.value.results).map(result).collect(),
        revision: done.value.at,
        replayed: done.value.replayed,
    };
    answer::json(StatusCode::OK, done.revision, &body)
}

const EXAMPLE: &str = r#"{"if":[{"path":"/a","version":0}],"then":[{"put":{"path":"/a","value":"x"}}]}"#;

fn check_length(part: &str, length: usize) -> Result<(), Problem> {
    if length <= TRANSACTION_STEPS_MAX {
        return Ok(());
    }
    Err(Problem::bad_request(format!("\"{part}\" has {length} entries: at most {TRANSACTION_STEPS_MAX} fit into a transaction")))
}

/// Converts each entry of a list. A refusal names the entry's position.
fn numbered<A, B>(part: &str, from: Vec<A>, read: impl Fn(A) -> Result<B, Problem>) -> Result<Vec<B>, Problem> {
    let one = |(index, entry)| read(entry).map_err(|problem| problem.at(&format!("{part}[{index}]")));
    from.into_iter().enumerate().map(one).collect()
}

fn operations(part: &str, operations: Vec<txn::Operation>) -> Result<Vec<Operation>, Problem> {
    check_length(part, operations.len())?;
    numbered(part, operations, operation)
}

fn condition(condition: txn::Condition) -> Result<Condition, Problem> {
    let txn::Condition { path, version, exists, fence, session } = condition;
    match (path, version, exists, fence, session) {
        (Some(path), Some(version), None, None, None) => Ok(Condition::Version { path, version: Some(version) }),
        (Some(path), None, Some(true), None, None) => Ok(Condition::Exists { path }),
        (Some(path), None, Some(false), None, None) => Ok(Condition::Version { path, version: None }),
        (None, None, None, Some(fence), None) => {
            Ok(Condition::Fence { lock: fence.lock, token: fence.token, grant: fence.grant })
        }
        (None, None, None, None, Some(session)) => {
            let session = match session {
                SessionName::Number(number) => SessionKey::Number(number),
                SessionName::Id(id) => SessionKey::Id(id),
            };
            Ok(Condition::Session { session })
        }
        _ => Err(Problem::bad_request(
            "a condition is one of {\"path\",\"version\"}, {\"path\",\"exists\"}, {\"fence\":{\"lock\",\"token\"}} and \
             {\"session\"}",
        )),
    }
}

fn operation(operation: txn::Operation) -> Result<Operation, Problem> {
    Ok(match operation {
        txn::Operation::Create(create) => {
            let value = node_kind::value(create.value, create.value_base64)?;
            let lifetime = node_kind::from_fields(create.session, create.ttl, create.container)?;
            let (path, parents) = (create.path, create.parents);
            match (create.sequential, create.name) {
                (true, name) => {
                    let prefix = node_kind::sequential_prefix(&path, name)?;
                    Operation::CreateSequential { parent: path, prefix, value, parents, lifetime }
                }
                (false, None) => Operation::Create { path, value, parents, lifetime },
                (false, Some(_)) => {
                    return Err(Problem::bad_request("the field \"name\" is only for a create with \"sequential\": true"));
                }
            }
        }
        txn::Operation::Put(put) => Operation::Put {
            path: put.path,
            value: node_kind::value(put.value, put.value_base64)?,
            parents: put.parents,
            lifetime: node_kind::from_fields(put.session, put.ttl, put.container)?,
        },
        txn::Operation::Set(set) => {
            Operation::Set { path: set.path, value: node_kind::value(set.value, set.value_base64)?, version: set.version }
        }
        txn::Operation::Delete(delete) => {
            Operation::Delete { path: delete.path, version: delete.version, recursive: delete.recursive }
        }
        txn::Operation::Check(check) => Operation::Check { path: check.path, version: check.version },
    })
}

fn paths(operations: &[Operation]) -> Vec<Path> {
    let path = |operation: &Operation| match operation {
        Operation::Put { path, .. }
        | Operation::Create { path, .. }
        | Operation::Set { path, .. }
        | Operation::Delete { path, .. }
        | Operation::Check { path, .. } => path.clone(),
        Operation::CreateSequential { parent, .. } => parent.clone(),
    };
    operations.iter().map(path).collect()
}

fn result((path, result): (Path, OperationResult)) -> txn::OperationResult {
    match result {
        OperationResult::Put { created, version } => txn::OperationResult::Put { path, created, version },
        OperationResult::Created { path } => txn::OperationResult::Create { path },
        OperationResult::Set { version } => txn::OperationResult::Set { path, version },
        OperationResult::Deleted { count } => txn::OperationResult::Delete { path, count },
        OperationResult::Checked { version } => txn::OperationResult::Check { path, version },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Condition>, Problem> {
        numbered("if", serde_json::from_str::<txn::Transaction>(text).unwrap().conditions, condition)
    }

    #[test]
    fn a_condition_checks_one_thing() {
        let id = "0123456789abcdef0123456789abcdef";
        let text = format!(
            r#"{{"if":[{{"path":"/a","version":3}},{{"path":"/a","exists":true}},{{"path":"/a","exists":false}},
                {{"fence":{{"lock":"deploy","token":42}}}},{{"session":7}},{{"session":"{id}"}}]}}"#
        );
        let path = Path::parse("/a").unwrap();
        assert_eq!(
            read(&text).unwrap(),
            [
                Condition::Version { path: path.clone(), version: Some(3) },
                Condition::Exists { path: path.clone() },
                Condition::Version { path, version: None },
                Condition::Fence {
                    lock: fairhold_types::LockName::parse("deploy").unwrap(),
                    token: fairhold_types::FencingToken(42),
                    grant: None
                },
                Condition::Session { session: SessionKey::Number(fairhold_types::SessionNumber(7)) },
                Condition::Session { session: SessionKey::Id(id.parse().unwrap()) },
            ]
        );
        for wrong in [
            r#"{"if":[{}]}"#,
            r#"{"if":[{"path":"/a"}]}"#,
            r#"{"if":[{"version":1}]}"#,
            r#"{"if":[{"path":"/a","version":1,"exists":true}]}"#,
            r#"{"if":[{"session":1,"exists":true}]}"#,
            r#"{"if":[{"session":1,"fence":{"lock":"a","token":1}}]}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn at_most_a_thousand_entries_fit() {
        for (length, fits) in [(999, true), (1_000, true), (1_001, false)] {
            assert_eq!(check_length("then", length).is_ok(), fits, "{length}");
        }
    }
}

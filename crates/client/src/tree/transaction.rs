//! Transactions: several changes in one step, all or none.

use crate::{
    client::Client,
    error::Error,
    hold::{guard::Held, session::Session},
    wire::{call::Call, url::node_path},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use fairhold_types::{
    Code, FencingToken,
    problem::TransactionPart,
    txn::{self, Condition, Fence, Operation, SessionName, Transacted},
};
use futures_util::future::BoxFuture;
use reqwest::Method;

/// The branch that gets the next operations.
#[derive(Debug, Clone, Copy)]
enum Branch {
    Then,
    Otherwise,
}

impl Client {
    /// Makes several changes to the tree in one step, under conditions.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.clone())
    }
}

/// A transaction to make: add conditions and operations, then `.await` it. All of it is one step with one revision. If
/// a condition does not hold, the cluster does what was added after [`otherwise`](Transaction::otherwise); without
/// that, it refuses the transaction.
///
/// ```no_run
/// # async fn example(client: fairhold_client::Client, held: fairhold_client::Held) -> Result<(), fairhold_client::Error> {
/// let done = client.transaction().if_held(&held).if_version("/jobs/7", 3).set("/jobs/7", "done").delete("/jobs/7/owner").await?;
/// assert!(done.succeeded);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a transaction is sent only if you await it"]
pub struct Transaction {
    client: Client,
    body: txn::Transaction,
    branch: Branch,
    /// The grants whose fences are conditions, each with the index of its condition and its token.
    held: Vec<(usize, FencingToken, Held)>,
    invalid: Option<Error>,
}

impl Transaction {
    pub(crate) fn new(client: Client) -> Transaction {
        let body = txn::Transaction::default();
        Transaction { client, body, branch: Branch::Then, held: Vec::new(), invalid: None }
    }

    fn condition(mut self, path: Option<&str>, condition: Condition) -> Transaction {
        match path.map(node_path).transpose() {
            Ok(path) => self.body.conditions.push(Condition { path, ..condition }),
            Err(error) => self.invalid = Some(error),
        }
        self
    }

    /// Only if this node has this version.
    pub fn if_version(self, path: &str, version: i32) -> Transaction {
        self.condition(Some(path), Condition { version: Some(version), ..Condition::default() })
    }

    /// Only if this node exists.
    pub fn if_exists(self, path: &str) -> Transaction {
        self.condition(Some(path), Condition { exists: Some(true), ..Condition::default() })
    }

    /// Only if this node does not exist.
    pub fn if_absent(self, path: &str) -> Transaction {
        self.condition(Some(path), Condition { exists: Some(false), ..Condition::default() })
    }

    /// Only while this grant is held. If it is already lost, the transaction fails and nothing is sent.
    pub fn if_held(mut self, held: &Held) -> Transaction {
        match held.fence() {
            Ok((lock, token, id)) => {
                self.held.push((self.body.conditions.len(), token, held.clone()));
                let fence = Some(Fence { lock: lock.clone(), token, grant: Some(id) });
                self.condition(None, Condition { fence, ..Condition::default() })
            }
            Err(lost) => Transaction { invalid: Some(lost), ..self },
        }
    }

    /// Only while this session lives.
    pub fn if_alive(self, session: &Session) -> Transaction {
        let session = Some(SessionName::Id(session.id()));
        self.condition(None, Condition { session, ..Condition::default() })
    }

    /// The operations added after this are done if a condition does not hold.
    pub fn otherwise(mut self) -> Transaction {
        self.body.otherwise.get_or_insert_default();
        Transaction { branch: Branch::Otherwise, ..self }
    }

    /// Adds an operation with all its options.
    pub fn operation(mut self, operation: Operation) -> Transaction {
        match self.branch {
            Branch::Then => self.body.then.push(operation),
            Branch::Otherwise => self.body.otherwise.get_or_insert_default().push(operation),
        }
        self
    }

    fn at(self, path: &str, operation: impl FnOnce(fairhold_types::Path) -> Operation) -> Transaction {
        match node_path(path) {
            Ok(path) => self.operation(operation(path)),
            Err(error) => Transaction { invalid: Some(error), ..self },
        }
    }

    /// Writes a node's value, and creates the node if it does not exist.
    pub fn put(self, path: &str, value: impl Into<Vec<u8>>) -> Transaction {
        let (value, value_base64) = text_or_base64(value.into());
        self.at(path, |path| {
            Operation::Put(txn::Put { path, value, value_base64, parents: false, session: None, ttl: None, container: false })
        })
    }

    /// Creates a node. If it exists, the transaction is refused.
    pub fn create(self, path: &str, value: impl Into<Vec<u8>>) -> Transaction {
        let (value, value_base64) = text_or_base64(value.into());
        self.at(path, |path| Operation::Create(txn::Create { path, value, value_base64, ..create() }))
    }

    /// Creates a child whose name is this prefix and the parent's next number. Its path is among the results.
    pub fn create_sequential(self, parent: &str, name: &str, value: impl Into<Vec<u8>>) -> Transaction {
        let (value, value_base64) = text_or_base64(value.into());
        let name = (!name.is_empty()).then(|| name.to_owned());
        self.at(parent, |path| Operation::Create(txn::Create { path, value, value_base64, sequential: true, name, ..create() }))
    }

    /// Creates a node that lives as long as this session.
    pub fn create_ephemeral(self, path: &str, value: impl Into<Vec<u8>>, session: &Session) -> Transaction {
        let (value, value_base64) = text_or_base64(value.into());
        let session = Some(session.id());
        self.at(path, |path| Operation::Create(txn::Create { path, value, value_base64, session, ..create() }))
    }

    /// Writes the value of an existing node.
    pub fn set(self, path: &str, value: impl Into<Vec<u8>>) -> Transaction {
        let (value, value_base64) = text_or_base64(value.into());
        self.at(path, |path| Operation::Set(txn::Set { path, value, value_base64, version: None }))
    }

    /// Removes a node without children.
    pub fn delete(self, path: &str) -> Transaction {
        self.at(path, |path| Operation::Delete(txn::Delete { path, version: None, recursive: false }))
    }

    async fn send(self) -> Result<Transacted, Error> {
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        let inner = self.client.inner();
        let body = serde_json::to_value(&self.body).map_err(|error| Error::Invalid(format!("the transaction: {error}")))?;
        let call = Call::new(Method::POST, "/v1/txn".to_owned()).key(inner.ids.make()).json(&body);
        let reply = self.client.send(&call).await?;
        let problem = reply.problem();
        if let (Some(Code::StaleToken), Some(failed)) = (problem.code, problem.failed)
            && failed.part == TransactionPart::If
        {
            let fenced = self.held.iter().filter(|(index, ..)| u32::try_from(*index).ok() == Some(failed.index));
            fenced.for_each(|(_, token, held)| held.fenced_out(*token));
        }
        reply.json()
    }
}

impl IntoFuture for Transaction {
    type Output = Result<Transacted, Error>;
    type IntoFuture = BoxFuture<'static, Result<Transacted, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}

/// A creation with default options.
fn create() -> txn::Create {
    txn::Create {
        path: fairhold_types::Path::root(),
        value: None,
        value_base64: None,
        parents: false,
        sequential: false,
        name: None,
        session: None,
        ttl: None,
        container: false,
    }
}

/// A value as JSON carries it: as text, or else in base64.
fn text_or_base64(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(other) => (None, Some(STANDARD.encode(other.as_bytes()))),
    }
}

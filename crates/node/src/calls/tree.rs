//! Writes to the tree, and listings of its nodes.

use crate::{
    access::Visible,
    api::{At, CallError, Children, Fence, NodeRow, Operated, Precondition, ReadOptions, TransactCall, Transacted, WriteCall},
    base::walks::walk_in_turns,
    calls::write_key::fingerprint,
    clock::wall_now,
    node::Node,
};
use fairhold_state::{
    State,
    command::{Command, Condition, OperationResult, Outcome, Rejection, Transact, WriteKey},
    record::Znode,
};
use fairhold_types::{Path, limits};
use openraft_rt::AsyncRuntime;

impl<RT: AsyncRuntime> Node<RT> {
    /// Performs one operation on the tree if its fence and its precondition hold.
    pub async fn write_node(&self, call: WriteCall) -> Result<At<Operated>, CallError> {
        let WriteCall { key, operation, precondition, fence, timeout } = call;
        let conditions = fence.map(fenced).into_iter().chain(precondition.map(|wanted| wanted.condition())).collect();
        let call = TransactCall { key, conditions, then: vec![operation], otherwise: None, timeout };
        match self.transact(call).await {
            Ok(At { value, revision }) => match <[OperationResult; 1]>::try_from(value.results) {
                Ok([result]) => Ok(At { value: Operated { result, at: value.at }, revision }),
                Err(results) => unreachable!("one operation was answered with {results:?}"),
            },
            // The call has only one step, so the step's number is not needed.
            Err(CallError::Rejected(Rejection::Step { reason, .. })) => Err(CallError::Rejected(*reason)),
            Err(error) => Err(error),
        }
    }

    /// Checks conditions and performs operations in one step.
    pub async fn transact(&self, call: TransactCall) -> Result<At<Transacted>, CallError> {
        let TransactCall { key, conditions, then, otherwise, timeout } = call;
        let key = Some(WriteKey { key, fingerprint: fingerprint(&(&conditions, &then, &otherwise))? });
        let command = Command::Transact(Transact { key, conditions, then, otherwise, at: wall_now() });
        let answer = self.propose(command, timeout).await?;
        match answer.result? {
            Outcome::Written { succeeded, results, at } => {
                Ok(At { value: Transacted { succeeded, results, at, replayed: false }, revision: answer.revision })
            }
            Outcome::WrittenBefore { succeeded, at } => {
                Ok(At { value: Transacted { succeeded, results: Vec::new(), at, replayed: true }, revision: answer.revision })
            }
            outcome @ (Outcome::Nothing
            | Outcome::Done
            | Outcome::Held(_)
            | Outcome::Queued(_)
            | Outcome::SessionOpened { .. }
            | Outcome::Broken { .. }
            | Outcome::Judged { .. }
            | Outcome::JoinTokenCreated { .. }
            | Outcome::Admitted { .. }
            | Outcome::AccessTokenCreated { .. }) => unreachable!("a write was answered with {outcome:?}"),
        }
    }

    /// The children of a node, or all nodes below it, in the order of their paths: at most `limit`, after the path
    /// `after`.
    pub async fn list_nodes(
        &self,
        path: &Path,
        recursive: bool,
        after: Option<&str>,
        limit: usize,
        read: ReadOptions,
    ) -> Result<At<Children>, CallError> {
        let limit = limit.min(limits::PAGE_MAX);
        let no_node = || CallError::NoNode { path: path.clone() };
        if self.is_enforced() {
            let walk = self.walk(read).await?;
            let visible = self.visible()?;
            let value = list_visible(&walk.state, (path, recursive), after, limit, &visible).await.ok_or_else(no_node)?;
            return Ok(At { value, revision: walk.state.revision() });
        }
        let state = self.fresh_copy(read).await?;
        let value = list(&state, path, recursive, after, limit).ok_or_else(no_node)?;
        Ok(At { value, revision: state.revision() })
    }
}

fn list(state: &State, path: &Path, recursive: bool, after: Option<&str>, limit: usize) -> Option<Children> {
    let parent = state.node(path)?.clone();
    let row = |(path, node): (&Path, &Znode)| NodeRow { path: path.clone(), node: node.clone() };
    // Reads one extra row, to learn whether more follow.
    let mut rows: Vec<NodeRow> = if recursive {
        state.descendants(path, after).take(limit + 1).map(row).collect()
    } else {
        state.children(path, after).take(limit + 1).map(row).collect()
    };
    let more = rows.len() > limit;
    rows.truncate(limit);
    Some(Children { parent, rows, more })
}

/// The same without the nodes that the caller may not see. It may visit all of them.
async fn list_visible(
    state: &State,
    (path, recursive): (&Path, bool),
    after: Option<&str>,
    limit: usize,
    visible: &Visible,
) -> Option<Children> {
    let parent = state.node(path)?.clone();
    let mut nodes: Box<dyn Iterator<Item = (&Path, &Znode)> + Send> =
        if recursive { Box::new(state.descendants(path, after)) } else { Box::new(state.children(path, after)) };
    let mut rows = Vec::new();
    walk_in_turns(|count| {
        for _ in 0..count {
            let Some((path, node)) = nodes.next().filter(|_| rows.len() <= limit) else { return true };
            if visible.has_node(path) {
                rows.push(NodeRow { path: path.clone(), node: node.clone() });
            }
        }
        false
    })
    .await;
    let more = rows.len() > limit;
    rows.truncate(limit);
    Some(Children { parent, rows, more })
}

fn fenced(fence: Fence) -> Condition {
    Condition::Fence { lock: fence.lock, token: fence.token, grant: fence.grant }
}

impl Precondition {
    fn condition(self) -> Condition {
        match self {
            Precondition::Version(path, version) => Condition::Version { path, version: Some(version) },
            Precondition::Absent(path) => Condition::Version { path, version: None },
            Precondition::Exists(path) => Condition::Exists { path },
        }
    }
}

//! Takes one step. Every change of the members carries two conditions: this node still leads with the same vote, and
//! the members are still those that the step was decided for. So neither a deposed leader nor a second change can do
//! harm.

use crate::{
    base::{
        aliases::LogId,
        error::ProposeError,
        types::{Member, Types},
        wall_clock::wall_now,
    },
    core::{Core, Leadership},
    leadership::{
        handover,
        reconciler::{plan::Step, view::Sight},
    },
    queues::Queues,
};
use fairhold_state::{command::Command, membership::Membership};
use fairhold_types::{Incarnation, NodeId, failpoint};
use openraft::{AsyncRuntime, ChangeMembers, Instant, raft::Precondition};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Duration,
};

/// How long a step may take. Without a majority it takes for ever; then it is tried again.
const STEP_LIMIT: Duration = Duration::from_secs(5);

/// Changes of openraft's membership.
pub(crate) type Changes = ChangeMembers<NodeId, Member>;

/// Why a step was not taken, or not to its end. It is decided anew at the next look.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StepError {
    #[error("{0}")]
    Failpoint(#[from] io::Error),
    #[error("{0}")]
    Raft(String),
    #[error("this node no longer leads")]
    Deposed,
    #[error("no majority answers")]
    Slow,
    #[error("{0}")]
    Propose(#[from] ProposeError),
    #[error("node {0} did not take over in time")]
    NotTaken(NodeId),
    #[error("the join was given up")]
    NoJoin,
}

/// Takes a step that was decided under this leadership.
pub(crate) async fn take<RT: AsyncRuntime>(
    (core, queues): (&Core<RT>, &Queues),
    leadership: Leadership,
    sight: &Sight,
    membership: &Membership,
    step: Step,
    incarnation_of: impl Fn(NodeId) -> Option<Incarnation>,
) -> Result<(), StepError> {
    let change = |changes, retain| change(core, leadership, sight.set_by, changes, retain);
    match step {
        Step::FlattenJoint => {
            failpoint!(RaftMemberFlatten, RT)?;
            // The voters that are left out become learners: a pending removal then removes them.
            change(ChangeMembers::AddVoterIds(BTreeSet::new()), true).await
        }
        Step::AddLearner { node } => {
            let join = membership.join(node).ok_or(StepError::NoJoin)?;
            let member = Member { url: join.url.clone(), address: join.address.clone(), incarnation: join.incarnation };
            change(ChangeMembers::AddNodes(BTreeMap::from([(node, member)])), true).await?;
            Ok(failpoint!(RaftJoinAdded, RT)?)
        }
        Step::Promote { node } => {
            failpoint!(RaftJoinPromote, RT)?;
            change(ChangeMembers::AddVoterIds(BTreeSet::from([node])), true).await
        }
        Step::Replace { new, old } => {
            failpoint!(RaftMemberSwap, RT)?;
            let add = ChangeMembers::AddVoterIds(BTreeSet::from([new]));
            let remove = ChangeMembers::RemoveVoters(BTreeSet::from([old]));
            change(ChangeMembers::Batch(vec![add, remove]), false).await
        }
        Step::RemoveMember { node } if sight.view.voters.contains(&node) => {
            change(ChangeMembers::RemoveVoters(BTreeSet::from([node])), false).await
        }
        Step::RemoveMember { node } => change(ChangeMembers::RemoveNodes(BTreeSet::from([node])), true).await,
        Step::HandOver { to } => {
            if handover::transfer_to(core, to).await {
                Ok(())
            } else {
                Err(StepError::NotTaken(to))
            }
        }
        Step::Settle { node } => {
            failpoint!(RaftJoinSettle, RT)?;
            propose::<RT>(queues, Command::SettleJoin { node, at: wall_now() }).await
        }
        Step::RecordRemoval { node } => {
            let incarnation = incarnation_of(node);
            let ids_through = sight.ids_through();
            propose::<RT>(queues, Command::RecordRemoval { node, incarnation, ids_through, at: wall_now() }).await
        }
    }
}

/// Changes the members, if this leadership still holds, and if the members were set by the entry `set_by`. A removed
/// voter stays a learner if `retain`.
pub(crate) async fn change<RT: AsyncRuntime>(
    core: &Core<RT>,
    leadership: Leadership,
    set_by: Option<LogId>,
    changes: Changes,
    retain: bool,
) -> Result<(), StepError> {
    let preconditions: [Precondition<Types<RT>>; 2] = [
        Precondition::CommittedLeaderId { committed_leader_id: leadership.0 },
        Precondition::LastMembershipLogId { last_membership_log_id: set_by },
    ];
    let changed = core.until_leader_changes(core.raft.change_membership_if(changes, retain, preconditions));
    match RT::timeout(STEP_LIMIT, changed).await {
        Ok(Some(Ok(_))) => Ok(()),
        Ok(Some(Err(error))) => Err(StepError::Raft(error.to_string())),
        Ok(None) => Err(StepError::Deposed),
        Err(_) => Err(StepError::Slow),
    }
}

/// Proposes a command of the leader. None of them is refused.
async fn propose<RT: AsyncRuntime>(queues: &Queues, command: Command) -> Result<(), StepError> {
    let submitted = queues.proposals.submit(command, true).map_err(ProposeError::from)?;
    submitted.outcome::<RT>(RT::Instant::now() + STEP_LIMIT).await?;
    Ok(())
}

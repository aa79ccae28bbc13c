//! When the leader last heard from a session. The other nodes ask it, because keepalives are not replicated.
//!
//! The answer is for people. It comes without a proof that the node still leads, and it is missing rather than late.

use crate::leader::clock::LeaderClock;
use fairhold_raft::Replica;
use fairhold_types::{SessionNumber, duration};
use openraft_rt::{AsyncRuntime, Instant};
use std::time::Duration;

/// The version byte of a question and of its answer. It differs from that of keepalives, so that the leader can tell them apart.
const HEARD_FORMAT: u8 = 2;
/// How long the leader may take to answer.
const HEARD_TIMEOUT: Duration = Duration::from_secs(1);

/// The time since the leader last heard from a session. `None` if it has not, or does not answer in time. Call this from
/// `HEARD_SINCE` on: an older program does not know the question, and logs a warning each time.
pub(crate) async fn ask_leader<RT: AsyncRuntime>(
    replica: &Replica<RT>,
    session: SessionNumber,
    deadline: RT::Instant,
) -> Option<Duration> {
    let question = match fairhold_codec::encode(HEARD_FORMAT, &session) {
        Ok(question) => question,
        Err(error) => {
            tracing::error!(%error, "cannot encode a question about a session");
            return None;
        }
    };
    let answer = match replica.call_leader(question, deadline.min(RT::Instant::now() + HEARD_TIMEOUT)).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(%error, "the leader did not say when it last heard from a session");
            return None;
        }
    };
    match fairhold_codec::decode::<Option<u64>>(HEARD_FORMAT, &answer) {
        Ok(millis) => millis.map(Duration::from_millis),
        Err(error) => {
            tracing::debug!(%error, "cannot decode when the leader last heard from a session");
            None
        }
    }
}

/// Whether a message to the leader is such a question.
pub(crate) fn is_question(message: &[u8]) -> bool {
    message.first() == Some(&HEARD_FORMAT)
}

/// The leader's answer to a question.
pub(crate) fn answer<RT: AsyncRuntime>(clock: &LeaderClock<RT>, question: &[u8]) -> Vec<u8> {
    let heard = match fairhold_codec::decode::<SessionNumber>(HEARD_FORMAT, question) {
        Ok(session) => clock.heard_ago(session).map(duration::millis),
        Err(error) => {
            tracing::warn!(%error, "cannot decode another node's question about a session");
            None
        }
    };
    fairhold_codec::encode(HEARD_FORMAT, &heard).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot encode the answer to a question about a session");
        Vec::new()
    })
}

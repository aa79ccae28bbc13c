//! Pipelined replication: many append requests in flight to one follower, answered in order, up to the first error.
//!
//! openraft takes an answer as proof that this node was the leader when it sent the *newest* request that ends at or
//! before the matched entry (`InflightAppendQueue::drain_acked`). A later request without entries, which only carries
//! the commit index, can have the same end but no answer yet. So the pipeline drops an answer while another request in
//! flight ends at or before the matched entry. The answer to the last of these requests counts for all of them
//! (decision 0029).

use crate::{
    base::{
        aliases::LogId,
        types::Types,
        wire::{self, PeerReply, PeerRequest},
    },
    outbound::raft_client::{RaftClient, RpcError, last_of, unexpected, unreachable_error},
};
use bytes::Bytes;
use fairhold_types::planted::{self, Bug};
use futures_util::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream, FuturesOrdered},
};
use openraft::{
    AsyncRuntime, Instant, RPCTypes,
    raft::{AppendEntriesRequest, StreamAppendResult},
};
use std::{collections::VecDeque, future::poll_fn, task::Poll, time::Duration};

/// Maximum number of append requests in flight to one follower.
const IN_FLIGHT_MAX: usize = 64;
/// With this many bytes in flight to one follower, the pipeline sends no more requests. It always sends one.
const IN_FLIGHT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum bytes of one append request. A larger request is cut, unless it has only one entry.
const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A request of at least this many bytes took Raft's thread for a while. Other tasks run before the next one.
const LARGE_REQUEST_BYTES: usize = 64 * 1024;
/// How many bytes of large requests of one stream a learner gets slowly: the log that is kept after a snapshot. A learner
/// that is still behind then, because there is so much writing, gets the rest as fast as it can.
const SLOW_BYTES: usize = 64 * 1024 * 1024;
/// Timeout of one answer. A follower writes to disk before it answers, so it may be slow. Sending again would not help.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

type Output<RT> = Result<StreamAppendResult<Types<RT>>, RpcError<RT>>;

struct Pipeline<'s, RT: AsyncRuntime, S> {
    client: &'s RaftClient<RT>,
    /// `None` once no more requests will be sent.
    input: Option<S>,
    in_flight: FuturesOrdered<BoxFuture<'static, (usize, Output<RT>)>>,
    /// The last entry of each request in flight.
    last_log_ids: VecDeque<Option<LogId>>,
    bytes: usize,
    /// Nothing is sent before.
    due: Option<RT::Instant>,
    /// The bytes that a learner has got slowly.
    slow_bytes: usize,
}

/// Sends the requests from `input`, and yields the answers in the same order.
pub(super) fn run<'s, RT, S>(client: &'s RaftClient<RT>, input: S) -> BoxStream<'s, Output<RT>>
where
    RT: AsyncRuntime,
    S: Stream<Item = AppendEntriesRequest<Types<RT>>> + Send + Unpin + 'static,
{
    let pipeline = Pipeline {
        client,
        input: Some(input),
        in_flight: FuturesOrdered::new(),
        last_log_ids: VecDeque::new(),
        bytes: 0,
        due: None,
        slow_bytes: 0,
    };
    stream::unfold(pipeline, Pipeline::next).boxed()
}

impl<RT, S> Pipeline<'_, RT, S>
where
    RT: AsyncRuntime,
    S: Stream<Item = AppendEntriesRequest<Types<RT>>> + Send + Unpin,
{
    async fn next(mut self) -> Option<(Output<RT>, Self)> {
        loop {
            let has_room = self.in_flight.len() < IN_FLIGHT_MAX && self.bytes < IN_FLIGHT_BYTES_MAX;
            let (input, due) = (&mut self.input, self.due);
            let in_flight = &mut self.in_flight;
            tokio::select! {
                biased;
                Some((bytes, output)) = in_flight.next(), if !in_flight.is_empty() => {
                    self.bytes -= bytes;
                    self.last_log_ids.pop_front();
                    match &output {
                        Ok(Ok(matched)) if self.has_newer_request(matched) && !trusts_old_answers() => continue,
                        Ok(Ok(_)) => self.client.links.catch_ups.end(self.client.to),
                        Ok(Err(_)) | Err(_) => {
                            // openraft sends the later requests again, so drop their answers.
                            self.input = None;
                            self.in_flight = FuturesOrdered::new();
                            self.last_log_ids.clear();
                        }
                    }
                    return Some((output, self));
                }
                request = next_of::<RT, _>(input, due), if has_room && input.is_some() => match request {
                    Some(request) => {
                        let bytes = self.send(request);
                        self.due = self.pause_after(bytes);
                        if bytes >= LARGE_REQUEST_BYTES {
                            let_others_run().await;
                        }
                    }
                    None => self.input = None,
                },
                else => return None,
            }
        }
    }

    /// Whether a request still in flight ends at or before the matched entry of an answered request.
    fn has_newer_request(&self, matched: &Option<LogId>) -> bool {
        self.last_log_ids.iter().any(|last| last <= matched)
    }

    /// When the next request may follow one with these bytes. `None`: at once.
    fn pause_after(&mut self, bytes: usize) -> Option<RT::Instant> {
        if bytes < LARGE_REQUEST_BYTES || self.slow_bytes >= SLOW_BYTES {
            return None;
        }
        let pause = self.client.links.catch_ups.pause_in_log(self.client.to, bytes)?;
        self.slow_bytes += bytes;
        Some(RT::Instant::now() + pause)
    }

    /// Sends a request, and returns its bytes.
    fn send(&mut self, mut request: AppendEntriesRequest<Types<RT>>) -> usize {
        let (bytes, cut) = match encode(&mut request) {
            Ok(encoded) => encoded,
            Err(error) => {
                self.input = None;
                self.last_log_ids.push_back(last_of(&request));
                self.in_flight.push_back(async move { (0, Err(error)) }.boxed());
                return 0;
            }
        };
        if cut {
            // The next request would not follow this shortened one. openraft resumes from the answer to this one.
            self.input = None;
        }
        let previous = request.prev_log_id;
        let last = last_of(&request);
        let size = bytes.len();
        self.bytes += size;
        self.last_log_ids.push_back(last);
        let answer = self.client.send(self.client.lane, bytes, RPCTypes::AppendEntries, ANSWER_LIMIT);
        self.in_flight.push_back(async move { (size, to_output(answer.await, previous, last)) }.boxed());
        size
    }
}

/// Gives the thread's other tasks their turn.
async fn let_others_run() {
    let mut is_first = true;
    poll_fn(|context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

async fn next_of<RT: AsyncRuntime, S: Stream + Unpin>(input: &mut Option<S>, due: Option<RT::Instant>) -> Option<S::Item> {
    if let Some(due) = due {
        RT::sleep_until(due).await;
    }
    match input {
        Some(input) => input.next().await,
        None => None,
    }
}

fn to_output<RT: AsyncRuntime>(
    reply: Result<PeerReply<RT>, RpcError<RT>>,
    previous: Option<LogId>,
    last: Option<LogId>,
) -> Output<RT> {
    let PeerReply::Append(response) = reply? else { return Err(unexpected()) };
    // A conflict is about the entry before the request. Without that entry, a conflict is impossible.
    if response.is_conflict() && previous.is_none() {
        return Err(unexpected());
    }
    let output = response.into_stream_result(previous, last);
    // An answer that matches beyond this request belongs to another request.
    if matches!(output, Ok(matched) if matched > last) {
        return Err(unexpected());
    }
    Ok(output)
}

/// Encodes a request, dropping entries from its end until it is small enough. Returns whether it dropped any.
fn encode<RT: AsyncRuntime>(request: &mut AppendEntriesRequest<Types<RT>>) -> Result<(Bytes, bool), RpcError<RT>> {
    let mut cut = false;
    loop {
        let count = request.entries.len();
        match wire::encode(&PeerRequest::<RT>::Append(request.clone())) {
            Ok(bytes) if bytes.len() <= REQUEST_BYTES_MAX || count <= 1 => return Ok((bytes, cut)),
            Err(error) if count <= 1 => return Err(unreachable_error(error)),
            Ok(_) | Err(_) => {
                request.entries.truncate(count / 2);
                cut = true;
            }
        }
    }
}

/// Always false, except with the planted bug: passes on answers too early.
fn trusts_old_answers() -> bool {
    planted::has(Bug::OldAnswersProveMore)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        base::{
            aliases::LeaderId,
            member_addresses::MemberAddresses,
            peer::{Introduction, Lane, Peer, PeerError, Target},
            types::{Batch, Member, Types},
        },
        core::{Links, removal_notice::RemovalNotice},
    };
    use fairhold_state::command::{Command, Lifetime, Operation, Transact};
    use fairhold_types::{Path, time::WallMillis};
    use futures_util::future::pending;
    use openraft::{EntryPayload, Vote, alias::EntryOf, raft::AppendEntriesResponse};
    use openraft_rt_tokio::TokioRuntime;
    use std::sync::{Arc, Mutex};
    use tokio::sync::oneshot;

    const LEADER: LeaderId = LeaderId { term: 1, node_id: 1 };

    fn request(entries: u64, bytes: usize) -> AppendEntriesRequest<Types<TokioRuntime>> {
        let put = Operation::Put {
            path: Path::parse("/x").unwrap(),
            value: vec![7; bytes].into(),
            parents: false,
            lifetime: Lifetime::Persistent,
        };
        let transact = Transact { key: None, conditions: vec![], then: vec![put], otherwise: None, at: WallMillis(0) };
        let payload = EntryPayload::Normal(Batch::new(vec![Command::Transact(transact)]).unwrap());
        let entry = |index| EntryOf::<Types<TokioRuntime>> { log_id: log_id(index), payload: payload.clone() };
        let vote = Vote { leader_id: LEADER, committed: true };
        AppendEntriesRequest { vote, prev_log_id: None, entries: (0..entries).map(entry).collect(), leader_commit: None }
    }

    fn log_id(index: u64) -> LogId {
        LogId { leader_id: LEADER, index }
    }

    /// A request with one entry after the given one.
    fn with_entry(previous: u64) -> AppendEntriesRequest<Types<TokioRuntime>> {
        let mut request = request(1, 1);
        request.prev_log_id = Some(log_id(previous));
        request.entries[0].log_id = log_id(previous + 1);
        request
    }

    /// A request with no entries, only a commit index.
    fn with_commit(last: u64) -> AppendEntriesRequest<Types<TokioRuntime>> {
        AppendEntriesRequest { prev_log_id: Some(log_id(last)), leader_commit: Some(log_id(last)), ..request(0, 0) }
    }

    /// A peer that answers on demand.
    #[derive(Default)]
    struct ManualPeer(Mutex<VecDeque<oneshot::Sender<Result<Bytes, PeerError>>>>);

    impl ManualPeer {
        fn answer(&self, answer: Result<AppendEntriesResponse<Types<TokioRuntime>>, PeerError>) {
            let answer = answer.map(|answer| wire::encode(&PeerReply::<TokioRuntime>::Append(answer)).unwrap());
            self.0.lock().unwrap().pop_front().unwrap().send(answer).unwrap();
        }
    }

    impl Peer for ManualPeer {
        fn call(&self, _: &Target, _: Lane, _: Bytes) -> BoxFuture<'static, Result<Bytes, PeerError>> {
            let (answer, answered) = oneshot::channel();
            self.0.lock().unwrap().push_back(answer);
            async move { answered.await.unwrap() }.boxed()
        }

        fn greet(&self, _: &Target) -> BoxFuture<'static, Result<Introduction, PeerError>> {
            pending().boxed()
        }

        fn is_refused(&self, _: &Target) -> BoxFuture<'static, bool> {
            pending().boxed()
        }
    }

    /// Sends these requests and no more, then runs `check` on the answers.
    async fn pipelined<const N: usize>(
        requests: [AppendEntriesRequest<Types<TokioRuntime>>; N],
        check: impl AsyncFnOnce(&ManualPeer, BoxStream<'_, Output<TokioRuntime>>),
    ) {
        let peer = Arc::new(ManualPeer::default());
        let client = RaftClient::<TokioRuntime> {
            from: 1,
            to: 2,
            member: Member::default(),
            addresses: MemberAddresses::default(),
            lane: Lane::Append,
            links: Arc::new(Links::new(peer.clone(), Arc::new(RemovalNotice::new(1, ANSWER_LIMIT)))),
        };
        let mut answers = run(&client, stream::iter(requests).chain(stream::pending()));
        assert!(answers.next().now_or_never().is_none(), "nothing is answered yet");
        assert_eq!(peer.0.lock().unwrap().len(), N, "all requests are in flight");
        check(&peer, answers).await;
    }

    fn matched(output: Option<Output<TokioRuntime>>) -> u64 {
        output.unwrap().unwrap().unwrap().unwrap().index
    }

    #[tokio::test]
    async fn only_the_last_answer_is_passed_on_if_several_requests_end_with_the_same_entry() {
        let requests = [with_entry(9), with_commit(10), with_commit(10), with_entry(10)];
        pipelined(requests, async |peer, mut answers| {
            for _ in 0..2 {
                peer.answer(Ok(AppendEntriesResponse::Success));
                assert!(answers.next().now_or_never().is_none(), "a newer request that ends with entry 10 is unanswered");
            }
            peer.answer(Ok(AppendEntriesResponse::Success));
            assert_eq!(matched(answers.next().await), 10);
            peer.answer(Ok(AppendEntriesResponse::Success));
            assert_eq!(matched(answers.next().await), 11);
        })
        .await;
    }

    #[tokio::test]
    async fn an_answer_does_not_wait_for_requests_with_later_entries() {
        pipelined([with_entry(9), with_entry(10)], async |peer, mut answers| {
            peer.answer(Ok(AppendEntriesResponse::Success));
            assert_eq!(matched(answers.next().await), 10);
        })
        .await;
    }

    #[tokio::test]
    async fn if_the_last_request_with_the_same_end_is_lost_the_earlier_answers_are_dropped() {
        pipelined([with_entry(9), with_commit(10)], async |peer, mut answers| {
            peer.answer(Ok(AppendEntriesResponse::Success));
            peer.answer(Err(PeerError::Lost(String::new())));
            assert!(matches!(answers.next().await, Some(Err(_))));
            assert!(answers.next().await.is_none());
        })
        .await;
    }

    #[tokio::test]
    async fn an_answer_beyond_its_request_is_an_error() {
        pipelined([with_entry(9), with_entry(10)], async |peer, mut answers| {
            peer.answer(Ok(AppendEntriesResponse::PartialSuccess(Some(log_id(11)))));
            assert!(matches!(answers.next().await, Some(Err(_))));
        })
        .await;
    }

    #[test]
    fn a_request_that_is_too_large_is_cut_and_still_sent() {
        let mut small = request(64, 1_000);
        assert!(!encode(&mut small).unwrap().1 && small.entries.len() == 64);

        let mut large = request(8, 1024 * 1024);
        let (bytes, cut) = encode(&mut large).unwrap();
        assert!(cut && bytes.len() <= REQUEST_BYTES_MAX, "{} bytes", bytes.len());
        assert_eq!(large.entries.len(), 2);
        assert_eq!(last_of(&large).map(|last| last.index), Some(1), "the request ends with its last sent entry");

        let mut single = request(1, 5 * 1024 * 1024);
        assert!(!encode(&mut single).unwrap().1, "a single entry is sent whatever its size");
    }
}

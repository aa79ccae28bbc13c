//! Pipelined replication: many append requests under way to one follower, answered in order, up to the first error.

use super::{Client, RpcError, last_of, unexpected, unreadable};
use crate::{
    aliases::LogId,
    types::Types,
    wire::{self, Reply, Request},
};
use bytes::Bytes;
use futures_util::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream, FuturesOrdered},
};
use openraft::{
    AsyncRuntime, RPCTypes,
    raft::{AppendEntriesRequest, StreamAppendResult},
};
use std::time::Duration;

/// Append requests under way to one follower.
const IN_FLIGHT_MAX: usize = 64;
/// Bytes of the append requests under way to one follower, above which nothing more is sent; one request is sent always.
const IN_FLIGHT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of one append request, above which it is cut, if it has more than one entry.
const REQUEST_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The time for one answer. A follower writes to its disk before it answers: it may be slow, and sending again would not help
/// it.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

type Output<RT> = Result<StreamAppendResult<Types<RT>>, RpcError<RT>>;

struct Pipeline<'s, RT: AsyncRuntime, S> {
    client: &'s Client<RT>,
    /// `None` once nothing more is to be sent.
    input: Option<S>,
    in_flight: FuturesOrdered<BoxFuture<'static, (usize, Output<RT>)>>,
    bytes: usize,
}

/// Sends what comes from `input`, and yields the answers in the same order.
pub(super) fn run<'s, RT, S>(client: &'s Client<RT>, input: S) -> BoxStream<'s, Output<RT>>
where
    RT: AsyncRuntime,
    S: Stream<Item = AppendEntriesRequest<Types<RT>>> + Send + Unpin + 'static,
{
    let pipeline = Pipeline { client, input: Some(input), in_flight: FuturesOrdered::new(), bytes: 0 };
    stream::unfold(pipeline, Pipeline::next).boxed()
}

impl<RT, S> Pipeline<'_, RT, S>
where
    RT: AsyncRuntime,
    S: Stream<Item = AppendEntriesRequest<Types<RT>>> + Send + Unpin,
{
    async fn next(mut self) -> Option<(Output<RT>, Self)> {
        loop {
            let room = self.in_flight.len() < IN_FLIGHT_MAX && self.bytes < IN_FLIGHT_BYTES_MAX;
            let (input, in_flight) = (&mut self.input, &mut self.in_flight);
            tokio::select! {
                biased;
                Some((bytes, output)) = in_flight.next(), if !in_flight.is_empty() => {
                    self.bytes -= bytes;
                    if !matches!(output, Ok(Ok(_))) {
                        // What was sent after it will be sent again: its answers say nothing.
                        self.input = None;
                        self.in_flight = FuturesOrdered::new();
                    }
                    return Some((output, self));
                }
                request = next_of(input), if room && input.is_some() => match request {
                    Some(request) => self.send(request),
                    None => self.input = None,
                },
                else => return None,
            }
        }
    }

    fn send(&mut self, mut request: AppendEntriesRequest<Types<RT>>) {
        let (bytes, cut) = match encode(&mut request) {
            Ok(encoded) => encoded,
            Err(error) => {
                self.input = None;
                self.in_flight.push_back(async move { (0, Err(error)) }.boxed());
                return;
            }
        };
        if cut {
            // What follows does not continue from where this request ends now: openraft goes on from its answer.
            self.input = None;
        }
        let (previous, last, size) = (request.prev_log_id, last_of(&request), bytes.len());
        self.bytes += size;
        let answer = self.client.send(self.client.lane, bytes, RPCTypes::AppendEntries, ANSWER_LIMIT);
        self.in_flight.push_back(async move { (size, output(answer.await, previous, last)) }.boxed());
    }
}

async fn next_of<S: Stream + Unpin>(input: &mut Option<S>) -> Option<S::Item> {
    match input {
        Some(input) => input.next().await,
        None => None,
    }
}

fn output<RT: AsyncRuntime>(reply: Result<Reply<RT>, RpcError<RT>>, previous: Option<LogId>, last: Option<LogId>) -> Output<RT> {
    let Reply::Append(response) = reply? else { return Err(unexpected()) };
    // A conflict is about the entry before the request; a request without one conflicts with nothing.
    if response.is_conflict() && previous.is_none() {
        return Err(unexpected());
    }
    Ok(response.into_stream_result(previous, last))
}

/// Encodes a request, and drops entries from its end until it is small enough; says whether it did.
fn encode<RT: AsyncRuntime>(request: &mut AppendEntriesRequest<Types<RT>>) -> Result<(Bytes, bool), RpcError<RT>> {
    let mut cut = false;
    loop {
        let count = request.entries.len();
        let message = Request::<RT>::Append(AppendEntriesRequest {
            vote: request.vote,
            prev_log_id: request.prev_log_id,
            entries: std::mem::take(&mut request.entries),
            leader_commit: request.leader_commit,
        });
        let encoded = wire::encode(&message);
        if let Request::Append(back) = message {
            request.entries = back.entries;
        }
        match encoded {
            Ok(bytes) if bytes.len() <= REQUEST_BYTES_MAX || count <= 1 => return Ok((bytes, cut)),
            Err(error) if count <= 1 => return Err(unreadable(&error)),
            Ok(_) | Err(_) => {
                request.entries.truncate(count / 2);
                cut = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        aliases::LeaderId,
        types::{Batch, Types},
    };
    use fairhold_state::command::{Command, Lifetime, Operation, Transact};
    use fairhold_types::{Path, time::WallMillis};
    use openraft::{EntryPayload, Vote, alias::EntryOf};
    use openraft_rt_tokio::TokioRuntime;

    fn request(entries: u64, bytes: usize) -> AppendEntriesRequest<Types<TokioRuntime>> {
        let leader_id = LeaderId { term: 1, node_id: 1 };
        let put = Operation::Put {
            path: Path::parse("/x").unwrap(),
            value: vec![7; bytes].into(),
            parents: false,
            lifetime: Lifetime::Persistent,
        };
        let transact = Transact { key: None, conditions: vec![], then: vec![put], otherwise: None, at: WallMillis(0) };
        let payload = EntryPayload::Normal(Batch(vec![Command::Transact(transact)]));
        let entry = |index| EntryOf::<Types<TokioRuntime>> { log_id: LogId { leader_id, index }, payload: payload.clone() };
        let vote = Vote { leader_id, committed: true };
        AppendEntriesRequest { vote, prev_log_id: None, entries: (0..entries).map(entry).collect(), leader_commit: None }
    }

    #[test]
    fn what_is_too_large_for_one_request_is_cut_and_still_sent() {
        let mut small = request(64, 1_000);
        assert!(!encode(&mut small).unwrap().1 && small.entries.len() == 64);

        let mut large = request(8, 1024 * 1024);
        let (bytes, cut) = encode(&mut large).unwrap();
        assert!(cut && bytes.len() <= REQUEST_BYTES_MAX, "{} bytes", bytes.len());
        assert_eq!(large.entries.len(), 2);
        assert_eq!(last_of(&large).map(|last| last.index), Some(1), "the answer is about what was sent");

        let mut single = request(1, 5 * 1024 * 1024);
        assert!(!encode(&mut single).unwrap().1, "a single entry goes, whatever it weighs");
    }
}

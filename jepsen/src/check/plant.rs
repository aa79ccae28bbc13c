//! Artificial histories for the tests of the checkers.

use crate::history::{Call, Event, FaultSpan, History, Op, Outcome, Recorder, ResourceWrite, StreamEvent};
use serde_json::Value;

/// An artificial history.
#[derive(Debug)]
pub(crate) struct Planted(History);

impl Planted {
    pub(crate) fn new() -> Planted {
        Planted(History { watches: vec![Vec::new()], ..History::default() })
    }

    /// Adds an operation.
    pub(crate) fn op(mut self, mut op: Op) -> Planted {
        op.index = self.0.ops.len();
        if op.call == Call::Acquire {
            op.grant = Some(op.index);
        }
        self.0.ops.push(op);
        self
    }

    /// Adds an event of the first watch.
    pub(crate) fn event(self, at: u64, revision: u64, line: Value) -> Planted {
        self.event_at(0, at, revision, line)
    }

    /// Adds an event of one of the watches.
    pub(crate) fn event_at(mut self, watch: usize, at: u64, revision: u64, line: Value) -> Planted {
        if self.0.watches.len() <= watch {
            self.0.watches.resize(watch + 1, Vec::new());
        }
        self.0.watches[watch].push(Event { at, revision, line: line.into() });
        self
    }

    /// Adds a write at the resource.
    pub(crate) fn resource(mut self, token: u64, based_on: u64, value: u64, accepted: bool, believed: bool) -> Planted {
        let write = ResourceWrite { at: 0, key: "a".to_owned(), grant: 0, token, based_on, value, accepted, believed };
        self.0.resource.push(write);
        self
    }

    /// Adds an event of the user's watch that the operation with that index opened.
    pub(crate) fn shown(mut self, stream: usize, revision: u64) -> Planted {
        self.0.streams.push(StreamEvent { at: 0, stream, revision });
        self
    }

    pub(crate) fn done(self) -> History {
        self.0
    }
}

impl Op {
    pub(crate) fn at(mut self, start: u64, end: u64) -> Op {
        (self.start, self.end) = (start, end);
        self
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Op)) -> Op {
        change(&mut self);
        self
    }
}

/// An operation that succeeded.
pub(crate) fn op(call: Call, key: &str) -> Op {
    let recorder = Recorder::new(0);
    let running = recorder.invoke(0, 1, call, key, |_| {});
    recorder.complete(&running, Outcome::Ok, |_| {});
    recorder.finish(0).ops.remove(0)
}

/// An exclusive grant.
pub(crate) fn grant(key: &str, token: u64) -> Op {
    op(Call::Acquire, key).with(|op| op.token = Some(token))
}

/// An upgrade of the grant of the acquire at that index.
pub(crate) fn upgrade(key: &str, grant: usize, token: u64) -> Op {
    op(Call::Upgrade, key).with(|op| (op.grant, op.token) = (Some(grant), Some(token)))
}

/// A write.
pub(crate) fn write(key: &str, revision: u64) -> Op {
    op(Call::Write, key).with(|op| op.revision = Some(revision))
}

/// A fault from 0 to 100.
pub(crate) fn fault(name: &'static str, bends_time: bool) -> FaultSpan {
    FaultSpan { fault: name, detail: String::new(), start: 0, end: 100, bends_time, effect: Ok("seen".to_owned()) }
}

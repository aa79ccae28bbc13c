//! The history as files: one line of JSON for each entry, and the format of Jepsen's own histories.

use super::{Call, Event, History, Op, Outcome, ResourceWrite};
use serde::Serialize;
use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

/// A line of `history.ndjson`.
#[derive(Debug, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
enum Line<'a> {
    Op(&'a Op),
    Resource(&'a ResourceWrite),
    #[serde(rename = "told")]
    WatchEvent {
        watch: usize,
        #[serde(flatten)]
        event: &'a Event,
    },
    StreamEvent(&'a super::StreamEvent),
    Found(&'a super::Found),
    Fault(&'a super::FaultSpan),
    Leads(&'a super::Leadership),
    Rest(&'a super::Rest),
}

/// Writes `history.ndjson` and `history.edn` into a folder.
pub(crate) fn write_files(history: &History, folder: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(folder.join("history.ndjson"))?);
    write_lines(history, &mut out)?;
    out.flush()?;
    let mut out = BufWriter::new(File::create(folder.join("history.edn"))?);
    write_edn(history, &mut out)?;
    out.flush()
}

fn write_lines(history: &History, out: &mut impl Write) -> io::Result<()> {
    let ops = history.ops.iter().map(Line::Op);
    let resource = history.resource.iter().map(Line::Resource);
    // An event that all watches showed is written once.
    let longest = history.longest_watch();
    let is_longest = |events: &Vec<Event>| std::ptr::eq(events.as_slice(), longest);
    let events = history.watches.iter().enumerate().flat_map(|(index, events)| {
        let places = events.iter().enumerate();
        let shown = places
            .filter(move |(place, event)| is_longest(events) || longest.get(*place).is_none_or(|other| other.line != event.line));
        shown.map(move |(_, event)| Line::WatchEvent { watch: index + 1, event })
    });
    let streams = history.streams.iter().map(Line::StreamEvent);
    let found = history.found.iter().map(Line::Found);
    let faults = history.faults.iter().map(Line::Fault);
    let leaders = history.leaders.iter().map(Line::Leads);
    let observed = ops.chain(resource).chain(events).chain(streams).chain(found);
    for line in observed.chain(faults).chain(leaders).chain(history.rest.iter().map(Line::Rest)) {
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// One map for each invocation and each completion, in the order of time, as Jepsen and Knossos read them.
fn write_edn(history: &History, out: &mut impl Write) -> io::Result<()> {
    let mut moments: Vec<(u64, u8, usize)> = Vec::with_capacity(history.ops.len() * 2);
    for op in &history.ops {
        moments.push((op.start, 1, op.index));
        // An operation that was in flight at the end of the run has no completion.
        moments.push((if op.end == u64::MAX { history.length } else { op.end }, 2, op.index));
    }
    moments.sort_unstable();
    for (index, (time, moment, of)) in moments.into_iter().enumerate() {
        let op = &history.ops[of];
        let kind = match (moment, op.outcome) {
            (1, _) => "invoke",
            (_, Outcome::Ok) => "ok",
            (_, Outcome::Fail) => "fail",
            (_, Outcome::Unknown) => "info",
        };
        let nanoseconds = time.saturating_mul(1_000);
        write!(out, "{{:index {index}, :time {nanoseconds}, :process {}, :type :{kind}, :f :{}", op.process, name(op.call))?;
        write!(out, ", :value [{} ", text(&op.key))?;
        match (moment, op.call) {
            (1, Call::Read | Call::LocalRead | Call::Leader)
            | (_, Call::Open | Call::Keepalive | Call::Close | Call::ReadPair | Call::EndSession | Call::Watch) => {
                write!(out, "nil")?
            }
            (_, Call::Acquire | Call::Again | Call::Release | Call::Renew | Call::Upgrade | Call::Downgrade) => {
                write!(out, "{}", op.grant.unwrap_or(op.index))?
            }
            (
                _,
                Call::FencedWrite
                | Call::Read
                | Call::Write
                | Call::Cas
                | Call::Ephemeral
                | Call::Proclaim
                | Call::Leader
                | Call::Txn
                | Call::SetLimit
                | Call::SetMaxHold
                | Call::Break
                | Call::LocalRead
                | Call::Narrow
                | Call::Widen
                | Call::Revoke,
            ) => {
                write!(out, "{}", op.value.as_deref().map_or_else(|| "nil".to_owned(), text))?;
            }
        }
        write!(out, "]")?;
        for (field, value) in [("token", op.token), ("revision", op.revision)] {
            if let Some(value) = value.filter(|_| moment == 2 || (field == "token" && op.call == Call::FencedWrite)) {
                write!(out, ", :{field} {value}")?;
            }
        }
        if let Some(error) = op.error.as_deref().filter(|_| moment == 2) {
            write!(out, ", :error {}", text(error))?;
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

fn name(call: Call) -> &'static str {
    match call {
        Call::Acquire => "acquire",
        Call::Release => "release",
        Call::Renew => "renew",
        Call::FencedWrite => "fenced-write",
        Call::Read => "read",
        Call::Write => "write",
        Call::Cas => "cas",
        Call::Open => "open",
        Call::Keepalive => "keepalive",
        Call::Close => "close",
        Call::Ephemeral => "ephemeral",
        Call::Proclaim => "proclaim",
        Call::Leader => "leader",
        Call::Upgrade => "upgrade",
        Call::Downgrade => "downgrade",
        Call::Again => "again",
        Call::SetLimit => "set-limit",
        Call::SetMaxHold => "set-max-hold",
        Call::Break => "break",
        Call::Revoke => "revoke",
        Call::EndSession => "end-session",
        Call::Txn => "txn",
        Call::ReadPair => "read-pair",
        Call::LocalRead => "local-read",
        Call::Watch => "watch",
        Call::Narrow => "narrow",
        Call::Widen => "widen",
    }
}

/// A text of EDN, which has the escapes of JSON that occur here.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Recorder;

    #[test]
    fn a_history_has_an_invocation_and_a_completion_of_each_operation() {
        let recorder = Recorder::new(1);
        let acquire = recorder.invoke(3, 1, Call::Acquire, "a", |_| {});
        recorder.complete(&acquire, Outcome::Ok, |op| op.token = Some(42));
        let lost = recorder.invoke(4, 2, Call::Write, "r", |op| op.value = Some("x\"y".to_owned()));
        recorder.complete(&lost, Outcome::Unknown, |op| op.error = Some("no answer".to_owned()));
        let history = recorder.finish(0);
        let (mut edn, mut lines) = (Vec::new(), Vec::new());
        write_edn(&history, &mut edn).unwrap();
        write_lines(&history, &mut lines).unwrap();
        let edn = String::from_utf8(edn).unwrap();
        let kinds: Vec<&str> = edn.lines().filter_map(|line| line.split(":type :").nth(1)?.split(',').next()).collect();
        assert_eq!(kinds, ["invoke", "ok", "invoke", "info"], "{edn}");
        assert!(edn.contains(":f :acquire, :value [\"a\" 0], :token 42}"), "{edn}");
        assert!(edn.contains("[\"r\" \"x\\\"y\"], :error \"no answer\"}"), "{edn}");
        assert_eq!(String::from_utf8(lines).unwrap().lines().count(), 2);
    }
}

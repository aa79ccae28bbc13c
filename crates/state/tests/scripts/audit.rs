//! The audit in scripts: `origin=ci` on a command, and `show audit`.

use crate::{
    access::principal,
    language::{Fallible, key, word},
};
use fairhold_state::{
    State,
    command::{ActOrigin, Command, NoteAct, NotedAct, NotedEnd},
};
use fairhold_types::{ClusterVersion, time::WallMillis};
use goldenscript::ArgumentConsumer;

/// The origin that a name means.
pub(crate) fn origin(name: &str) -> Fallible<ActOrigin> {
    Ok(ActOrigin { principal: principal(name)?, address: "10.0.0.7".to_owned(), request: format!("request-of-{name}") })
}

pub(crate) fn read(args: &mut ArgumentConsumer<'_>, at: WallMillis) -> Fallible<Command> {
    let (what, number) = (word(args)?, word(args)?.parse()?);
    let act = match what {
        "lead" => NotedAct::HandOver { to: number },
        "snapshot" => NotedAct::TakeSnapshot { node: number },
        "finalize" => NotedAct::Finalize { to: ClusterVersion(u16::try_from(number)?) },
        "promote" => NotedAct::Promote { node: number },
        "demote" => NotedAct::Demote { node: number },
        "address" => NotedAct::SetAddress { node: number, url: Some("http://n2:7171".to_owned()), peer: None },
        other => return Err(format!("no act to note: {other}").into()),
    };
    let end = match args.next_pos() {
        Some("unfinished") => NotedEnd::Unknown,
        Some("now") => NotedEnd::DoneNow,
        Some(other) => return Err(format!("no end of an act: {other}").into()),
        None => NotedEnd::Done,
    };
    Ok(Command::NoteAct(NoteAct { key: key(args)?, act, end, at }))
}

/// The entries, a line for each.
pub(crate) fn show(state: &State) -> String {
    let Some(head) = state.audit().head() else { return "none".to_owned() };
    let mut lines: Vec<String> = Vec::new();
    for (seq, record) in state.audit().from(0) {
        let texts = [record.verb.as_str(), &record.on, &record.detail].join(" ");
        let reason = if record.reason.is_empty() { String::new() } else { format!(" ({})", record.reason) };
        let (by, at, result) = (&record.origin.principal, record.at.0 / 1_000, &record.result);
        lines.push(format!("{seq} @{} {at}s {by}: {}{reason} → {result}", record.revision, texts.trim_end()));
    }
    lines.push(format!("head {} {:.16}", head.seq, head.hash.to_string()));
    lines.join("\n")
}

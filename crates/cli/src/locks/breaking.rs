//! `fairhold locks break`: reads the holder of the lock, and takes the lock from that holder only.

use crate::{
    output,
    remote::{
        Api, ApiRequest, Failure,
        format::{cell, rounded},
        request::encode,
    },
};
use fairhold_client::Method;
use fairhold_types::Code;
use serde_json::Value;
use std::io::{self, IsTerminal as _};

#[derive(Debug, clap::Args)]
pub(super) struct BreakArgs {
    /// Name of the lock
    name: String,
    /// Give this reason to the holder and the history; required on a terminal
    #[arg(long)]
    reason: Option<String>,
    /// Break it only while a holder has this fencing token [default: the token of the current holder]
    #[arg(long, value_name = "TOKEN")]
    token: Option<u64>,
}

/// Breaks the lock. If it changes hands after the read, nothing happens, and the exit code is 1.
pub(super) async fn run(api: &Api, args: &BreakArgs, is_quiet: bool) -> Result<(), Failure> {
    let BreakArgs { name, reason, token } = args;
    if reason.is_none() && io::stdin().is_terminal() {
        let why = "give the holder and the history a reason: --reason 'ci-7 hangs' (optional without a terminal)";
        return Err(Failure::Usage(why.to_owned()));
    }
    let say = |text: &str| {
        if !is_quiet {
            output::note(text);
        }
    };
    let read = ApiRequest::get(format!("/v1/locks/{}", encode(name)));
    let before: Value = api.call(&read).await?.read()?;
    let holders = before["holders"].as_array().cloned().unwrap_or_default();
    let only = match holders.as_slice() {
        [holder] => holder["token"].as_u64(),
        [] | [_, _, ..] => None,
    };
    let request = ApiRequest::change(Method::DELETE, format!("/v1/locks/{}/holders", encode(name)));
    let request = request.parameter("reason", reason.as_ref()).parameter("token", token.or(only));
    match api.call(&request).await {
        Ok(_) => {}
        Err(Failure::Refused { body, .. }) if is_stale(&body) => {
            return Err(Failure::Ended(format!(
                "nothing was broken: the token is stale, {name} has changed hands. To see its holder: fairhold locks show {name}"
            )));
        }
        Err(failure) => return Err(failure),
    }
    if is_quiet {
        return Ok(());
    }
    match holders.as_slice() {
        [] => say(&format!("nobody held {name}; a lock delay, if one was running, has ended")),
        [holder] => say(&format!("broken: {} held {name} for {}", describe(holder), rounded(&cell(holder, "held_for")))),
        [first, ..] => {
            let count = before["holder_count"].as_u64().unwrap_or(holders.len() as u64);
            say(&format!("broken: {count} holders of {name}, first {}", describe(first)));
        }
    }
    // The next holder is extra information for people: a failure here does not count.
    if let Ok(reply) = api.call(&read).await {
        let after: Value = reply.read()?;
        match after["holders"].as_array().and_then(|holders| holders.first()) {
            Some(next) => say(&format!("next: {}", describe(next))),
            None => say("nobody waits for it"),
        }
    }
    Ok(())
}

fn describe(holder: &Value) -> String {
    format!("{} (#{}, token {})", cell(holder, "owner"), cell(holder, "number"), cell(holder, "token"))
}

fn is_stale(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|body| body["code"] == Code::StaleToken.as_str())
}

//! The texts in the messages of a join. Their sender is not a member, or not known to be one, and people see them in
//! logs. So each text has a form, a maximum length and only plain characters.

use fairhold_raft::peer::{JoinRefusal, JoinRequest, Joined};
use fairhold_types::{
    call::{NodeUrl, ParseAddressError, PeerAddress},
    limits::MEMBER_ADDRESS_BYTES_MAX,
    text::first_not_plain,
};

/// Maximum bytes of a program's version.
const VERSION_BYTES_MAX: usize = 64;

/// Maximum bytes of the reason for a refusal.
const REASON_BYTES_MAX: usize = 2_048;

/// Checks the request of a node that wants to join, and writes its URL without a slash at its end.
pub(crate) fn checked_request(request: JoinRequest) -> Result<JoinRequest, String> {
    let named = |what: &'static str| move |error: ParseAddressError| format!("its {what} is not usable: {error}");
    let url = request.url.parse::<NodeUrl>().map_err(named("URL"))?.into_string();
    request.address.parse::<PeerAddress>().map_err(named("address for peers"))?;
    if let Some(version) = &request.version {
        check("version", version, VERSION_BYTES_MAX)?;
    }
    Ok(JoinRequest { url, ..request })
}

/// Checks the cluster's decision on this node's join.
pub(crate) fn check_decision(decision: &Result<Joined, JoinRefusal>) -> Result<(), String> {
    match decision {
        Ok(joined) => joined.members.iter().try_for_each(|(_, url, peer)| {
            check("URL of a member", url, MEMBER_ADDRESS_BYTES_MAX)?;
            check("address of a member", peer, MEMBER_ADDRESS_BYTES_MAX)
        }),
        Err(refusal) => check("reason", &refusal.to_string(), REASON_BYTES_MAX),
    }
}

/// Checks a text. The complaint does not repeat it.
fn check(what: &str, text: &str, bytes_max: usize) -> Result<(), String> {
    let length = text.len();
    if length > bytes_max {
        return Err(format!("the {what} has {length} bytes, more than {bytes_max}"));
    }
    match first_not_plain(text) {
        Some(found) => Err(format!("the {what} contains the character {}", found.escape_unicode())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_short_and_plain_and_a_complaint_does_not_repeat_it() {
        assert_eq!(check("version", "0.2.0", 5), Ok(()));
        assert_eq!(check("version", "0.2.0", 4), Err("the version has 5 bytes, more than 4".to_owned()));
        for (text, shown) in [("\u{1b}]0;me", "\\u{1b}"), ("0.2\n", "\\u{a}"), ("a\u{202e}b", "\\u{202e}")] {
            assert_eq!(check("version", text, 64), Err(format!("the version contains the character {shown}")));
        }
    }
}

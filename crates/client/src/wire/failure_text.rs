//! What a failed request says, for people.

use crate::wire::tls;

/// `ENFILE` and `EMFILE`, which have these numbers on all systems.
const NO_DESCRIPTORS: [i32; 2] = [23, 24];

/// Why no HTTP client could be made.
pub(crate) fn unusable_settings(error: &reqwest::Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let cause = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
    format!("no HTTP client could be made: {cause}. If this machine knows no certificate authority, pass one (--cacert)")
}

/// An error with its causes, and without the URL, which may contain a secret id.
pub(crate) fn describe(error: &reqwest::Error) -> String {
    let kind = if lacks_descriptors(error) {
        "this program has reached its limit on open files and connections"
    } else if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    let mut text = kind.to_owned();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // TLS has one cause, and what is around it says nothing.
        if let Some(advice) = tls::advice(&cause_text) {
            return advice.to_owned();
        }
        text = format!("{text}: {cause_text}");
        source = cause.source();
    }
    text
}

/// Whether this program has run out of file descriptors. If so, neither the network nor the node is at fault.
fn lacks_descriptors(error: &reqwest::Error) -> bool {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let numbers = causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()?.raw_os_error());
    numbers.into_iter().any(|number| NO_DESCRIPTORS.contains(&number))
}

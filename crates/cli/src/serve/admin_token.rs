//! The administrators' token: read from a file at startup, and reloaded when the file changes. It is never logged.

use super::secret_file;
use fairhold_http::Admin;
use fairhold_trust::{
    file_check::DOES_NOT_ANSWER,
    late::{LATE_AFTER, say_if_late},
};
use fairhold_types::limits::{ADMIN_TOKEN_BYTES_MAX, ADMIN_TOKEN_BYTES_MIN};
use std::{
    fs::Metadata,
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::sleep,
};

/// How often the node checks whether the file has changed.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The most tokens that a file has.
const TOKENS_MAX: usize = 16;
/// The largest file.
const FILE_BYTES_MAX: usize = TOKENS_MAX * (ADMIN_TOKEN_BYTES_MAX + 1);
/// What a node without tokens says. Every node answers administrators' calls for the whole cluster.
const NO_TOKEN: &str = "no --admin-token-file: while rights are not enforced, anyone who can reach the client port can \
                        administer the whole cluster: remove members, create join tokens, break locks and end other \
                        clients' sessions. To change that, start every node with the same --admin-token-file";
/// How the tokens of users begin.
const TOKEN_PREFIX: &str = "fht_";

/// Why a file has no valid token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminTokenError {
    /// The file cannot be read.
    #[error("--admin-token-file {path} cannot be read: {error}. {}", secret_file::advice(error))]
    Unreadable { path: String, error: io::Error },
    /// The file has no token, or one that a header cannot contain.
    #[error(
        "--admin-token-file {path} {fault}: write lines of printable ASCII to it, each a token of at least \
         {ADMIN_TOKEN_BYTES_MIN} characters, such as `openssl rand -hex 32` prints"
    )]
    NoToken { path: String, fault: &'static str },
}

/// Returns the rule for administrators' calls, and logs it. A trial on one machine (`fairhold dev`) needs no token.
pub(super) fn load(file: Option<&Path>, is_trial: bool) -> Result<Admin, AdminTokenError> {
    let Some(file) = file else {
        if !is_trial {
            tracing::warn!("{NO_TOKEN}");
        }
        return Ok(Admin::open());
    };
    let (tokens, metadata) = read(file)?;
    warn_of(permission_warning(&metadata), file);
    tracing::info!(file = %file.display(), "administrators' calls require the token");
    Ok(Admin::guarded(tokens))
}

/// Reads the file as a start does, and uses nothing of it.
pub(super) fn check(file: &Path) -> Result<(), AdminTokenError> {
    read(file).map(drop)
}

fn warn_of(warning: Option<&'static str>, file: &Path) {
    if let Some(warning) = warning {
        tracing::warn!(file = %file.display(), "{warning}");
    }
}

/// A warning if other users can read the token. It is not an error, because some systems mount secrets that way.
fn permission_warning(metadata: &Metadata) -> Option<&'static str> {
    if secret_file::is_open_to_others(metadata) {
        return Some("users other than its owner can read or write the file with the administrators' token: chmod 600");
    }
    let of_another = "the file with the administrators' token does not belong to the user that runs this node: chown";
    secret_file::is_of_another(metadata).then_some(of_another)
}

/// Loads a new token when the file changes. A file without a valid token, or one that is partly written, changes
/// nothing.
pub(super) fn watch(file: PathBuf, admin: Admin) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut failed: Option<String> = None;
        let mut warned = None;
        loop {
            sleep(CHECK_EVERY).await;
            let path = file.clone();
            let look = move || read(&path).map(|(tokens, metadata)| (tokens, permission_warning(&metadata)));
            let looking = spawn_blocking(move || look().map_err(|error| error.to_string()));
            let say = || tracing::error!(file = %file.display(), "the file with the administrators' token {DOES_NOT_ANSWER}");
            let Ok(found) = say_if_late(looking, LATE_AFTER, say).await else { return };
            match found {
                Ok((tokens, warning)) => {
                    // The start has warned of the first one.
                    if warned.replace(warning).is_some_and(|before| before != warning) {
                        warn_of(warning, &file);
                    }
                    // A file that is valid again is worth a line too.
                    let is_valid_again = failed.take().is_some();
                    if admin.replace_tokens(tokens) || is_valid_again {
                        tracing::info!(file = %file.display(), "reloaded the administrators' token");
                    }
                }
                Err(error) if failed.as_ref() == Some(&error) => {}
                Err(error) => {
                    tracing::error!("{error}; the node keeps the last valid token");
                    failed = Some(error);
                }
            }
        }
    })
}

/// The tokens in the file, one in each line. With two of them, clients can change from one to the other.
fn read(file: &Path) -> Result<(Vec<String>, Metadata), AdminTokenError> {
    let path = file.display().to_string();
    let opened = secret_file::read(file, FILE_BYTES_MAX);
    let (bytes, metadata) = opened.map_err(|error| AdminTokenError::Unreadable { path: path.clone(), error })?;
    // Invalid UTF-8 becomes a character that no token has.
    let text = String::from_utf8_lossy(&bytes);
    let tokens: Vec<String> = text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    let is_long = bytes.len() > FILE_BYTES_MAX || tokens.iter().any(|token| token.len() > ADMIN_TOKEN_BYTES_MAX);
    let fault = if tokens.is_empty() {
        Some("is empty")
    } else if is_long {
        Some("is too long")
    } else if !tokens.iter().all(|token| token.bytes().all(|byte| byte.is_ascii_graphic())) {
        Some("has a line with more than one word, or with other characters")
    } else if tokens.iter().any(|token| token.len() < ADMIN_TOKEN_BYTES_MIN) {
        // What is left of a file that was not written to its end is a token that can be guessed.
        Some("has a token that is too short, or the file is not written to its end")
    } else if tokens.iter().any(|token| token.starts_with(TOKEN_PREFIX)) {
        Some("has a token of a user: an administrators' token has another beginning")
    } else {
        None
    };
    match fault {
        Some(fault) => Err(AdminTokenError::NoToken { path, fault }),
        None => Ok((tokens, metadata)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    #[test]
    fn a_token_that_other_users_can_read_causes_a_warning() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        fs::write(&file, "s3cret-of-the-file\n").unwrap();
        let with = |mode: u32| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            permission_warning(&read(&file).unwrap().1)
        };
        assert_eq!(with(0o600), None);
        assert!([0o640, 0o604, 0o644].into_iter().all(|mode| with(mode).is_some_and(|warning| warning.contains("chmod 600"))));
    }

    #[test]
    fn a_node_without_tokens_says_that_it_opens_the_whole_cluster() {
        for act in ["remove members", "create join tokens", "break locks", "start every node with the same --admin-token-file"] {
            assert!(NO_TOKEN.contains(act), "{act}: {NO_TOKEN}");
        }
    }

    #[test]
    fn each_line_of_the_file_is_a_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        let of = |content: &str| {
            fs::write(&file, content).unwrap();
            read(&file).map(|(tokens, _)| tokens).map_err(|error| error.to_string())
        };
        let shortest = "0123456789abcdef";
        assert_eq!(of("s3cret-of-the-file\n").unwrap(), ["s3cret-of-the-file"]);
        assert_eq!(of(&format!("s3cret-of-the-file\n\n {shortest}")).unwrap(), ["s3cret-of-the-file", shortest]);
        let longest = "x".repeat(ADMIN_TOKEN_BYTES_MAX);
        assert_eq!(of(&longest).unwrap(), std::slice::from_ref(&longest));
        assert_eq!(of(&format!("{longest}\n").repeat(TOKENS_MAX)).unwrap().len(), TOKENS_MAX);
        for (content, says) in [
            ("", "is empty"),
            (" \n", "is empty"),
            ("s", "is too short"),
            ("0123456789abcde\n", "at least 16 characters"),
            (&*format!("{shortest}\n01234"), "not written to its end"),
            ("two words", "more than one word"),
            ("é", "other characters"),
            (&*"x".repeat(ADMIN_TOKEN_BYTES_MAX + 1), "is too long"),
            (&*format!("{longest}\n").repeat(TOKENS_MAX + 1), "is too long"),
            ("s3cret-of-the-file\nfht_0123456789ab", "has a token of a user"),
        ] {
            let error = of(content).unwrap_err();
            assert!(error.contains(says) && error.contains("token"), "{error}");
        }
        let error = load(Some(&directory.path().join("absent")), false).unwrap_err().to_string();
        assert!(error.contains("absent cannot be read") && error.ends_with("of the cluster: scp -p"), "{error}");
    }
}

//! The file with a join token. Only the first start of a node needs it; later ones check that it is of the same cluster.
//! The token is never logged.

use super::secret_file;
use crate::config::error::CREATE_JOIN_TOKEN;
use fairhold_raft::{JoinToken, ParseJoinTokenError};
use std::{io, path::Path};

/// The largest file, in bytes. A token is much shorter.
const FILE_BYTES_MAX: usize = 16 * 1024;

/// Why a file has no join token.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinTokenError {
    /// The file cannot be read.
    #[error("--join-file {path} cannot be read: {error}. {CREATE_JOIN_TOKEN}")]
    Unreadable { path: String, error: io::Error },
    /// The content is not a token.
    #[error("--join-file {path}: {error}")]
    NoToken { path: String, error: ParseJoinTokenError },
}

/// Reads the token.
pub(crate) fn read(file: &Path) -> Result<JoinToken, JoinTokenError> {
    let path = file.display().to_string();
    let (bytes, metadata) = match secret_file::read(file, FILE_BYTES_MAX) {
        Ok(found) => found,
        Err(error) => return Err(JoinTokenError::Unreadable { path, error }),
    };
    if secret_file::is_open_to_others(&metadata) {
        tracing::warn!(file = %path, "users other than its owner can read or write the file with the join token: chmod 600");
    }
    // Invalid UTF-8 becomes a character that no token has.
    String::from_utf8_lossy(&bytes).parse().map_err(|error| JoinTokenError::NoToken { path, error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairhold_raft::JoinSecret;
    use fairhold_types::{ClusterId, JoinTokenNumber};
    use std::fs;

    #[test]
    fn a_token_is_the_single_line_of_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("join.token");
        let token = JoinToken {
            cluster: ClusterId(7),
            number: JoinTokenNumber(3),
            addresses: vec!["a:7271".to_owned()],
            secret: JoinSecret::random(),
        };
        fs::write(&file, format!("{token}\n")).unwrap();
        assert_eq!(read(&file).unwrap(), token);
        let text = token.to_string();
        let too_long = b"x".repeat(FILE_BYTES_MAX + 1);
        let cases: [(&[u8], &str); 4] = [
            (b"\n", "it is empty"),
            (b"\xff\xfe", "it is not a join token, which begins with fhj1."),
            (&text.as_bytes()[..text.len() - 1], "damaged"),
            (&too_long, "it is not a join token"),
        ];
        for (content, expected) in cases {
            fs::write(&file, content).unwrap();
            let error = read(&file).unwrap_err().to_string();
            assert!(error.contains("join.token") && error.contains(expected) && !error.contains(&text[5..]), "{error}");
        }
        let absent = read(&directory.path().join("absent")).unwrap_err().to_string();
        assert!(absent.contains("absent cannot be read") && absent.contains("fairhold cluster invite"), "{absent}");
    }
}

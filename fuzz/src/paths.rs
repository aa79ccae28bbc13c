//! Paths, names, ids and durations as text.

use fairhold_types::{
    GrantId, LockName, Path, SessionId, duration,
    limits::{LOCK_NAME_BYTES_MAX, PATH_BYTES_MAX, PATH_LEVELS_MAX},
};

/// An accepted text has the required form, and is formatted as the same text.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(path) = Path::parse(&text) {
        assert_eq!(path.as_str(), text);
        check_levels(path.as_str());
        if let Some(parent) = path.parent() {
            assert_eq!(Path::parse(parent.as_str()).expect("a parent is a path"), parent);
            assert_eq!(parent.child(path.name()), path);
        }
        if let Some(name) = path.lock_name() {
            assert_eq!(name.path(), path);
        }
    }
    if let Ok(name) = LockName::parse(&text) {
        assert_eq!(name.as_str(), text);
        assert!(name.as_str().len() <= LOCK_NAME_BYTES_MAX);
        check_levels(name.path().as_str());
        assert_eq!(name.path().lock_name().expect("a lock's path names it"), name);
    }
    if let Ok(length) = duration::parse(&text) {
        let again = duration::parse(&duration::format(length)).expect("what was written is a duration");
        assert_eq!(again.as_millis(), length.as_millis(), "durations are written to the millisecond");
    }
    if let Ok(id) = text.parse::<GrantId>() {
        assert_eq!(id.to_string().parse::<GrantId>().expect("what was written is an id"), id);
    }
    if let Ok(id) = text.parse::<SessionId>() {
        assert_eq!(id.to_hex().parse::<SessionId>().expect("what was written is an id"), id);
    }
}

fn check_levels(path: &str) {
    assert!(path.starts_with('/') && path.len() <= PATH_BYTES_MAX, "{path:?}");
    if path != "/" {
        let levels: Vec<&str> = path[1..].split('/').collect();
        assert!(levels.len() <= PATH_LEVELS_MAX, "{path:?}");
        for level in levels {
            assert!(!level.is_empty() && level != "." && level != "..", "{path:?}");
            assert!(!level.chars().any(char::is_control), "{path:?}");
        }
    }
}

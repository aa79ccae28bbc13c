//! The keys that the members of a cluster share, and the proof of a key that does not reveal it.
//!
//! A proof covers the handshake so far, as both sides saw it, and the side that proves. It is worthless in another
//! handshake, for another lane, or in the other direction.

use crate::frame::FrameKind;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use std::{fmt, sync::Arc};

/// The minimum length of a key, in bytes: a shorter key could be guessed.
pub const KEY_BYTES_MIN: usize = 32;

/// Keys accepted at the same time: the current one, the previous one, the next one, and one spare.
pub const KEYS_MAX: usize = 8;

/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;

/// Domain separation: the prefix of everything that a key authenticates here.
const DOMAIN: &[u8] = b"fairhold peer handshake\0";

/// The key of a cluster without a key. It is not secret: anyone who reaches the port can prove it.
const NO_KEY: &[u8] = b"this cluster has no peer key";

/// A proof that its sender has a key.
pub type Proof = [u8; PROOF_BYTES];

/// Why a key file is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file has only blank lines.
    #[error("is empty")]
    Empty,
    /// A line is too short.
    #[error("has a line of {length} bytes, but a key needs at least {KEY_BYTES_MIN}")]
    TooShort {
        /// Its length in bytes.
        length: usize,
    },
    /// The file has too many keys.
    #[error("has {count} keys: at most {KEYS_MAX} are accepted at a time")]
    TooMany {
        /// The number of keys.
        count: usize,
    },
}

/// A side of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The node that dialled.
    Dialler,
    /// The node that was dialled.
    Acceptor,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Dialler => Side::Acceptor,
            Side::Acceptor => Side::Dialler,
        }
    }

    fn byte(self) -> u8 {
        match self {
            Side::Dialler => 0,
            Side::Acceptor => 1,
        }
    }
}

/// One key: the SHA-256 of its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    fn of(text: &[u8]) -> Key {
        Key(Sha256::digest(text).into())
    }

    fn mac(&self, by: Side, transcript: &Transcript) -> Hmac<Sha256> {
        let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
        block[..self.0.len()].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block);
        mac.update(DOMAIN);
        mac.update(&[by.byte()]);
        mac.update(&transcript.0.clone().finalize());
        mac
    }

    /// A proof that its sender has this key and saw the same handshake.
    #[must_use]
    pub fn prove(&self, by: Side, transcript: &Transcript) -> Proof {
        self.mac(by, transcript).finalize().into_bytes().into()
    }

    /// Whether a proof is valid. The comparison takes constant time.
    #[must_use]
    pub fn verifies(&self, proof: &Proof, by: Side, transcript: &Transcript) -> bool {
        self.mac(by, transcript).verify_slice(proof).is_ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// The transcript of a handshake so far.
#[derive(Debug, Clone)]
pub struct Transcript(Sha256);

impl Transcript {
    /// A transcript with only the wire version of the connection.
    #[must_use]
    pub fn new(version: u16) -> Transcript {
        Transcript(Sha256::new_with_prefix(version.to_le_bytes()))
    }

    /// Adds a message that one side sent.
    pub fn add(&mut self, kind: FrameKind, value: &[u8]) {
        self.0.update([kind.byte()]);
        self.0.update((value.len() as u64).to_le_bytes());
        self.0.update(value);
    }
}

/// The keys of a node: it proves itself with the first key and accepts all of them. Clones share the keys: replacing
/// them in one replaces them in all.
#[derive(Debug, Clone)]
pub struct PeerKeys(Arc<RwLock<Arc<Keys>>>);

/// The keys at one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Keys {
    first: Key,
    others: Vec<Key>,
}

impl PeerKeys {
    /// No key: the node accepts every peer that has none.
    #[must_use]
    pub fn none() -> PeerKeys {
        PeerKeys::of(Keys { first: Key::of(NO_KEY), others: Vec::new() })
    }

    /// Parses a key file: each line that is not blank is a key.
    pub fn parse(text: &[u8]) -> Result<PeerKeys, KeyError> {
        let mut keys = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
        let first = keys.next().ok_or(KeyError::Empty)?;
        let others: Vec<&[u8]> = keys.collect();
        if let Some(short) = std::iter::once(&first).chain(&others).find(|line| line.len() < KEY_BYTES_MIN) {
            return Err(KeyError::TooShort { length: short.len() });
        }
        if others.len() >= KEYS_MAX {
            return Err(KeyError::TooMany { count: others.len() + 1 });
        }
        Ok(PeerKeys::of(Keys { first: Key::of(first), others: others.into_iter().map(Key::of).collect() }))
    }

    fn of(keys: Keys) -> PeerKeys {
        PeerKeys(Arc::new(RwLock::new(Arc::new(keys))))
    }

    /// Replaces the keys for all further handshakes. Returns whether they differ from the old ones.
    #[must_use]
    pub fn replace(&self, by: &PeerKeys) -> bool {
        let new = by.now();
        let mut keys = self.0.write();
        let changed = *keys != new;
        *keys = new;
        changed
    }

    /// The current keys, for a handshake that starts now.
    #[must_use]
    pub fn now(&self) -> Arc<Keys> {
        self.0.read().clone()
    }
}

impl Keys {
    /// The key with which this node proves itself.
    #[must_use]
    pub fn own(&self) -> &Key {
        &self.first
    }

    pub(crate) fn verify(&self, proof: &Proof, by: Side, transcript: &Transcript) -> bool {
        std::iter::once(&self.first).chain(&self.others).any(|key| key.verifies(proof, by, transcript))
    }

    /// Whether the proof comes from a node without a key.
    pub(crate) fn is_keyless(proof: &Proof, by: Side, transcript: &Transcript) -> bool {
        Key::of(NO_KEY).verifies(proof, by, transcript)
    }

    /// Whether this node has no key.
    pub(crate) fn is_none(&self) -> bool {
        self.first == Key::of(NO_KEY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &[u8] = b"an old key of more than thirty-two bytes";
    const NEW: &[u8] = b"a new key of more than thirty-two bytes!";

    fn transcript_of(words: &[u8]) -> Transcript {
        let mut transcript = Transcript::new(4);
        transcript.add(FrameKind::Hello, words);
        transcript
    }

    fn keys(lines: &[&[u8]]) -> Arc<Keys> {
        PeerKeys::parse(&lines.join(&b'\n')).unwrap().now()
    }

    #[test]
    fn a_proof_is_valid_only_for_its_transcript_its_side_and_its_key() {
        let (old, new) = (keys(&[OLD]), keys(&[NEW]));
        let proof = old.own().prove(Side::Dialler, &transcript_of(b"words"));
        assert!(old.verify(&proof, Side::Dialler, &transcript_of(b"words")));
        assert!(!old.verify(&proof, Side::Acceptor, &transcript_of(b"words")), "the other side");
        assert!(!old.verify(&proof, Side::Dialler, &transcript_of(b"other")), "another transcript");
        assert!(!new.verify(&proof, Side::Dialler, &transcript_of(b"words")), "another key");
        let (mut one, mut two) = (Transcript::new(4), Transcript::new(4));
        one.add(FrameKind::Hello, b"ab");
        one.add(FrameKind::Hello, b"c");
        two.add(FrameKind::Hello, b"a");
        two.add(FrameKind::Hello, b"bc");
        let proof = old.own().prove(Side::Dialler, &one);
        assert!(!old.verify(&proof, Side::Dialler, &two), "the same bytes, split differently");
    }

    #[test]
    fn the_first_key_proves_and_every_key_is_accepted() {
        let (before, during) = (keys(&[OLD]), keys(&[NEW, OLD]));
        let words = transcript_of(b"words");
        assert!(during.verify(&before.own().prove(Side::Dialler, &words), Side::Dialler, &words));
        assert!(!before.verify(&during.own().prove(Side::Dialler, &words), Side::Dialler, &words));
        assert_eq!(during.own(), keys(&[NEW]).own());
    }

    #[test]
    fn a_file_has_a_key_on_each_line() {
        let parse = |text: &[u8]| PeerKeys::parse(text).map(|keys| keys.now());
        assert_eq!(parse(&[OLD, b"\r\n"].concat()).unwrap(), keys(&[OLD]), "the line ending is not part of the key");
        assert_eq!(parse(&[OLD, b"\n\n", NEW, b"\n"].concat()).unwrap(), keys(&[OLD, NEW]));
        assert_eq!(parse(&[0xff; KEY_BYTES_MIN]).unwrap().others.len(), 0, "a key may have any bytes");
        assert_eq!(parse(b" \n").unwrap_err(), KeyError::Empty);
        assert_eq!(parse(&[OLD, b"\nshort"].concat()).unwrap_err(), KeyError::TooShort { length: 5 });
        let many = [OLD; KEYS_MAX + 1].join(&b'\n');
        assert_eq!(parse(&many).unwrap_err(), KeyError::TooMany { count: KEYS_MAX + 1 });
    }

    #[test]
    fn debug_output_hides_the_keys() {
        assert!(!format!("{:?}", keys(&[OLD])).contains("old key"));
        assert!(format!("{:?}", keys(&[OLD])).contains("secret"));
    }

    #[test]
    fn replacing_keys_affects_every_clone() {
        let (one, other) = (PeerKeys::none(), PeerKeys::parse(OLD).unwrap());
        let handle = one.clone();
        assert!(one.now().is_none() && handle.replace(&other) && !handle.replace(&other));
        assert_eq!(one.now(), other.now());
    }
}

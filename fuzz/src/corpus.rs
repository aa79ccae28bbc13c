//! Replays the corpus of each target, and its inputs with bytes changed at random.

use std::{fs, path::PathBuf};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = PathBuf::from("corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Marsaglia's xorshift: the same numbers in every run.
struct Changes(u64);

impl Changes {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).unwrap()
    }

    fn apply(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.next(3) {
            let at = self.next(bytes.len() + 1);
            match self.next(3) {
                0 => bytes.insert(at, u8::try_from(self.next(256)).unwrap()),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] = u8::try_from(self.next(256)).unwrap(),
                _ => bytes.truncate(at / 2),
            }
        }
    }
}

fn replay(target: &str, changed: usize, run: fn(&[u8])) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "the corpus of {target} is empty");
    for bytes in &corpus {
        run(bytes);
    }
    let mut changes = Changes(0x9E37_79B9_7F4A_7C15);
    for _ in 0..changed {
        let mut bytes = corpus[changes.next(corpus.len())].clone();
        changes.apply(&mut bytes);
        run(&bytes);
    }
}

#[test]
fn frames() {
    replay("frames", 20_000, crate::frames::run);
}

#[test]
fn codec() {
    replay("codec", 20_000, crate::codec::run);
}

#[test]
fn paths() {
    replay("paths", 100_000, crate::paths::run);
}

#[test]
fn jwt() {
    replay("jwt", 20_000, crate::jwt::run);
}

#[test]
fn requests() {
    replay("requests", 2_000, crate::requests::run);
}

#[test]
fn machine() {
    replay("machine", 20_000, crate::machine::run);
}

#[test]
fn recovery() {
    replay("recovery", 5_000, crate::recovery::run);
}

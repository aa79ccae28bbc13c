//! The verification of exports: whole ones, and ones that were altered or cut.

use super::*;
use fairhold_state::audit::GENESIS;

/// The lines of an export with entries from this number on.
fn export(first: u64, count: u64) -> Vec<String> {
    let start = if first == 1 { GENESIS } else { ChainHash([7; 32]) };
    let mut previous = start;
    let mut lines = vec![String::new()];
    for seq in first..first + count {
        let canonical = format!("{{\"seq\":{seq},\"revision\":{},\"verb\":\"break\"}}", seq * 10);
        let hash = ChainHash::of(canonical.as_bytes(), previous);
        let open = canonical.trim_end_matches('}');
        lines.push(format!("{open},\"previous\":\"{previous}\",\"hash\":\"{hash}\"}}\n"));
        previous = hash;
    }
    let last = (first + count).saturating_sub(1);
    lines[0] = ExportHead { first, previous: start, last, head: previous }.line();
    lines
}

fn hash_of(line: &str) -> ChainHash {
    read_entry(line.trim_end().as_bytes()).unwrap().2
}

fn check(lines: &[String], head: Option<ChainHash>) -> Result<String, String> {
    verify(lines.concat().as_bytes(), head).map(|whole| whole.to_string())
}

#[test]
fn a_whole_export_is_accepted_with_every_hash_that_it_has() {
    for (first, count) in [(1, 0), (1, 1), (1, 5), (40, 3)] {
        let lines = export(first, count);
        assert!(check(&lines, None).is_ok(), "{count} from {first}");
        for (index, line) in lines.iter().enumerate().skip(1) {
            let text = check(&lines, Some(hash_of(line))).unwrap();
            assert!(text.contains(&format!("and {} later", lines.len() - 1 - index)), "{text}");
        }
        let without_end = lines.concat();
        assert!(verify(without_end.trim_end().as_bytes(), None).is_ok());
    }
}

/// Each bit of each byte counts, except in the line ends and in the head line's spelling.
#[test]
fn every_changed_byte_is_found_and_its_entry_is_named() {
    let lines = export(1, 4);
    let whole = lines.concat().into_bytes();
    let mut start = lines[0].len();
    for (entry, line) in lines.iter().enumerate().skip(1) {
        for at in start..start + line.len() - 1 {
            for bit in [1_u8, 32] {
                let mut altered = whole.clone();
                altered[at] ^= bit;
                let error = verify(&altered, None).expect_err("a changed byte was not found");
                assert!(error.starts_with(&format!("entry {entry} was altered")), "byte {at}: {error}");
            }
        }
        start += line.len();
    }
    for at in 0..lines[0].len() {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        assert!(verify(&altered, None).is_err(), "byte {at} of the head line");
    }
}

#[test]
fn a_cut_is_found_wherever_it_is() {
    let lines = export(3, 6);
    for cut in 1..=6 {
        let mut rest = lines.clone();
        rest.remove(cut);
        let error = check(&rest, None).unwrap_err();
        assert!(error.starts_with(&format!("entry {} is missing", cut + 2)), "{error}");
    }
    // Somebody makes a shorter export with another head line: only the hash that was kept elsewhere shows it.
    let head = hash_of(&lines[6]);
    let kept: Vec<String> = lines[1..5].to_vec();
    let shorter = ExportHead { first: 3, previous: ChainHash([7; 32]), last: 6, head: hash_of(&lines[4]) };
    let forged: Vec<String> = std::iter::once(shorter.line()).chain(kept).collect();
    assert!(check(&forged, None).is_ok());
    let error = check(&forged, Some(head)).unwrap_err();
    assert!(error.contains("is missing after entry 6"), "{error}");
}

#[test]
fn a_swapped_pair_a_repeated_and_a_foreign_entry_are_found() {
    let lines = export(1, 5);
    for first in 1..5 {
        let mut swapped = lines.clone();
        swapped.swap(first, first + 1);
        let error = check(&swapped, None).unwrap_err();
        assert!(error.starts_with(&format!("entry {first} is missing")), "{error}");
    }
    let mut repeated = lines.clone();
    repeated.insert(2, lines[1].clone());
    assert!(check(&repeated, None).unwrap_err().starts_with("entry 1 is in the wrong place"));
    let mut foreign = lines.clone();
    let canonical = "{\"seq\":3,\"revision\":30,\"verb\":\"none\"}";
    let hash = ChainHash::of(canonical.as_bytes(), GENESIS);
    foreign[3] = format!("{},\"previous\":\"{GENESIS}\",\"hash\":\"{hash}\"}}\n", canonical.trim_end_matches('}'));
    assert!(check(&foreign, None).unwrap_err().starts_with("entry 3 does not follow"));
}

#[test]
fn a_file_that_is_no_export_is_refused() {
    let lines = export(1, 2);
    for wrong in ["", "\n", "{}", "x\n{}", &lines[1..].concat(), &lines[0].replacen(":1,", ":2,", 1)] {
        assert!(verify(wrong.as_bytes(), None).is_err(), "{wrong:?}");
    }
    let blank = lines.concat() + "\n";
    assert!(verify(blank.as_bytes(), None).unwrap_err().starts_with("entry 3 was altered"));
}

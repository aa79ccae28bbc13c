//! Tests of the file: every finding is told at once, with its line and what to write.

use super::*;
use std::fs;

fn read(text: &str) -> FileRead {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fairhold.toml");
    fs::write(&path, text).unwrap();
    read_file(&path).unwrap()
}

#[test]
fn every_key_has_an_example_that_is_valid() {
    let in_tables = TABLES.iter().flat_map(|(table, keys)| keys.iter().map(move |key| format!("{table}.{key}")));
    let of_providers = JWT_KEYS.iter().map(|key| format!("{JWT}.{key}"));
    let keys: Vec<String> = FILE_KEYS.iter().map(|key| (*key).to_owned()).chain(in_tables).chain(of_providers).collect();
    assert_eq!(keys, EXAMPLES.map(|(key, _)| key.to_owned()));
    for (key, example) in EXAMPLES {
        let text = match key.split_once('.') {
            Some((JWT, key)) => format!("[jwt.ci]\n{key} = {example}\n"),
            Some((table, key)) => format!("[{table}]\n{key} = {example}\n"),
            None => format!("{key} = {example}\n"),
        };
        assert!(read(&text).faults.is_empty(), "{text}: {:?}", read(&text).faults);
    }
}

#[test]
fn all_faults_of_a_file_are_told_at_once_in_the_order_of_their_lines() {
    let text = "lisen = \"a:1\"\nlog = 7\nid = \"one\"\ndata = \"d\"\n\n[audit]\nwath = \"all\"\nrequired = \"yes\"\n\n\
                [jwt.ci]\nissuer = \"i\"\njwk = \"x\"\naudience = 3\n";
    let FileRead { config, faults, .. } = read(text);
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let expected = [
        "has the unknown key `lisen`: did you mean `listen`?",
        "is not valid: line 2: log: invalid type: integer `7`, expected a string: write it like `log = \"info\"`",
        "is not valid: line 3: id: invalid type: string \"one\", expected u64: write it like `id = 1`",
        "has the unknown key `audit.wath`: did you mean `what`?",
        "is not valid: line 8: audit.required: invalid type: string \"yes\", expected a boolean: write it like `required = true`",
        "has the unknown key `jwt.ci.jwk`: did you mean `jwks`?",
        "is not valid: line 13: jwt.ci.audience: invalid type: integer `3`, expected a string: write it like `audience = \
         \"fairhold\"`",
    ];
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.ends_with(expected), "{expected}: {told}");
    }
    assert_eq!((config.data, config.log, config.id), (Some("d".into()), None, None), "the rest is used to find more");
}

#[test]
fn a_value_in_the_place_of_a_table_is_a_fault_with_its_line() {
    for text in ["id = 1\naudit = 7\n", "id = 1\nupgrade = \"x\"\n", "id = 1\njwt = 7\n", "id = 1\njwt = { ci = 7 }\n"] {
        let faults = read(text).faults;
        assert!(matches!(&*faults, [ConfigError::File { line: 2, .. }]), "{text}: {faults:?}");
    }
}

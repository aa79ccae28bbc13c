//! What the files may contain, and how large they may be.

use super::{Asset, HASH, INDEX, asset, assets, content_type};
use std::fmt::Write as _;

const KIB: usize = 1 << 10;

fn text(asset: &Asset) -> &'static str {
    std::str::from_utf8(asset.plain).unwrap()
}

/// What is wrong with a line of our own code.
fn complaint(line: &str) -> Option<String> {
    let code = line.split("// ").next().unwrap_or_default();
    let forbidden = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " style="];
    let found = forbidden.into_iter().find(|word| code.contains(word));
    // `onClick=${…}` of Preact sets a listener. An attribute of HTML has a lower-case name.
    let handler = code.split(" on").skip(1).find(|rest| {
        let name: String = rest.chars().take_while(char::is_ascii_lowercase).collect();
        !name.is_empty() && rest[name.len()..].starts_with('=')
    });
    let elsewhere = ["http://", "https://"].into_iter().find(|scheme| code.contains(scheme));
    found.or(elsewhere).map(|word| format!("{word} in {line}")).or_else(|| handler.map(|_| format!("a handler in {line}")))
}

#[test]
fn no_file_of_ours_runs_text_as_code_or_names_another_host() {
    let mut complaints = String::new();
    for file in assets().filter(|file| file.path.starts_with("app/") || file.path == INDEX || file.path == "style.css") {
        for line in text(file).lines().filter_map(complaint) {
            writeln!(complaints, "{}: {line}", file.path).unwrap();
        }
    }
    assert_eq!(complaints, "");
}

#[test]
fn a_planted_violation_is_found() {
    for line in [
        "node.innerHTML = name;",
        "eval(text)",
        "html`<a onclick=${run}>`",
        "html`<a style=\"color:red\">`",
        "fetch(\"https://example.com\")",
    ] {
        assert!(complaint(line).is_some(), "{line}");
    }
    for line in ["html`<a onClick=${run}>`", "// see http://n1:7171", "if (only === one) {"] {
        assert_eq!(complaint(line), None);
    }
}

#[test]
fn the_files_are_small() {
    let (mut total, mut listing) = (0, String::new());
    for file in assets() {
        total += file.gzip.len();
        writeln!(listing, "{:>6} {:>6} {}", file.plain.len(), file.gzip.len(), file.path).unwrap();
    }
    println!("{listing}{total} bytes compressed");
    assert!(total <= 80 * KIB, "{listing}{total} bytes compressed");
    let vendor = assets().filter(|file| file.path.starts_with("vendor/")).map(|file| file.gzip.len()).sum::<usize>();
    assert!(vendor <= 14 * KIB, "{vendor}");
}

#[test]
fn no_file_of_ours_has_more_than_400_lines() {
    for file in assets().filter(|file| !file.path.starts_with("vendor/")) {
        assert!(text(file).lines().count() <= 400, "{}", file.path);
    }
}

#[test]
fn the_first_page_names_the_others_by_the_hash() {
    let index = text(asset(INDEX).unwrap());
    for path in ["app/main.js", "style.css", "icon.svg"] {
        assert!(index.contains(&format!("\"./{HASH}/{path}\"")), "{path} is not in\n{index}");
        assert!(asset(path).is_some(), "{path}");
    }
    assert!(!index.contains("{HASH}") && HASH.len() == 16);
}

#[test]
fn a_file_is_found_by_its_exact_path() {
    for path in ["", "/", "app", "app/", "../src/lib.rs", "app/../index.html", "index.html/", "vendor/README.md"] {
        assert!(asset(path).is_none(), "{path}");
    }
}

#[test]
fn a_content_type_follows_from_the_end_of_a_path() {
    for file in assets() {
        assert_eq!(content_type(file.path), Some(file.content_type), "{}", file.path);
    }
    assert_eq!(content_type("app/new.js"), Some("text/javascript; charset=utf-8"));
    for path in ["", "js", "a.", "a.exe", "a.js/b"] {
        assert_eq!(content_type(path), None, "{path}");
    }
}

/// The relative luminance of a colour (WCAG 2).
fn luminance(hex: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}

fn contrast(one: &str, other: &str) -> f64 {
    let [one, other] = [luminance(one), luminance(other)];
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The colours of a theme: the rule that begins with this selector.
fn colour(theme: &str, name: &str) -> String {
    let style = text(asset("style.css").unwrap());
    let rule = style.split(&format!("{theme} {{")).nth(1).unwrap().split('}').next().unwrap();
    let value = rule.split(&format!("--{name}: ")).nth(1).unwrap_or_else(|| panic!("{theme} has no {name}"));
    value.split(';').next().unwrap().to_owned()
}

#[test]
fn text_and_edges_have_enough_contrast_in_both_themes() {
    for theme in [":root", ":root[data-theme=\"dark\"]"] {
        for ground in ["bg", "panel", "raised"] {
            for ink in ["text", "muted", "accent", "held", "queued", "cooling", "lost"] {
                let found = contrast(&colour(theme, ink), &colour(theme, ground));
                assert!(found >= 4.5, "{theme}: {ink} on {ground}: {found:.2}");
            }
            let edges = contrast(&colour(theme, "line"), &colour(theme, ground));
            assert!(edges >= 3.0, "{theme}: line on {ground}: {edges:.2}");
        }
    }
}

//! The guides by task, followed as they stand. A reader saves the files of a page, and pastes its blocks for the shell into one
//! shell, one after the other. A block of plain text is what the block before it prints.

use crate::{
    harness::{Cluster, LONG, free_port, report, run_exclusive},
    without::{GO, JAVA, Need},
};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::Command;

/// Defines a test for each page.
macro_rules! guides {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                run_exclusive(LONG, follow($page));
            }
        )*
    };
}

guides! {
    the_guide_about_a_cron_job_works: "cron-once.md",
    the_guide_about_a_migration_works: "migration-once.md",
    the_guide_about_the_leader_of_a_service_works: "leader-of-a-service.md",
    the_guide_about_a_pool_of_gpus_works: "gpus-by-permits.md",
    the_guide_about_plain_http_works: "plain-http.md",
    the_guide_about_zookeeper_works: "coming-from-zookeeper.md",
    the_guide_about_etcd_works: "coming-from-etcd.md",
    the_guide_about_consul_works: "coming-from-consul.md",
    the_guide_about_redis_works: "coming-from-redis.md",
    the_guide_about_a_move_works: "move-without-a-gap.md",
    the_guide_about_a_job_that_waits_works: "my-job-waits.md",
    the_guide_about_lost_things_works: "when-things-are-lost.md",
    the_questions_and_answers_work: "faq.md",
}

/// Guides with commands for one machine that these tests do not run, and why.
const NOT_FOLLOWED: &[(&str, &str)] = &[("install.md", "`./fairhold packages` checks it, as root and in containers")];

/// The ports of the three nodes in the pages.
const NODES: [u16; 3] = [7171, 7172, 7173];
/// Further ports of the pages, on which a reader starts something.
const OTHERS: [u16; 2] = [7471, 7571];

/// Printed before each block, and after the last one.
const MARK: &str = "@@ block @@";

/// Programs that a machine may lack: a line of a block begins with the name, and the argument shows whether it runs.
const TOOLS: [(&str, &str, Need); 2] = [("go", "version", GO), ("java", "-version", JAVA)];

/// A page as a reader follows it.
#[derive(Debug, Default)]
struct Guide {
    /// The names and texts of the files to save.
    files: Vec<(String, String)>,
    steps: Vec<Step>,
}

/// A block to paste.
#[derive(Debug)]
struct Step {
    text: String,
    /// What it prints, if the page shows that.
    shown: Option<String>,
}

impl Guide {
    fn read(page: &str) -> Guide {
        let mut guide = Guide::default();
        for (language, text) in blocks(page) {
            match language.as_str() {
                "sh" => guide.steps.push(Step { text, shown: None }),
                "text" => {
                    let step = guide.steps.last_mut().unwrap_or_else(|| panic!("nothing prints this: {text}"));
                    assert!(step.shown.replace(text).is_none(), "two blocks show what this prints: {}", step.text);
                }
                _ => {
                    let first = text.lines().next().unwrap_or_default();
                    let name = ["# ", "// "].iter().find_map(|mark| first.strip_prefix(mark));
                    let name = name.unwrap_or_else(|| panic!("the first line does not name the file: {text}")).to_owned();
                    guide.files.push((name, text));
                }
            }
        }
        guide
    }
}

/// The language and the text of each block, without its indentation.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String, String)> = None;
    for line in page.lines() {
        let text = line.trim_start();
        match &mut open {
            None => open = text.strip_prefix("```").map(|name| (line.len() - text.len(), name.to_owned(), String::new())),
            Some(_) if text == "```" => found.extend(open.take().map(|(_, language, block)| (language, block))),
            Some((indentation, _, block)) => *block += &format!("{}\n", line.get(*indentation..).unwrap_or_default()),
        }
    }
    found
}

/// Whether a line is as the page shows it. `…` stands for anything.
fn is_line(shown: &str, printed: &str) -> bool {
    let mut parts: Vec<&str> = shown.split('…').collect();
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() {
        return printed == last;
    }
    let first = parts.remove(0);
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Whether lines are as the page shows them. A line `…` stands for any number of lines.
fn are_lines(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, others)) if *line == "…" => {
            (0..=printed.len()).any(|skipped| printed.get(skipped..).is_some_and(|rest| are_lines(others, rest)))
        }
        Some((line, others)) => {
            printed.split_first().is_some_and(|(first, rest)| is_line(line, first) && are_lines(others, rest))
        }
    }
}

fn documentation() -> PathBuf {
    fs::canonicalize("../../docs").expect("the documentation is there")
}

/// A folder with the examples, which a reader copies, and with the program.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for example in fs::read_dir(documentation().join("examples")).expect("the examples") {
        let example = example.expect("an example");
        fs::copy(example.path(), folder.path().join(example.file_name())).expect("it can be copied");
    }
    fs::create_dir(folder.path().join("bin")).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_fairhold"), folder.path().join("bin/fairhold")).expect("a link");
    folder
}

/// The tools that this machine lacks.
fn missing_tools(steps: &[Step]) -> Vec<&'static str> {
    let uses = |tool: &str| steps.iter().any(|step| needs(step, tool));
    let lacks = |(tool, argument, need): &(&'static str, &str, Need)| {
        let run = || std::process::Command::new(tool).arg(argument).output().map_err(|error| error.to_string());
        (uses(tool) && need.or_without(run()).is_none()).then_some(*tool)
    };
    TOOLS.iter().filter_map(lacks).collect()
}

fn needs(step: &Step, tool: &str) -> bool {
    step.text.lines().any(|line| line.strip_prefix(tool).is_some_and(|rest| rest.starts_with(' ')))
}

/// A text of the page, with the addresses of this cluster.
fn localized(text: &str, addresses: &[(u16, String)]) -> String {
    addresses.iter().fold(text.to_owned(), |text, (port, address)| {
        text.replace(&format!("localhost:{port}"), address).replace(&format!("127.0.0.1:{port}"), address)
    })
}

/// The text of the one shell into which the reader pastes.
fn script(steps: &[Step]) -> String {
    let mut script = "exec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    for step in steps {
        script += &format!("echo '{MARK}'\n{}", step.text);
    }
    script + &format!("echo '{MARK}'\n")
}

fn shell(folder: &Path, endpoints: &str) -> Command {
    let path = format!("{}:{}", folder.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "page.sh"]).current_dir(folder).env("PATH", path).env("no_proxy", "*");
    command.env("FAIRHOLD_ENDPOINT", endpoints).env_remove("FAIRHOLD_AUTH_TOKEN_FILE");
    command.env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local").stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Follows a page on a cluster of its own, and compares what its blocks print with what it shows.
async fn follow(name: &str) {
    let page = fs::read_to_string(documentation().join("guides").join(name)).expect("a page is UTF-8");
    let mut guide = Guide::read(&page);
    assert!(!guide.steps.is_empty(), "{name} has no commands");
    let missing = missing_tools(&guide.steps);
    guide.steps.retain(|step| !missing.iter().any(|tool| needs(step, tool)));
    let cluster = Cluster::start().await;
    let urls: Vec<&str> = cluster.nodes.iter().map(|node| node.url.as_str()).collect();
    let nodes = urls.iter().map(|url| url.trim_start_matches("http://").to_owned());
    let mut addresses: Vec<(u16, String)> = NODES.into_iter().zip(nodes).collect();
    addresses.extend(OTHERS.map(|port| (port, format!("127.0.0.1:{}", free_port()))));

    let folder = folder();
    for (file, text) in &guide.files {
        fs::write(folder.path().join(file), text).expect("it can be written");
    }
    fs::write(folder.path().join("page.sh"), localized(&script(&guide.steps), &addresses)).expect("it can be written");
    let output = shell(folder.path(), &urls.join(",")).output().await.expect("bash runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{name} ends with {}, and its shell printed\n{printed}", output.status);

    let mark = format!("{MARK}\n");
    let parts: Vec<&str> = printed.split(&mark).skip(1).collect();
    assert_eq!(parts.len(), guide.steps.len() + 1, "{name} printed\n{printed}");
    for (step, part) in guide.steps.iter().zip(parts) {
        let Some(shown) = &step.shown else { continue };
        let shown = localized(shown, &addresses);
        let is_as_shown = are_lines(&shown.lines().collect::<Vec<_>>(), &part.lines().collect::<Vec<_>>());
        assert!(is_as_shown, "{name}: this block\n{}\nprints\n{part}\ninstead of\n{shown}", step.text);
    }
    report(&format!("{name}: {} blocks", guide.steps.len()));
}

#[test]
fn each_guide_with_commands_for_one_machine_is_followed() {
    for file in fs::read_dir(documentation().join("guides")).expect("the guides") {
        let path = file.expect("a guide").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let page = fs::read_to_string(&path).expect("a page is UTF-8");
        let blocks = blocks(&page);
        let commands: Vec<&str> = blocks.iter().filter(|(language, _)| language == "sh").map(|(_, text)| text.as_str()).collect();
        // The client's tests follow the guides whose blocks name their machine.
        let is_for_one = !commands.is_empty() && !commands.iter().any(|text| text.starts_with("# on "));
        let is_listed = PAGES.contains(&name.as_str()) || NOT_FOLLOWED.iter().any(|(page, _)| *page == name);
        assert_eq!(is_for_one, is_listed, "{name}");
    }
}

#[test]
fn a_difference_from_the_page_is_found() {
    for (shown, printed) in [("", ""), ("a b", "a b"), ("…", ""), ("a…", "a"), ("a…c", "abbc"), ("…b…d…", "abcd")] {
        assert!(is_line(shown, printed), "{shown} {printed}");
    }
    for (shown, printed) in [("a b", "a b c"), ("a…c", "abb"), ("…b…d", "adcb"), ("a…a", "a")] {
        assert!(!is_line(shown, printed), "{shown} {printed}");
    }
    assert!(are_lines(&["a", "…", "d"], &["a", "b", "c", "d"]) && are_lines(&["…"], &[]));
    assert!(!are_lines(&["a", "…", "d"], &["a", "b"]) && !are_lines(&["a"], &["a", "b"]) && !are_lines(&["a"], &[]));
}

#[test]
fn a_page_is_read_as_a_reader_does() {
    let shell = "# Page\n\n```sh\necho 1\n```\n\n```text\n1\n```\n";
    let rest = "- item\n\n  ```python\n  # a.py\n  if 1:\n      pass\n  ```\n\n```sh\ngo run\n```\n";
    let guide = Guide::read(&format!("{shell}\n{rest}"));
    assert_eq!(guide.files, [("a.py".to_owned(), "# a.py\nif 1:\n    pass\n".to_owned())]);
    let steps: Vec<(&str, Option<&str>)> = guide.steps.iter().map(|step| (step.text.as_str(), step.shown.as_deref())).collect();
    assert_eq!(steps, [("echo 1\n", Some("1\n")), ("go run\n", None)]);
    assert!(guide.steps.iter().map(|step| needs(step, "go")).eq([false, true]));
    let addresses = [(7171, "127.0.0.1:17171".to_owned())];
    assert_eq!(localized("localhost:7171 127.0.0.1:7171 :7171", &addresses), "127.0.0.1:17171 127.0.0.1:17171 :7171");
}

//! Requirements of tests that a machine may lack. If one is missing, the test fails unless `FAIRHOLD_WITHOUT` names it:
//! a test that passes without running looks as if it had found no fault.

use crate::harness::report;

/// Every name that `FAIRHOLD_WITHOUT` accepts, and its meaning.
const NAMES: &[(&str, &str)] = &[
    ("baselines", "the programs of older cluster versions, which `./fairhold build-baseline` builds from the history"),
    ("go", "the Go tool chain, 1.19 or newer"),
    ("java", "a Java development kit, 17 or newer"),
    ("mounts", "mounted file systems, which only root can make"),
    ("namespaces", "user, PID and mount namespaces (unshare)"),
    ("networks", "network namespaces, which only root can make"),
    ("promtool", "the program promtool of Prometheus"),
    ("proxies", "the proxies nginx and haproxy"),
    ("tools", "programs by which a process can leave its parents, such as tmux and strace"),
    ("users", "processes of other users, which only root can start"),
];

/// A requirement of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need(pub(crate) &'static str);

pub(crate) const BASELINES: Need = Need("baselines");
pub(crate) const GO: Need = Need("go");
pub(crate) const JAVA: Need = Need("java");
pub(crate) const MOUNTS: Need = Need("mounts");
pub(crate) const NAMESPACES: Need = Need("namespaces");
pub(crate) const NETWORKS: Need = Need("networks");
pub(crate) const PROMTOOL: Need = Need("promtool");
pub(crate) const PROXIES: Need = Need("proxies");
pub(crate) const TOOLS: Need = Need("tools");
pub(crate) const USERS: Need = Need("users");

impl Need {
    /// The requirement, or `None` if `FAIRHOLD_WITHOUT` names it. Panics if it is missing but not named.
    pub(crate) fn or_without<T>(self, had: Result<T, String>) -> Option<T> {
        let without = std::env::var("FAIRHOLD_WITHOUT").unwrap_or_default();
        match self.check(had, &without) {
            Ok(Ok(had)) => Some(had),
            Ok(Err(line)) => {
                report(&line);
                None
            }
            Err(complaint) => panic!("{complaint}"),
        }
    }

    /// The requirement, or a line about what is not covered, or the error.
    fn check<T>(self, had: Result<T, String>, without: &str) -> Result<Result<T, String>, String> {
        let named: Vec<&str> = without.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let is_known = |name: &str| NAMES.iter().any(|(known, _)| *known == name);
        if let Some(stranger) = named.iter().find(|name| !is_known(name)) {
            let known: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            return Err(format!("FAIRHOLD_WITHOUT names `{stranger}`, and may name: {}", known.join(",")));
        }
        let Need(name) = self;
        match had {
            Ok(had) => Ok(Ok(had)),
            Err(why) if named.contains(&name) => Ok(Err(format!("not covered here, as FAIRHOLD_WITHOUT names {name}: {why}"))),
            Err(why) => {
                let (_, what) = NAMES.iter().find(|(known, _)| *known == name).expect("every need has a name");
                Err(format!(
                    "this test needs {what}, which is missing here: {why}. If this machine cannot have it, \
                     FAIRHOLD_WITHOUT={name} skips this test (separate several names by commas)"
                ))
            }
        }
    }
}

/// Compiles a small C program of these tests with `CC`, or `cc`.
pub(crate) fn compile(source: &str, target: &std::path::Path, flags: &[&str]) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut run = std::process::Command::new(&compiler);
    run.args(["-Wall", "-Wextra", "-Werror", "-O1"]).args(flags).arg("-o").arg(target).arg(source);
    let output = run.output().unwrap_or_else(|error| {
        panic!("these tests need a C compiler, and {compiler:?} cannot be run: {error}. `./fairhold test` installs one")
    });
    assert!(output.status.success(), "{source} does not compile: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_missing_requirement_fails_a_test_unless_it_is_named() {
    let missing = || Err::<(), _>("mount: permission denied".to_owned());
    assert_eq!(MOUNTS.check(Ok(7), ""), Ok(Ok(7)));
    assert_eq!(MOUNTS.check(Ok(7), "mounts"), Ok(Ok(7)), "an available requirement is used");
    let complaint = MOUNTS.check(missing(), "users,networks").expect_err("it is missing");
    for word in ["mounted file systems", "mount: permission denied", "FAIRHOLD_WITHOUT=mounts"] {
        assert!(complaint.contains(word), "{complaint}");
    }
    let line = "not covered here, as FAIRHOLD_WITHOUT names mounts: mount: permission denied";
    assert_eq!(MOUNTS.check(missing(), "users, mounts"), Ok(Err(line.to_owned())));
    let wrong = MOUNTS.check(Ok(7), "mount").expect_err("an unknown name");
    assert!(wrong.contains("names `mount`") && wrong.contains("mounts,namespaces"), "{wrong}");
    for Need(name) in [BASELINES, GO, JAVA, MOUNTS, NAMESPACES, NETWORKS, PROMTOOL, PROXIES, TOOLS, USERS] {
        assert!(NAMES.iter().any(|(known, _)| *known == name), "{name}");
    }
}

//! The crates that can be mutated, and the tests that should notice the mutants.

/// A crate, and the tests that judge its mutants.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Its name without `fairhold-`; its folder is `crates/NAME`.
    pub(crate) name: &'static str,
    /// The packages whose tests run, without `fairhold-`: the quickest test program first.
    pub(crate) judges: &'static [&'static str],
    /// Excluded files, each with the reason in a comment.
    pub(crate) left_out: &'static [&'static str],
}

const PLANS: &[Plan] = &[
    // The self-check of the state is itself a judge: no product code calls it.
    Plan { name: "state", judges: &["state"], left_out: &["check.rs"] },
    Plan { name: "node", judges: &["node", "sim"], left_out: &[] },
    Plan { name: "raft", judges: &["raft", "sim"], left_out: &[] },
    Plan { name: "storage", judges: &["storage", "sim"], left_out: &[] },
    Plan { name: "http", judges: &["http"], left_out: &[] },
    Plan { name: "client", judges: &["client"], left_out: &[] },
];

/// Their names.
pub(crate) fn names() -> Vec<String> {
    PLANS.iter().map(|plan| plan.name.to_owned()).collect()
}

/// The plan for a crate.
pub(crate) fn of(name: &str) -> Option<&'static Plan> {
    PLANS.iter().find(|plan| plan.name == name)
}

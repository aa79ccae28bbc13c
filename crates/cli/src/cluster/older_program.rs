//! The explanation when the node that answers runs a program that does not know a call.

use crate::remote::Failure;

/// Explains a `404` of a call that every program with this feature knows.
pub(crate) fn explain(failure: Failure, feature: &str) -> Failure {
    match failure {
        Failure::Refused { status: 404, .. } => Failure::Ended(format!(
            "the program of the node that answers is older than {feature}: name an upgraded node with -e URL, or upgrade it"
        )),
        Failure::Refused { .. } | Failure::Usage(_) | Failure::Unavailable(_) | Failure::Local(_) | Failure::Ended(_) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_with_an_older_program_is_named_as_the_reason() {
        let refused = |status| explain(Failure::Refused { status, body: Vec::new() }, "join tokens");
        assert!(refused(404).to_string().contains("older than join tokens: name an upgraded node with -e URL"));
        assert!(matches!(refused(409), Failure::Refused { status: 409, .. }));
    }
}

//! `fairhold completions` and `fairhold man`, generated from the definition of the command line.

use crate::{exit, output};
use clap::Command;
use clap_complete::Shell;
use std::{io, process::ExitCode};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  fairhold completions bash > /etc/bash_completion.d/fairhold")]
pub(crate) struct CompletionsArgs {
    /// Name of the shell
    shell: Shell,
}

/// Prints the completion script for a shell.
pub(crate) fn completions(args: &CompletionsArgs, all: &Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut for_people(all), "fairhold", &mut script);
    written(output::write_bytes(&script))
}

/// The command line without hidden commands: a completion script offers every command that it contains.
fn for_people(all: &Command) -> Command {
    let shown = all.get_subcommands().filter(|part| !part.is_hide_set()).cloned();
    let shown: Vec<Command> = shown.collect();
    let about = all.get_about().cloned().unwrap_or_default();
    Command::new("fairhold").about(about).version(env!("CARGO_PKG_VERSION")).args(all.get_arguments().cloned()).subcommands(shown)
}

/// Prints the manual page, with a section for each command.
pub(crate) fn man(all: Command) -> ExitCode {
    written(pages(all).and_then(|pages| output::write_bytes(&pages)))
}

fn pages(mut command: Command) -> io::Result<Vec<u8>> {
    command.build();
    let mut pages = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut pages)?;
    for part in command.get_subcommands().filter(|part| !part.is_hide_set() && part.get_name() != "help") {
        let name = format!("fairhold-{}", part.get_name());
        clap_mangen::Man::new(part.clone()).title(name).render(&mut pages)?;
    }
    Ok(pages)
}

fn written(result: io::Result<()>) -> ExitCode {
    exit::from_result(output::unless_closed(result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::CommandFactory as _;

    #[test]
    fn the_manual_has_every_command_except_hidden_ones() {
        let text = String::from_utf8(pages(Args::command()).unwrap()).unwrap();
        assert!(text.contains("on\\-lost") && text.contains("queue") && !text.contains("supervisor"), "{text}");
    }
}

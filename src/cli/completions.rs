//! `dryrack completions` and `dryrack man`: what a shell and `man` know of the commands.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::exit::{Exit, ExitResult, Failure};
use super::output::{WholeFile, print};

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that reads the completions
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder for the pages, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub fn completions(args: &CompletionsArgs, command: &mut Command) -> ExitResult {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, command, "dryrack", &mut text);
    // A shell reads this, so no line may be folded.
    use std::io::Write;
    std::io::stdout().lock().write_all(&text)?;
    Ok(Exit::Fine)
}

pub fn man(args: &ManArgs, mut command: Command) -> ExitResult {
    std::fs::create_dir_all(&args.dir).map_err(|error| Failure::uncreated(&args.dir, &error))?;
    command.build();
    let count = write_pages(args, command, "dryrack")?;
    print(&format!("{count} pages in {}; read one with `man dryrack-run`\n", args.dir.display()))?;
    Ok(Exit::Fine)
}

/// Writes the page of a command and those of the commands below it. Returns how many.
fn write_pages(args: &ManArgs, command: Command, name: &str) -> Result<usize, Failure> {
    let below: Vec<Command> = command.get_subcommands().filter(|below| below.get_name() != "help").cloned().collect();
    let mut page = Vec::new();
    // clap wants names that live as long as the program; there are about a hundred.
    let command = command.name(name.to_string().leak() as &'static str).version(env!("CARGO_PKG_VERSION"));
    Man::new(command).render(&mut page)?;
    WholeFile::write(&args.dir.join(format!("{name}.1")), &page)?;
    let mut count = 1;
    for command in below {
        let name = format!("{name}-{}", command.get_name());
        count += write_pages(args, command, &name)?;
    }
    Ok(count)
}

//! Completions and manual pages, made from the definition of the command line.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::args::{self, Cli};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, count};

pub fn completions(shell: Shell, output: &mut Output) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line(), "tubewell", &mut script);
    output.bytes(&script)
}

/// All commands of ours. The one that the parser adds, `help`, says what they say.
fn command_line() -> Command {
    Cli::command().disable_help_subcommand(true)
}

pub fn man(asked: &args::Man, output: &mut Output) -> Outcome {
    let mut top = command_line();
    top.build();
    if let Some(directory) = &asked.out {
        return write_all(&top, directory, output);
    }
    let command = match &asked.command {
        None => top,
        Some(name) => top.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::usage(format!("there is no command {name:?}"))
                .hint("`tubewell --help` lists the commands")
        })?,
    };
    output.bytes(&page(&command)?)
}

fn write_all(top: &Command, directory: &Path, output: &mut Output) -> Outcome {
    let failed = |error| {
        Failure::new(Exit::Failed, format!("cannot write to {}: {error}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut pages = 0;
    for command in std::iter::once(top).chain(top.get_subcommands()) {
        let file = directory.join(format!("{}.1", command_name(command)));
        std::fs::write(file, page(command)?).map_err(failed)?;
        pages += 1;
    }
    if output.json {
        let directory = directory.display().to_string();
        return output.object(&serde_json::json!({ "directory": directory, "pages": pages }));
    }
    output.line(format!("{} in {}", count(pages, "page"), directory.display()))
}

fn page(command: &Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    render(command, &mut page).map_err(|error| Failure::output(&error))?;
    Ok(page)
}

fn render(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let version = concat!("tubewell ", env!("CARGO_PKG_VERSION"));
    // An empty date would be left out, and what follows take its place.
    let man = Man::new(command.clone()).date(" ").source(version).manual("tubewell");
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut below = notes(&help);
    if !command.has_subcommands() {
        below.control("SH", ["SEE ALSO"]).text([roman("tubewell(1)")]);
    }
    below.to_writer(page)
}

/// What stands below the options. A paragraph of a title and lines that are set in stays as it is;
/// of the others the first begins the notes.
fn notes(help: &str) -> Roff {
    let mut roff = Roff::new();
    let mut begun = false;
    for paragraph in help.split("\n\n") {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let is_list = rest.lines().all(|line| line.starts_with("  "));
        if let Some(title) = first.strip_suffix(':').filter(|_| is_list) {
            roff.control("SH", [title.to_uppercase().as_str()]).control("nf", []);
            for line in rest.lines() {
                roff.text([roman(line.trim_start())]);
            }
            roff.control("fi", []);
            continue;
        }
        let start = if begun { "PP" } else { "SH" };
        let title: &[&str] = if begun { &[] } else { &["NOTES"] };
        roff.control(start, title.iter().copied()).text([roman(paragraph)]);
        begun = true;
    }
    roff
}

fn command_name(command: &Command) -> String {
    match command.get_display_name() {
        Some(name) => name.to_owned(),
        None => command.get_name().to_owned(),
    }
}

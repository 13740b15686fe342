//! `man`: manual pages, made from the definition of the command line.

use std::io;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use crate::args::{self, Cli};
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::{Output, count};

pub fn run(args: &args::Man, output: &mut Output) -> CommandResult {
    let mut top = Cli::command().disable_help_subcommand(true);
    top.build();
    if let Some(directory) = &args.out {
        return write_all(&top, directory, output);
    }
    let command = match &args.command {
        None => top,
        Some(name) => documented(&top)
            .find(|command| command.get_name() == name)
            .cloned()
            .ok_or_else(|| {
                Failure::usage(format!("there is no command {name:?}"))
                    .hint("`tubewell --help` lists the commands")
            })?,
    };
    output.body(&page(&command)?)
}

fn documented(top: &Command) -> impl Iterator<Item = &Command> {
    top.get_subcommands().filter(|command| !command.is_hide_set())
}

fn write_all(top: &Command, directory: &Path, output: &mut Output) -> CommandResult {
    let failed = |error| {
        Failure::new(Exit::Failed, format!("cannot write to {}: {error}", directory.display()))
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut pages = 0;
    for command in std::iter::once(top).chain(documented(top)) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        std::fs::write(directory.join(format!("{name}.1")), page(command)?).map_err(failed)?;
        pages += 1;
    }
    if output.json {
        let directory = directory.display().to_string();
        return output.object(&serde_json::json!({ "directory": directory, "pages": pages }));
    }
    output.line(format!("{} in {}", count(pages, "page"), directory.display()))
}

fn page(command: &Command) -> CommandResult<Vec<u8>> {
    let mut page = Vec::new();
    render(command, &mut page).map_err(|error| Failure::output(&error))?;
    Ok(page)
}

fn render(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let version = concat!("tubewell ", env!("CARGO_PKG_VERSION"));
    // The generator writes arguments without their dots, so they have a section of their own here.
    let options = command.clone().mut_args(|arg| {
        let hide = arg.is_hide_set() || arg.is_positional();
        arg.hide(hide)
    });
    // The generator leaves out an empty date, and the next field takes its place.
    let man = Man::new(options).date(" ").source(version).manual("tubewell");
    man.render_title(page)?;
    man.render_name_section(page)?;
    synopsis(command).to_writer(page)?;
    man.render_description_section(page)?;
    arguments(command).to_writer(page)?;
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

/// The lines of the usage, with the names of arguments in italics instead of angle brackets.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (nth, line) in usage.trim_start_matches("Usage:").lines().enumerate() {
        if nth > 0 {
            roff.control("br", []);
        }
        let mut words: Vec<Inline> = Vec::new();
        for word in line.split_whitespace() {
            if !words.is_empty() {
                words.push(roman(" "));
            }
            words.extend(synopsis_word(word));
        }
        roff.text(words);
    }
    roff
}

/// A word of the usage: `<TUBE>...`, `[BODY]`, `[OPTIONS]`, `--count`, `[--count`, `<N>]` or the
/// command itself.
fn synopsis_word(word: &str) -> Vec<Inline> {
    if let Some(option) = word.strip_prefix('[').filter(|option| option.starts_with('-')) {
        return vec![roman("["), bold(option)];
    }
    if word.starts_with('<') && word.ends_with(']') {
        let value = word.trim_end_matches(']');
        let mut words = synopsis_word(value);
        words.push(roman(&word[value.len()..]));
        return words;
    }
    let (name, dots) = match word.strip_suffix("...") {
        Some(name) => (name, "..."),
        None => (word, ""),
    };
    let inside = |open, close| name.strip_prefix(open).and_then(|name| name.strip_suffix(close));
    match (inside('<', '>'), inside('[', ']')) {
        (Some(name), _) => vec![italic(name), roman(dots)],
        (_, Some(name)) => vec![roman("["), italic(name), roman("]"), roman(dots)],
        _ => vec![bold(word)],
    }
}

fn arguments(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let shown: Vec<&Arg> = command.get_positionals().filter(|arg| !arg.is_hide_set()).collect();
    if shown.is_empty() {
        return roff;
    }
    roff.control("SH", ["ARGUMENTS"]);
    for arg in shown {
        let name = arg.get_value_names().and_then(|names| names.first());
        let name = name.map_or_else(|| arg.get_id().as_str(), |name| name.as_str());
        let many = arg.get_num_args().is_some_and(|range| range.max_values() > 1);
        roff.control("TP", []);
        roff.text([italic(name), roman(if many { "..." } else { "" })]);
        roff.text([roman(arg.get_help().map(ToString::to_string).unwrap_or_default())]);
        let values: Vec<String> = arg
            .get_possible_values()
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| value.get_name().to_owned())
            .collect();
        if !values.is_empty() {
            roff.control("br", []);
            roff.text([roman(format!("Possible values: {}", values.join(", ")))]);
        }
    }
    roff
}

/// The text below the options. A title with indented lines becomes a section of its own, unchanged;
/// the first other paragraph begins the notes.
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

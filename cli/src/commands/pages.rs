//! Completions and manual pages, made from the definition of the command line.

use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::{self, Cli};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{Output, count};

pub fn completions(shell: Shell, output: &mut Output) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tubewell", &mut script);
    output.bytes(&script)
}

pub fn man(asked: &args::Man, output: &mut Output) -> Outcome {
    let mut top = Cli::command();
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
        return output.object(&serde_json::json!({ "directory": directory, "pages": pages }));
    }
    output.line(format!("{} in {}", count(pages, "page"), directory.display()))
}

fn page(command: &Command) -> Outcome<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page).map_err(|error| Failure::output(&error))?;
    Ok(page)
}

fn command_name(command: &Command) -> String {
    match command.get_display_name() {
        Some(name) => name.to_owned(),
        None => command.get_name().to_owned(),
    }
}

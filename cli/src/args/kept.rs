//! The help of options that keep their values if they are left out.
//!
//! Commands share the types of their options: `put --priority` has a default, `requeue --priority` has none.

use clap::Arg;

/// The help of an option without its default, and without a reference to a text that only `create`
/// has.
pub fn without_default(arg: Arg) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    let Some((text, _)) = help.split_once(" Default:") else { return arg };
    arg.help(text.trim_end_matches('.').replace(", see below", ""))
}

/// As [`without_default`], for the options of a put whose delay and ttl begin anew.
pub fn without_default_but_times(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "delay" | "ttl" => arg,
        _ => without_default(arg),
    }
}

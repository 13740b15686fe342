//! Options of tubes that are replaced as a whole.

use tubewell::expert::OptionValue;
use tubewell::{Store, TubeOptions};

/// These options, with the defaults of all others but `temporary`: an alter leaves nothing as it was.
pub fn only(options: TubeOptions) -> TubeOptions {
    let given: Vec<&str> = options.given().map(|(name, _)| name).collect();
    let all = Store::in_memory().unwrap().tube("any").unwrap().info().unwrap().option_values();
    let others = all.into_iter().filter(|(name, _)| *name != "temporary" && !given.contains(name));
    others.fold(options, |options, (name, _)| {
        options.set(name, OptionValue::Without("the default")).unwrap()
    })
}

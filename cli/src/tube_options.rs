//! The options of tubes as words. The library has the list of them.

use tubewell::TubeInfo;
use tubewell::expert::OptionValue;

use crate::duration;

/// The options of a tube that are not the default, in words: `max taken 8`, `sub-queue limit 2`.
pub fn phrases(tube: &TubeInfo) -> impl Iterator<Item = String> {
    tube.options().given().map(|(name, value)| {
        let name = name.replace("sub_queue", "sub-queue").replace('_', " ");
        match value {
            OptionValue::Flag(_) => name,
            OptionValue::Time(time) => format!("{name} {}", duration::show(time)),
            value => format!("{name} {value}"),
        }
    })
}

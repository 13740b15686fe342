//! The failure groups of the errors that handlers return.

use std::collections::BTreeSet;
use std::error::Error as StdError;

use crate::Failure;
use crate::base::sync::Mutex;

/// How many groups the errors of a worker may have that no name was given to. Errors whose `Debug`
/// text is no name of the code could have any number.
const MOST: usize = 256;

/// The function that names the groups of errors.
pub(super) type GroupOf = Box<dyn Fn(&(dyn StdError + 'static)) -> Option<String> + Send + Sync>;

/// Names the failure groups of a worker.
#[derive(Default)]
pub struct Groups {
    given: Option<GroupOf>,
    seen: Mutex<BTreeSet<String>>,
}

impl Groups {
    pub(super) fn new(given: Option<GroupOf>) -> Groups {
        Groups { given, seen: Mutex::default() }
    }

    /// The failure that an error of a handler describes. Runs user code.
    pub(super) fn failure_of(&self, path: &str, error: &(dyn StdError + 'static)) -> Failure {
        let failure = Failure::of_type(path, error);
        match self.given.as_ref().and_then(|group_of| group_of(error)) {
            Some(group) => failure.in_group(group),
            None if self.is_one_of_few(failure.group()) => failure,
            None => failure.in_unknown_group(),
        }
    }

    fn is_one_of_few(&self, group: &str) -> bool {
        let mut seen = self.seen.lock();
        seen.contains(group) || (seen.len() < MOST && seen.insert(group.to_owned()))
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use std::fmt;

    use super::*;

    /// An error whose `Debug` text looks like a name and is none.
    struct Text(String);

    impl fmt::Debug for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl fmt::Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl StdError for Text {}

    #[test]
    fn groups_of_errors_without_a_given_name_are_limited() {
        let groups = Groups::new(None);
        let letter = |n: usize| char::from(b'a' + u8::try_from(n).unwrap());
        let text = |n: usize| format!("T{}{}", letter(n / 26), letter(n % 26));
        let group = |n: usize| groups.failure_of("Box", &Text(text(n))).group().to_owned();
        let names: BTreeSet<String> = (0..600).map(group).collect();
        assert_eq!(names.len(), MOST + 1);
        assert_eq!((group(0), group(599)), (text(0), "Error".into()));
    }
}

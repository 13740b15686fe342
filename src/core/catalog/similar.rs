//! Names that may be misspelt.

/// How many names are compared: the lock is held meanwhile.
const NAMES_MAX: usize = 1000;
/// Longer names are not compared: people do not type them.
const CHARS_MAX: usize = 64;

/// The first of the names that differ least from `wanted`, if they differ so little that `wanted`
/// may be a misspelling: one edit for each three characters.
pub(super) fn similar<'a>(
    wanted: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let wanted = folded(wanted)?;
    let mut limit = (wanted.len() / 3).clamp(1, 3);
    let mut best = None;
    for name in names.into_iter().take(NAMES_MAX) {
        let Some(folded) = folded(name) else { continue };
        // A name that shares nothing with the other is not a misspelling of it.
        let shortest = wanted.len().min(folded.len());
        let distance = distance(&wanted, &folded, limit).filter(|distance| *distance < shortest);
        if let Some(distance) = distance {
            best = Some(name);
            let Some(less) = distance.checked_sub(1) else { break };
            limit = less;
        }
    }
    best.map(str::to_owned)
}

fn folded(name: &str) -> Option<Vec<char>> {
    // A name of too many bytes has too many characters, or nearly.
    if name.len() > 4 * CHARS_MAX {
        return None;
    }
    let chars: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    (chars.len() <= CHARS_MAX).then_some(chars)
}

/// The least number of edits from one name to the other, if it is not above the limit. An edit
/// inserts, removes or replaces a character, or swaps two neighbours.
fn distance(one: &[char], other: &[char], limit: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > limit {
        return None;
    }
    let mut before_last = vec![0; other.len() + 1];
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (at, char) in one.iter().enumerate() {
        let mut row = vec![at + 1; other.len() + 1];
        for (to, candidate) in other.iter().enumerate() {
            let replace = last[to] + usize::from(char != candidate);
            let mut least = replace.min(last[to + 1] + 1).min(row[to] + 1);
            let swapped = at > 0 && to > 0 && *char == other[to - 1] && one[at - 1] == *candidate;
            if swapped {
                least = least.min(before_last[to - 1] + 1);
            }
            row[to + 1] = least;
        }
        if row.iter().min() > Some(&limit) && last.iter().min() > Some(&limit) {
            return None;
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggestion(wanted: &str, names: &[&str]) -> Option<String> {
        similar(wanted, names.iter().copied())
    }

    #[test]
    fn misspelt_name_gets_the_nearest_suggestion() {
        for wanted in ["mial", "mai", "maill", "Mail", "nail", "ail"] {
            let found = suggestion(wanted, &["orders", "mail", "mails-of-today"]);
            assert_eq!(found.as_deref(), Some("mail"), "{wanted}");
        }
        assert_eq!(suggestion("reprots", &["report", "reports"]).as_deref(), Some("reports"));
        assert_eq!(
            suggestion("thumbnial-jbos", &["thumbnail-jobs"]).as_deref(),
            Some("thumbnail-jobs")
        );
        assert_eq!(suggestion("häuser", &["hauser"]).as_deref(), Some("hauser"));
    }

    #[test]
    fn unrelated_name_gets_no_suggestion() {
        for (wanted, name) in
            [("a", "b"), ("", "a"), ("new", "case"), ("mail", "main-loop"), ("jobs", "orders")]
        {
            assert_eq!(suggestion(wanted, &[name]), None, "{wanted}");
        }
        let long = "x".repeat(200);
        assert_eq!(suggestion(&long, &[&long]), None);
    }

    #[test]
    fn distance_counts_each_edit_once() {
        let distance = |one: &str, other: &str, limit| {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            distance(&chars(one), &chars(other), limit)
        };
        assert_eq!(distance("", "", 0), Some(0));
        assert_eq!(distance("abc", "abc", 0), Some(0));
        assert_eq!(distance("abc", "acb", 1), Some(1));
        assert_eq!(distance("abcd", "badc", 2), Some(2));
        assert_eq!(distance("abcd", "badc", 1), None);
        assert_eq!(distance("kitten", "sitting", 3), Some(3));
        assert_eq!(distance("kitten", "sitting", 2), None);
        assert_eq!(distance("ab", "", 2), Some(2));
    }
}

//! The structure of docs/cookbook.md. Its code runs as doctests; this file checks that all of it does.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

const COOKBOOK: &str = include_str!("../docs/cookbook.md");

#[test]
fn recipes_have_code_that_runs_and_name_crash_and_limits() {
    let recipes: Vec<&str> = COOKBOOK.split("\n## ").skip(1).collect();
    assert_eq!(recipes.len(), 18);
    for recipe in recipes {
        let (title, text) = recipe.split_once('\n').unwrap();
        let fences: Vec<&str> = text.lines().filter(|line| line.starts_with("```")).collect();
        // Neither `no_run` nor `ignore`.
        assert_eq!(fences, ["```rust", "```"], "{title}");
        let (before, rest) = text.split_once("```rust\n").unwrap();
        let (code, after) = rest.split_once("```").unwrap();
        assert!(before.contains("Use it "), "{title}: no use case");
        assert!((15..=40).contains(&code.lines().count()), "{title}: length of the code");
        assert!(code.contains("fn main()"), "{title}: not a program");
        assert!(after.contains("**After a crash**"), "{title}: no crash");
        assert!(after.contains("**Limits**"), "{title}: no limits");
    }
}

#[test]
fn recipes_are_linked_at_the_top() {
    let (top, _) = COOKBOOK.split_once("\n## ").unwrap();
    for title in COOKBOOK.lines().filter_map(|line| line.strip_prefix("## ")) {
        let anchor = title.to_lowercase().replace(' ', "-");
        assert!(top.contains(&format!("](#{anchor})")), "{title}");
    }
}

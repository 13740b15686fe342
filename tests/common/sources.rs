//! The code of a source file, for the tests that read it.

/// The text before the test module. That is the last item of a file; other items for tests stand anywhere.
pub fn before_tests(text: &str) -> &str {
    text.split("\nmod tests {").next().unwrap_or_default()
}

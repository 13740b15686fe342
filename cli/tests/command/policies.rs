//! The policies of tubes: `create --max-runtime`, `tubes`, `export` and `import --all`.

use serde_json::json;

use crate::support::Sandbox;

#[test]
fn max_runtime_is_set_shown_exported_and_imported() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create jobs --max-runtime 90s");
    sandbox.ok("create plain");
    sandbox.ok("put jobs x");
    assert_eq!(sandbox.json("tubes")[0]["max_runtime"], json!(90.0));
    assert_eq!(sandbox.json("tubes")[1]["max_runtime"], json!(null));
    assert!(sandbox.ok("tubes").contains("max runtime 1m30s"), "{}", sandbox.ok("tubes"));
    sandbox.ok("create jobs --if-not-exists --max-runtime 90s");
    let message = sandbox.fails("create jobs --if-not-exists --max-runtime 2m", 6);
    assert!(message.contains("its max_runtime is 90s, not 120s"), "{message}");

    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(other.json("tubes"), sandbox.json("tubes"));
    assert_eq!(other.run("export -").expect(0).out, lines);
    let plain = String::from_utf8(lines).unwrap();
    let plain = plain.lines().find(|line| line.contains("\"plain\"")).unwrap();
    assert!(!plain.contains("max_runtime"), "{plain}");
}

#[test]
fn create_refuses_a_max_runtime_of_zero_or_without_a_timed_driver() {
    let sandbox = Sandbox::empty();
    assert!(sandbox.fails("create jobs --max-runtime 0", 2).contains("above zero"));
    let message = sandbox.fails("create jobs --driver fifo --max-runtime 1s", 2);
    assert!(message.contains("does not support a max_runtime"), "{message}");
    assert!(message.contains("--driver fifottl"), "{message}");
    assert!(!sandbox.store().exists());
}

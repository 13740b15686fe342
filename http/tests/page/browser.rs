//! Runs scenarios in a browser, if there is one.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::tools::leave_out;

const SCENARIOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/page/scenarios.mjs");

/// What runs the scenarios.
pub struct Browser {
    chromium: PathBuf,
    modules: PathBuf,
}

impl Browser {
    /// `None` if something is missing, which is printed; a failure if a browser is required.
    pub fn new() -> Option<Browser> {
        static MISSING: OnceLock<Result<(PathBuf, PathBuf), String>> = OnceLock::new();
        match MISSING.get_or_init(find) {
            Ok((chromium, modules)) => {
                Some(Browser { chromium: chromium.clone(), modules: modules.clone() })
            }
            Err(missing) => {
                leave_out("the test of the page", missing);
                None
            }
        }
    }

    /// Runs a scenario, which asks for nothing.
    pub fn run(&self, scenario: &str, url: &str) {
        self.run_with(scenario, url, |asked| unreachable!("{asked}"));
    }

    /// Runs a scenario, and does what it asks for in between.
    pub fn run_with(&self, scenario: &str, url: &str, mut does: impl FnMut(&str)) {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = Command::new("node")
            .args([SCENARIOS, scenario, url])
            .env("TUBEWELL_NODE_MODULES", &self.modules)
            .env("TUBEWELL_CHROMIUM", &self.chromium)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = running.stdin.take().unwrap();
        for line in BufReader::new(running.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            match line.strip_prefix("ask: ") {
                Some(asked) => {
                    does(asked);
                    writeln!(answers, "done").unwrap();
                }
                None => println!("{line}"),
            }
        }
        drop(answers);
        assert!(running.wait().unwrap().success(), "the scenario {scenario} has failed");
    }
}

/// Chromium, and the folder that has playwright-core; or what is missing.
fn find() -> Result<(PathBuf, PathBuf), String> {
    let runs = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if !runs("node") {
        return Err("Node.js".into());
    }
    let given = std::env::var_os("TUBEWELL_CHROMIUM").map(PathBuf::from);
    let chromium = given.unwrap_or_else(|| "/usr/bin/chromium".into());
    if !chromium.exists() {
        return Err(format!("{}", chromium.display()));
    }
    let modules = std::env::var_os("TUBEWELL_NODE_MODULES").map(PathBuf::from);
    let packages = ["playwright-core", "axe-core"];
    let has_all = |folder: &PathBuf| packages.iter().all(|name| folder.join(name).exists());
    if let Some(modules) = modules.filter(has_all) {
        return Ok((chromium, modules));
    }
    Err(format!("the npm packages {packages:?} in the folder that TUBEWELL_NODE_MODULES names"))
}

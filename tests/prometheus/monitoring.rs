//! The alarms, the dashboard and the document on monitoring name what the text has.

use std::collections::BTreeSet;

use serde_json::Value;
use tubewell::{LIMFIFOTTL, Store, TubeOptions};

use super::promtool::promtool;
use super::small_store;

const ALARMS: &str = include_str!("../../docs/monitoring/alarms.yml");
const TESTS_OF_ALARMS: &str = include_str!("../../docs/monitoring/alarms_test.yml");
const DASHBOARD: &str = include_str!("../../docs/monitoring/grafana.json");
const DOCUMENT: &str = include_str!("../../docs/monitoring.md");

/// The text of a file with a tube with metrics and a capacity, and work in it.
fn text_of_a_file() -> String {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let options = TubeOptions::new().driver(LIMFIFOTTL).capacity(3).metrics(7);
    let mail = store.open_tube("mail", options).unwrap();
    mail.put_many(["one", "two", "three"]).unwrap();
    mail.try_take().unwrap().unwrap().ack().unwrap();
    mail.try_take().unwrap().unwrap().bury(None).unwrap();
    store.prometheus().unwrap()
}

fn is_part_of_a_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The names of metrics in any text.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter| !is_part_of_a_name(letter));
    words.filter(|word| word.starts_with("tubewell_") && *word != "tubewell_").collect()
}

/// The names of the samples.
fn names_of_samples(text: &str) -> BTreeSet<&str> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).collect()
}

/// The values that expressions compare a label with.
fn values<'a>(expressions: &'a str, label: &str) -> BTreeSet<&'a str> {
    let mut values = BTreeSet::new();
    for after in expressions.split(label).skip(1) {
        let operators = ["=~\"", "!~\"", "=\"", "!=\""];
        let compared = operators.iter().find_map(|operator| after.strip_prefix(operator));
        values.extend(
            compared.and_then(|rest| rest.split('"').next()).iter().flat_map(|of| of.split('|')),
        );
    }
    values
}

/// The text after each occurrence of a key in the file of the alarms, up to the end of its line.
fn all_after(key: &str) -> impl Iterator<Item = &'static str> {
    ALARMS.lines().filter_map(move |line| Some(line.split_once(key)?.1.trim()))
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().unwrap()
}

/// The expressions of all panels, and those of the variables.
fn expressions_of_the_dashboard() -> String {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let targets =
        panels(&dashboard).iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let queries = variables.filter_map(|variable| variable["query"]["query"].as_str());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let expressions: Vec<&str> = expressions.chain(queries).collect();
    assert!(expressions.len() > 40, "{expressions:?}");
    expressions.join("\n")
}

#[test]
fn alarms_and_dashboard_name_only_metrics_and_labels_of_the_text() {
    let text = text_of_a_file();
    let samples = names_of_samples(&text);
    for expressions in [ALARMS.to_owned(), expressions_of_the_dashboard()] {
        let named = names(&expressions);
        assert!(named.len() > 10, "{named:?}");
        let unknown: Vec<_> = named.difference(&samples).collect();
        assert!(unknown.is_empty(), "the text has no {unknown:?}");
        for label in ["change", "state"] {
            let compared = values(&expressions, label);
            assert!(!compared.is_empty(), "{label}");
            for value in compared {
                assert!(
                    text.contains(&format!("{label}=\"{value}\"")),
                    "{label} is never {value:?}"
                );
            }
        }
    }
}

#[test]
fn document_lists_every_family_and_no_other() {
    let text = text_of_a_file();
    let heads = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    assert_eq!(names(DOCUMENT), heads.collect());
}

#[test]
fn each_alarm_is_documented_and_tested() {
    let alarms: BTreeSet<&str> = all_after("- alert: ").collect();
    let severities: Vec<&str> = all_after("severity: ").collect();
    assert!(alarms.len() > 10 && alarms.len() == severities.len(), "{alarms:?}");
    let rows = all_after("- alert: ").zip(severities).map(|(alarm, severity)| {
        assert!(TESTS_OF_ALARMS.contains(&format!("alertname=\"{alarm}\"")), "{alarm}");
        format!("| `{alarm}` | {severity} |")
    });
    let documented = DOCUMENT.lines().filter(|line| line.starts_with("| `Tubewell"));
    let heads = documented.map(|line| line.split('|').take(3).collect::<Vec<_>>().join("|") + "|");
    assert!(heads.eq(rows), "the document has other alarms, or in another order");
}

/// An alarm says where to read on.
#[test]
fn alarms_link_to_sections_of_the_document_on_operating() {
    let operating = include_str!("../../docs/operating.md");
    let headings = operating.lines().filter_map(|line| line.strip_prefix("## "));
    let anchors: BTreeSet<String> =
        headings.map(|heading| heading.to_lowercase().replace(' ', "-")).collect();
    let links: Vec<&str> = ALARMS.split("docs/operating.md#").skip(1).collect();
    assert_eq!(links.len(), all_after("- alert: ").count());
    for link in links {
        let anchor = link.split('.').next().unwrap();
        assert!(anchors.contains(anchor), "docs/operating.md has no section {anchor:?}");
    }
}

#[test]
fn panels_have_their_own_ids_descriptions_and_units() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let ids: BTreeSet<u64> =
        panels(&dashboard).iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels(&dashboard).len());
    for panel in panels(&dashboard).iter().filter(|panel| panel["type"] != "row") {
        let title = &panel["title"];
        assert!(panel["description"].as_str().is_some_and(|text| text.ends_with('.')), "{title}");
        let unit = match panel["type"].as_str() {
            Some("heatmap") => &panel["options"]["yAxis"]["unit"],
            _ => &panel["fieldConfig"]["defaults"]["unit"],
        };
        assert!(unit.is_string(), "{title} has no unit");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
    }
}

#[test]
fn promtool_accepts_the_text() {
    for text in [small_store().0.prometheus().unwrap(), text_of_a_file()] {
        if let Some(printed) = promtool(&["check", "metrics"], &text) {
            assert_eq!(printed, "");
        }
    }
}

#[test]
fn promtool_accepts_the_alarms() {
    promtool(&["check", "rules", "alarms.yml"], "");
}

#[test]
fn promtool_accepts_the_expressions_of_the_dashboard() {
    let expressions = expressions_of_the_dashboard();
    let expressions = expressions.lines().filter(|line| !line.starts_with("label_values"));
    let rules: Vec<String> = expressions
        .map(|expression| expression.replace("$__rate_interval", "1m").replace("$__range", "1h"))
        .map(|expression| format!("      - record: panel\n        expr: {expression:?}"))
        .collect();
    let rules = format!("groups:\n  - name: dashboard\n    rules:\n{}\n", rules.join("\n"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dashboard.yml");
    std::fs::write(&path, rules).unwrap();
    promtool(&["check", "rules", "--lint=none", path.to_str().unwrap()], "");
}

#[test]
fn alarms_fire_when_they_should_and_only_then() {
    promtool(&["test", "rules", "alarms_test.yml"], "");
}

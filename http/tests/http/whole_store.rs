//! The store as a whole, and the description of the calls.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tubewell::{Durability, Failure, Put, Store, TubeOptions};

use super::client::Served;

#[test]
fn store_tells_its_counters_and_clocks() {
    let served = Served::with(|options| options.read_only(true));
    served.store.find_tube("jobs").unwrap().put("x").unwrap();
    let store = served.get("/v1/store").expect(200);
    assert_eq!((&store["version"], &store["read_only"]), (&json!("0.1.0"), &json!(true)));
    assert_eq!(store["next_id"], 1);
    assert!(store["counters"]["commits"].as_u64().unwrap() > 0);
    assert!(store["clock"]["untrusted"].is_null());
    assert_eq!((&store["durability"], &store["path"]), (&json!("flush"), &Value::Null));
}

#[test]
fn store_tells_the_durability_with_which_it_was_opened() {
    let written = Durability::Write { flush_within: Duration::from_millis(70) };
    let store = Store::options().durability(written).open_in_memory().unwrap();
    let served = Served::of(store, |options| options);
    assert_eq!(served.get("/v1/store").expect(200)["durability"], "write(70ms)");
}

#[test]
fn failure_groups_and_tags_are_counted() {
    let served = Served::new();
    let jobs = served.store.find_tube("jobs").unwrap();
    for group in ["smtp", "smtp", "dns"] {
        jobs.put(Put::new("x").tag("t")).unwrap();
        jobs.try_take().unwrap().unwrap().bury(Failure::new(group, "refused")).unwrap();
    }
    let groups = served.get("/v1/groups").expect(200);
    assert_eq!(groups, served.get("/v1/tubes/jobs/groups").expect(200));
    let first = served.get("/v1/groups?limit=1").expect(200);
    assert_eq!((&first["groups"][0]["name"], &first["left_out"]), (&json!("smtp"), &json!(1)));
    assert_eq!(served.get("/v1/groups?limit=10001").refused(400), "invalid");
    let groups = groups["groups"].as_array().unwrap();
    let smtp = json!({ "tube": "jobs", "name": "smtp", "count": 2 });
    assert!(groups.len() == 2 && groups.contains(&smtp), "{groups:?}");
    assert_eq!(served.get("/v1/tags").expect(200)["tags"], json!([{ "tag": "t", "tasks": 3 }]));
    assert_eq!(served.get("/v1/tags?limit=1001").refused(400), "invalid");
}

#[test]
fn limits_and_pauses_are_set_told_and_removed() {
    let served = Served::new();
    let hosts = TubeOptions::new().driver("utubettl").shared_limits(true);
    served.store.create_tube("pages", hosts).unwrap();
    served.json("PUT", "/v1/limits/example.org", &json!({ "most": 3 })).expect(204);
    served.post("/v1/tubes/pages/pause?sub_queue=example.com&for=1h", "").expect(200);
    let limits = served.get("/v1/limits").expect(200);
    assert_eq!(limits["limits"], json!([{ "name": "example.org", "most": 3, "taken": 0 }]));
    assert_eq!(limits["paused"][0]["name"], "example.com");
    assert!(limits["paused"][0]["resumes_in"].as_f64().unwrap() > 3500.0);
    served.post("/v1/tubes/pages/resume?sub_queue=example.com", "").expect(200);
    served.call("DELETE", "/v1/limits/example.org", &[], b"").expect(204);
    assert_eq!(served.get("/v1/limits").expect(200), json!({ "limits": [], "paused": [] }));
    assert_eq!(served.json("PUT", "/v1/limits/x", &json!({})).refused(400), "invalid");
}

#[test]
fn tube_is_paused_altered_and_emptied() {
    let served = Served::new();
    served.store.find_tube("jobs").unwrap().put("x").unwrap();
    assert_eq!(served.post("/v1/tubes/jobs/pause?for=1h", "").expect(200)["paused"], true);
    assert_eq!(served.post("/v1/tubes/jobs/take", "").refused(400), "invalid");
    assert_eq!(served.post("/v1/tubes/jobs/take?hold=1m", "").expect(200)["tasks"], json!([]));
    assert_eq!(served.post("/v1/tubes/jobs/resume", "").expect(200)["paused"], false);
    let altered = served.json("PATCH", "/v1/tubes/jobs", &json!({ "ttr": "5m" })).expect(200);
    assert_eq!((&altered["ttr"], &altered["keep_done"]), (&json!(300.0), &json!("all")));
    assert_eq!((&altered["calls"]["put"], &altered["tasks"]["ready"]), (&json!(1), &json!(1)));
    assert_eq!(served.post("/v1/tubes/jobs/pause?for=0", "").refused(400), "invalid");
    let driver = json!({ "driver": "fifo" });
    assert_eq!(served.json("PATCH", "/v1/tubes/jobs", &driver).refused(400), "invalid");
    let listed = served.get("/v1/backlog").expect(200)["tubes"][0].clone();
    assert_eq!((&listed["calls"]["put"], &listed["tasks"]["ready"]), (&json!(1), &json!(1)));
    assert!(listed["oldest_ready"].as_f64().is_some_and(|age| age >= 0.0), "{listed}");
    assert_eq!((&listed["waiting_takes"], &listed["waiting_puts"]), (&json!(0), &json!(0)));
    served.post(&format!("/v1/claims/{}/ack", served.take()), "").expect(200);
    served.store.find_tube("jobs").unwrap().put("y").unwrap();
    // A kept task, too.
    assert_eq!(served.post("/v1/tubes/jobs/truncate", "").expect(200)["changed"], 2);
    assert_eq!(served.get("/v1/tubes/jobs").expect(200)["total"], 0);
}

#[test]
fn days_of_a_tube_with_metrics_are_told() {
    let served = Served::new();
    assert_eq!(served.get("/v1/tubes/jobs/days").expect(200), json!({ "days": [] }));
    let counted = served.store.create_tube("counted", TubeOptions::new().metrics(30)).unwrap();
    counted.put("x").unwrap();
    counted.try_take().unwrap().unwrap().ack().unwrap();
    let days = served.get("/v1/tubes/counted/days?last=2").expect(200);
    assert_eq!((&days["days"][0]["puts"], &days["days"][0]["acks"]), (&json!(1), &json!(1)));
    assert_eq!(served.get("/v1/tubes/counted/days?last=0").refused(400), "invalid");
}

#[test]
fn backlog_is_read_in_pages() {
    let served = Served::new();
    for name in ["a", "b & c", "z"] {
        served.store.tube(name).unwrap();
    }
    let names = |page: &Value| -> Vec<String> {
        let tubes = page["tubes"].as_array().unwrap().iter();
        tubes.map(|tube| tube["tube"].as_str().unwrap().to_owned()).collect()
    };
    let all = names(&served.get("/v1/backlog").expect(200));
    assert!(all.len() >= 4 && all.is_sorted(), "{all:?}");
    let (mut told, mut after) = (Vec::new(), String::new());
    loop {
        let page = served.get(&format!("/v1/backlog?limit=2{after}")).expect(200);
        told.extend(names(&page));
        let Some(next) = page["next"].as_str() else { break };
        assert_eq!(told.last().map(String::as_str), Some(next));
        after = format!("&after={}", next.replace(' ', "%20").replace('&', "%26"));
    }
    assert_eq!(told, all);
    assert_eq!(names(&served.get("/v1/backlog?after=b%20%26%20c").expect(200)), all[2..]);
    for path in ["after=zz", "after=zz&limit=5"] {
        let page = served.get(&format!("/v1/backlog?{path}")).expect(200);
        assert_eq!(page, json!({ "tubes": [], "next": null }), "{path}");
    }
    // A client that pages with no tube a page would not end.
    for limit in [0, 1001] {
        let path = format!("/v1/backlog?limit={limit}");
        assert_eq!(served.get(&path).refused(400), "invalid", "{limit}");
    }
}

/// All references of the description lead somewhere, and all its calls have an answer and refusals.
#[test]
fn description_of_the_calls_is_whole() {
    let served = Served::new();
    let description = served.get("/openapi.json").expect(200);
    assert_eq!(description["openapi"], "3.1.0");
    let text = description.to_string();
    let references: BTreeSet<&str> = text
        .split("\"$ref\":\"#/components/schemas/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(references.contains("Task"), "{references:?}");
    for name in references {
        assert!(description["components"]["schemas"][name].is_object(), "{name}");
    }
    let paths = description["paths"].as_object().unwrap();
    let mut operations = BTreeSet::new();
    for (path, call) in paths
        .iter()
        .flat_map(|(path, calls)| calls.as_object().unwrap().values().map(move |call| (path, call)))
    {
        let answers = call["responses"].as_object().unwrap();
        assert!(answers.contains_key("default") && answers.len() > 1, "{path}");
        assert!(!call["summary"].as_str().unwrap_or_default().is_empty(), "{path}");
        assert!(operations.insert(call["operationId"].as_str().unwrap()), "{path}");
        let named: BTreeSet<&str> = call["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        let of_path: BTreeSet<&str> =
            path.split('{').skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
        assert_eq!(named, of_path, "{path}");
    }
    assert_eq!(paths["/v1/tubes"]["get"]["tags"][0], Value::from("tubes"));
}

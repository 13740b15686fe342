//! Schedules.

use std::time::Duration;

use serde_json::json;
use tubewell::Put;

use super::client::Served;

#[test]
fn schedule_is_stored_changed_and_removed() {
    let served = Served::new();
    let path = "/v1/tubes/jobs/schedules/nightly";
    let schedule = json!({
        "cron": "30 3 * * *", "zone": "Europe/Berlin", "missed": "all", "overlap": "skip",
        "data": "tidy", "priority": 7, "tags": ["t"],
    });
    served.json("PUT", path, &schedule).expect(200);
    let listed = served.get("/v1/schedules").expect(200);
    let shown = &listed["schedules"][0];
    assert_eq!((&shown["schedule"], &shown["tube"]), (&json!("nightly"), &json!("jobs")));
    assert_eq!((&shown["cron"], &shown["zone"]), (&json!("30 3 * * *"), &json!("Europe/Berlin")));
    assert_eq!((&shown["missed"], &shown["overlap"]), (&json!("all"), &json!("skip")));

    // What is left out stays: the zone of another expression, and the expression in another zone.
    for (change, cron, zone) in [
        (json!({ "cron": "0 5 * * *" }), "0 5 * * *", "Europe/Berlin"),
        (json!({ "zone": "Asia/Tokyo" }), "0 5 * * *", "Asia/Tokyo"),
    ] {
        served.json("PATCH", "/v1/schedules/nightly", &change).expect(200);
        let shown = served.get("/v1/schedules").expect(200)["schedules"][0].clone();
        assert_eq!((&shown["cron"], &shown["zone"]), (&json!(cron), &json!(zone)));
    }
    let change = json!({ "every": "1d", "times": 3, "within": 60, "priority": 8 });
    served.json("PATCH", "/v1/schedules/nightly", &change).expect(200);
    let listed = served.get("/v1/tubes/jobs/schedules").expect(200);
    let shown = &listed["schedules"][0];
    assert_eq!((&shown["every"], &shown["times"]), (&json!(86400.0), &json!(3)));
    assert_eq!((&shown["within"], &shown["tags"]), (&json!(60.0), &json!(["t"])));
    let without = json!({ "times": null, "within": null });
    served.json("PATCH", "/v1/schedules/nightly", &without).expect(200);
    let shown = served.get("/v1/schedules").expect(200)["schedules"][0].clone();
    assert!(shown["times"].is_null() && shown["within"].is_null());

    let starting = json!({ "starting": "2100-01-01T00:00:00Z" });
    served.json("PATCH", "/v1/schedules/nightly", &starting).expect(200);
    let shown = served.get("/v1/schedules").expect(200)["schedules"][0].clone();
    assert!(shown["next"].as_str().unwrap().starts_with("2100-01-01"), "{shown}");

    served.post("/v1/schedules/nightly/run", "").expect(201);
    let taken = served.post("/v1/tubes/jobs/take?hold=60s", "").expect(200);
    assert_eq!(
        (&taken["tasks"][0]["data"], &taken["tasks"][0]["priority"]),
        (&json!("tidy"), &json!(8))
    );
    served.call("DELETE", "/v1/schedules/nightly", &[], b"").expect(204);
    assert_eq!(served.get("/v1/schedules").expect(200)["schedules"], json!([]));
}

#[test]
fn schedule_that_cannot_be_is_refused() {
    let served = Served::new();
    let path = "/v1/tubes/jobs/schedules/k";
    for wrong in [
        json!({ "data": "x" }),
        json!({ "every": "1m" }),
        json!({ "every": "1m", "cron": "* * * * *", "data": "x" }),
        json!({ "cron": "61 * * * *", "data": "x" }),
        json!({ "cron": "* * * * *", "zone": "Mars/Base", "data": "x" }),
        json!({ "every": "1m", "data": "x", "key": "k" }),
        json!({ "every": "1m", "data": "x", "oncee": true }),
        json!({ "every": "1m", "data": "x", "overlap": "maybe" }),
        json!({ "every": "1m", "data": "x", "starting": "soon" }),
        json!({ "every": "1m", "data": "x", "zone": "UTC" }),
        json!({ "every": "never", "data": "x" }),
        json!([1]),
    ] {
        assert_eq!(served.json("PUT", path, &wrong).refused(400), "invalid", "{wrong}");
    }
    let listed = served.get("/v1/schedules").expect(200);
    assert_eq!(listed, json!({ "schedules": [], "more": false, "damaged": 0 }));
    let change = json!({ "every": "1m" });
    assert_eq!(served.json("PATCH", "/v1/schedules/k", &change).refused(404), "key_not_found");
    served.json("PUT", path, &json!({ "every": "1m", "data": "x" })).expect(200);
    for wrong in [json!({}), json!({ "zone": "UTC" })] {
        let refused = served.json("PATCH", "/v1/schedules/k", &wrong);
        assert_eq!(refused.refused(400), "invalid", "{wrong}");
    }
    served.call("DELETE", "/v1/schedules/k", &[], b"").expect(204);
    served.store.find_tube("jobs").unwrap().put(Put::new("x").key("k")).unwrap();
    let refused = served.json("PATCH", "/v1/schedules/k", &change);
    assert_eq!(refused.status, 404);
    assert_eq!(served.call("DELETE", "/v1/schedules/k", &[], b"").status, 404);
}

#[test]
fn null_resets_an_option_of_the_task_of_a_schedule() {
    let served = Served::new();
    let schedule = json!({ "every": "1h", "data": "x", "ttl": "2h", "priority": 7, "tags": ["t"] });
    served.json("PUT", "/v1/tubes/jobs/schedules/k", &schedule).expect(200);
    let change = json!({ "ttl": null, "tags": null, "ttr": 60 });
    served.json("PATCH", "/v1/schedules/k", &change).expect(200);
    let schedule = served.store.schedule("k").unwrap().unwrap();
    assert_eq!((schedule.ttl, schedule.tags.len(), schedule.priority), (None, 0, Some(7)));
    assert_eq!(schedule.ttr, Some(Duration::from_secs(60)));
}

#[test]
fn concurrent_changes_of_a_schedule_are_all_made() {
    let served = Served::new();
    let schedule = json!({ "every": "1h", "data": "x" });
    served.json("PUT", "/v1/tubes/jobs/schedules/k", &schedule).expect(200);
    let change = |field: &str| {
        let mut client = served.client();
        for number in 1..=100 {
            let change = json!({ field: number }).to_string();
            client.call("PATCH", "/v1/schedules/k", &[], change.as_bytes()).expect(200);
            let schedule = served.store.schedule("k").unwrap().unwrap();
            let is = match field {
                "priority" => schedule.priority,
                _ => schedule.max_attempts,
            };
            assert_eq!(is, Some(number), "{field}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| change("priority"));
        scope.spawn(|| change("max_attempts"));
    });
}

#[test]
fn field_that_a_schedule_has_twice_is_refused() {
    let served = Served::new();
    for twice in ["\"data\": \"x\", \"data\": \"y\"", "\"data\": \"x\", \"every\": 1"] {
        let content = format!("{{\"every\": 60, {twice}}}");
        let path = "/v1/tubes/jobs/schedules/k";
        let refused = served.call("PUT", path, &[], content.as_bytes());
        assert_eq!(refused.refused(400), "invalid", "{content}");
    }
}

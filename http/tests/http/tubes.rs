//! Tubes.

use serde_json::json;

use super::client::Served;

#[test]
fn tubes_are_opened_listed_and_dropped() {
    let served = Served::new();
    let options = json!({"driver": "fifo", "max_attempts": 3});
    let opened = served.json("PUT", "/v1/tubes/a%2Fb", &options).expect(200);
    assert_eq!((&opened["tube"], &opened["driver"]), (&json!("a/b"), &json!("fifo")));
    assert_eq!(opened["max_attempts"], 3);
    let again = served.call("PUT", "/v1/tubes/a%2Fb", &[], b"").expect(200);
    assert_eq!(again, opened);
    served.post("/v1/tubes/a%2Fb/tasks", "x").expect(201);
    let tubes = served.get("/v1/tubes").expect(200);
    assert_eq!(tubes["tubes"].as_array().unwrap().len(), 2);
    assert_eq!(served.get("/v1/tubes/a%2Fb").expect(200)["tasks"]["ready"], 1);
    let other = json!({"driver": "utube"});
    assert_eq!(served.json("PUT", "/v1/tubes/a%2Fb", &other).refused(409), "tube_differs");
    served.call("DELETE", "/v1/tubes/a%2Fb", &[], b"").expect(204);
    assert_eq!(served.get("/v1/tubes/a%2Fb").refused(404), "tube_not_found");
    let unknown = served.json("PUT", "/v1/tubes/c", &json!({"max_atempts": 3}));
    assert_eq!(unknown.refused(400), "invalid");
    assert_eq!(served.get("/v1/tubes/c").refused(404), "tube_not_found");
}

#[test]
fn option_that_a_tube_has_twice_is_refused() {
    let served = Served::new();
    for content in [r#"{"ttr": "5m", "ttr": "6m"}"#, r#"{"driver": "fifo", "driver": "utube"}"#] {
        for method in ["PUT", "PATCH"] {
            let refused = served.call(method, "/v1/tubes/jobs", &[], content.as_bytes());
            assert_eq!(refused.refused(400), "invalid", "{method} {content}");
        }
    }
}

//! Descriptions of the library's own values, as `OpenAPI` has them.
#![expect(missing_docs, reason = "the library documents the fields")]

use utoipa::ToSchema;

/// The state of a task.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
pub enum TaskState {
    Ready,
    Taken,
    Delayed,
    Blocked,
    Buried,
    Done,
    Recurring,
}

/// The value of an option of a tube: a text such as `10m` or `write(50ms)`, a number, which is one of seconds for
/// times, or a flag. Null is what the lack of a value means.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum OptionValue {
    Text(String),
    Number(f64),
    Flag(bool),
    None,
}

/// A body: `data` if it is UTF-8, otherwise `data_base64`. Left out of a listing without bodies.
#[derive(ToSchema)]
pub struct Body {
    #[schema(nullable = false)]
    pub data: Option<String>,
    #[schema(nullable = false)]
    pub data_base64: Option<String>,
}

/// A result: `result` if it is UTF-8 or none, otherwise `result_base64`.
#[derive(ToSchema)]
pub struct ResultBytes {
    pub result: Option<String>,
    #[schema(nullable = false)]
    pub result_base64: Option<String>,
}

/// How far the holder of a task has come.
#[derive(ToSchema)]
pub struct Progress {
    pub done: u64,
    /// 0 if the holder does not know.
    pub total: u64,
    #[schema(required)]
    pub text: Option<String>,
}

/// How far the tasks are that a task waits for.
#[derive(ToSchema)]
pub struct ParentCounts {
    pub total: u64,
    pub done: u64,
    pub failed: u64,
    pub open: u64,
    pub taken: u64,
    pub buried: u64,
}

/// The number of tasks in each state.
#[derive(ToSchema)]
pub struct TaskCounts {
    pub ready: u64,
    pub taken: u64,
    pub delayed: u64,
    pub blocked: u64,
    pub buried: u64,
    pub recurring: u64,
    pub kept: u64,
    pub total: u64,
}

/// What a change has done: the task, its state after it, and the number of the commit.
#[derive(ToSchema)]
pub struct Receipt {
    pub id: u64,
    pub state: TaskState,
    pub commit: u64,
}

//! The steps of a task as JSON, in both directions.

use serde::{Deserialize, Serialize};
use tubewell::{Step, StepKind};

use crate::record::text_or_base64;

/// A step.
#[derive(Debug, Serialize)]
pub struct StepRecord<'a> {
    name: &'a str,
    kind: &'static str,
    #[serde(flatten)]
    value: ValueBytes<'a>,
}

/// The value of a step, in the field `value` or `value_base64`.
#[derive(Debug, Serialize)]
enum ValueBytes<'a> {
    #[serde(rename = "value")]
    Text(&'a str),
    #[serde(rename = "value_base64")]
    Bytes(String),
}

impl ValueBytes<'_> {
    fn new(bytes: &[u8]) -> ValueBytes<'_> {
        text_or_base64(bytes).map_or_else(ValueBytes::Bytes, ValueBytes::Text)
    }
}

/// A step of an exported task.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepLine {
    name: String,
    kind: String,
    value: Option<String>,
    value_base64: Option<String>,
}

impl StepRecord<'_> {
    pub fn new(step: &Step) -> StepRecord<'_> {
        let value = ValueBytes::new(&step.value);
        StepRecord { name: &step.name, kind: step.kind.as_str(), value }
    }
}

impl StepLine {
    /// The step of this line.
    pub fn step(self) -> Result<Step, String> {
        let kind: StepKind =
            self.kind.parse().map_err(|why| format!("kind of one of its steps: {why}"))?;
        let value = crate::record::bytes("value", self.value, self.value_base64)?;
        let value = value.ok_or_else(|| "a step has neither value nor value_base64".to_owned())?;
        Ok(Step::new(self.name, kind, value))
    }
}

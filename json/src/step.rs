//! The steps of a task as JSON, in both directions.
#![expect(missing_docs, reason = "docs/command.md documents the fields")]

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tubewell::expert::{Step, StepKind};

use crate::record::{bytes, text_and_base64};

/// A step. Its value is text or in base64.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Step))]
#[serde(deny_unknown_fields)]
pub struct StepRecord<'a> {
    name: Cow<'a, str>,
    kind: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<Cow<'a, str>>,
}

impl StepRecord<'_> {
    pub fn new(step: &Step) -> StepRecord<'_> {
        let (value, value_base64) = text_and_base64(&step.value);
        let kind = step.kind.to_string().into();
        StepRecord { name: step.name.as_str().into(), kind, value, value_base64 }
    }

    /// The step of this line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn step(self) -> Result<Step, String> {
        let kind: StepKind =
            self.kind.parse().map_err(|why| format!("kind of one of its steps: {why}"))?;
        let value = bytes("value", self.value, self.value_base64)?;
        let value = value.ok_or_else(|| "a step has neither value nor value_base64".to_owned())?;
        Ok(Step::new(self.name, kind, value))
    }
}

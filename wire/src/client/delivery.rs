//! What a frame of the server means for the calls.

use super::calls::{Caller, Found};
use super::connector::State;
use super::greeting::refusal_text;
use super::inbox::Delivery;
use crate::error::CallError;
use crate::frame::{Frame, Kind};
use crate::sync::Arc;

/// Takes one frame of the server. An error breaks the connection.
pub(super) fn take_frame(
    state: &mut State,
    frame: Frame<'_>,
    deliveries: &mut Vec<Delivery>,
) -> Result<(), String> {
    let Frame { kind, number, body } = frame;
    match kind {
        Kind::Answer | Kind::Tracked => {
            let Found::Caller { caller, in_doubt } = state.calls.ended(number) else {
                return Err(unknown(number));
            };
            state.received += u64::from(kind == Kind::Tracked);
            match caller {
                Caller::Call(slot) if in_doubt => {
                    deliveries.push(Delivery::AnswerInDoubt(slot, body.to_vec()));
                }
                Caller::Call(slot) => deliveries.push(Delivery::Answer(slot, Ok(body.to_vec()))),
                Caller::Gone => deliveries.push(Delivery::Orphan(body.to_vec())),
                Caller::Items(buffer) => {
                    let fits = buffer.push(body.to_vec());
                    deliveries.push(Delivery::End(buffer, None));
                    if !fits {
                        return Err("the server sent more items than it may".to_owned());
                    }
                }
            }
            Ok(())
        }
        Kind::Item => match state.calls.caller(number) {
            Some(Caller::Items(buffer)) if buffer.push(body.to_vec()) => {
                let last = deliveries.last();
                if !matches!(last, Some(Delivery::Items(last)) if Arc::ptr_eq(last, buffer)) {
                    deliveries.push(Delivery::Items(buffer.clone()));
                }
                Ok(())
            }
            Some(Caller::Items(_)) => Err("the server sent more items than it may".to_owned()),
            // Sent before the server knew that they are not wanted.
            Some(Caller::Gone) => Ok(()),
            Some(Caller::Call(_)) => {
                // The call is over only when the server knows that no more items are wanted.
                if let Some(Caller::Call(slot)) = state.calls.disown(number) {
                    let why = "the server answered with many items".to_owned();
                    deliveries.push(Delivery::Answer(slot, Err(CallError::Broken { why })));
                }
                state.calls.cancel(number, &mut state.outbox);
                Ok(())
            }
            None => Err(unknown(number)),
        },
        Kind::End => {
            let Found::Caller { caller, .. } = state.calls.ended(number) else {
                return Err(unknown(number));
            };
            let why = String::from_utf8_lossy(body).into_owned();
            match caller {
                Caller::Call(slot) => {
                    let why =
                        if why.is_empty() { "the server ended the call".to_owned() } else { why };
                    deliveries.push(Delivery::Answer(slot, Err(CallError::Broken { why })));
                }
                Caller::Items(buffer) => {
                    let error = (!why.is_empty()).then_some(CallError::Broken { why });
                    deliveries.push(Delivery::End(buffer, error));
                }
                Caller::Gone => {}
            }
            Ok(())
        }
        Kind::Refused => Err(refusal_text(body)),
        kind => Err(format!("a server may not send {kind:?}")),
    }
}

fn unknown(number: u64) -> String {
    format!("the server answered call {number}, which was not made")
}

//! The encoding of answers.

use super::basic::Wire;
use super::input::{Input, Malformed};
use super::macros::wire_struct;
use crate::Error;
use crate::core::answer::Answer;
use crate::core::days::FailedStep;
use crate::core::verbs::{FindStep, MoveStep, SelectStep, StepPage};

wire_struct! { MoveStep { moved, next } }
wire_struct! { SelectStep { changed, bound, next } }
wire_struct! { FindStep { task, next } }
wire_struct! { StepPage { steps, is_last } }
wire_struct! { FailedStep { days, next } }

/// The number of an answer that is no value. It does not decode.
const NO_VALUE: u8 = 255;

macro_rules! wire_answer {
    (
        $($number:literal => $variant:ident $(($($item:ident),*))?),* $(,)?
        no value: $($refused:ident),* $(,)?
    ) => {
        /// An answer with slots or signals of this process is no value: in a `Result` it becomes
        /// [`Error::Io`], and alone it does not decode. The caller encodes what came of it instead: a
        /// [`Grant`](crate::core::Grant), or an ending.
        impl Wire for Answer {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Answer::$variant $(($($item),*))? => {
                        out.push($number);
                        $($($item.put(out);)*)?
                    })*
                    $(Answer::$refused(..))|* => out.push(NO_VALUE),
                }
            }

            fn get(input: &mut Input<'_>) -> Result<Answer, Malformed> {
                match input.byte()? {
                    $($number => {
                        $($(let $item = Wire::get(input)?;)*)?
                        Ok(Answer::$variant $(($($item),*))?)
                    })*
                    _ => Err(Malformed::Invalid("an unknown number of Answer")),
                }
            }

            fn refusal(&self) -> Option<Error> {
                let name = match self {
                    $(Answer::$refused(..) => stringify!($refused),)*
                    _ => return None,
                };
                Some(Error::Io { what: format!("an answer to another process has no {name}") })
            }
        }

        #[cfg(test)]
        impl super::tests::Numbered for Answer {
            const VARIANTS: &'static [(u8, &'static str)] =
                &[$(($number, stringify!($variant))),*];

            fn sample_of(number: u8, random: &mut super::tests::Random) -> Answer {
                match number {
                    $($number => {
                        $($(let $item = super::tests::Sample::sample(random);)*)?
                        Answer::$variant $(($($item),*))?
                    })*
                    _ => panic!("no variant {number}"),
                }
            }
        }
    };
}

wire_answer! {
    0 => Done,
    1 => Receipt(receipt),
    3 => Acks(acks),
    4 => Owner(owner),
    6 => Count(count),
    8 => Moved(step),
    9 => SelectStep(step),
    10 => Released(count, outcome),
    15 => TaskInfos(tasks),
    20 => Step(value),
    21 => Steps(steps),
    22 => Bool(value),
    35 => SomeSteps(steps),
    no value: Chosen, EndSignal
}

//! Both directions of an encoding from one list.
//!
//! A field or a variant that is missing in a list does not compile. The numbers of the variants are
//! the protocol: they never change, and a number is not used again.

/// Implements `Wire` for a struct: its fields, in the order of the list. Fields that are not sent get
/// the given values. `at most`: how many of them a list of a request may have, if not the usual number.
macro_rules! wire_struct {
    (
        $type:ident { $($field:ident),* $(,)? }
        $(without { $($unsent:ident: $value:expr),* })?
        $(at most $most:expr)?
    ) => {
        impl $crate::core::wire::Wire for $type {
            $(const MOST: usize = $most;)?

            fn put(&self, out: &mut Vec<u8>) {
                // A type without fields has no bytes.
                let _ = &out;
                let $type { $($field,)* $($($unsent: _),*)? } = self;
                let _ = &out;
                $($crate::core::wire::Wire::put($field, out);)*
            }

            fn get(
                input: &mut $crate::core::wire::Input<'_>,
            ) -> Result<Self, $crate::core::wire::Malformed> {
                let _ = &input;
                $(let $field = $crate::core::wire::Wire::get(input)?;)*
                Ok($type { $($field,)* $($($unsent: $value),*)? })
            }
        }

        #[cfg(test)]
        impl $crate::core::wire::tests::Sample for $type {
            fn sample(random: &mut $crate::core::wire::tests::Random) -> Self {
                let _ = &random;
                $(let $field = $crate::core::wire::tests::Sample::sample(random);)*
                $type { $($field,)* $($($unsent: $value),*)? }
            }
        }
    };
}

/// Implements `Wire` for an enum: the number of the variant, and its fields. `field: Type` is sent as
/// this type, which converts from a reference and back.
macro_rules! wire_enum {
    ($type:ident {
        $(
            $number:literal => $variant:ident $(($($item:ident),*))?
                $({ $($field:ident $(: $sent:ident)?),* })?
        ),*
        $(,)?
    }) => {
        impl $crate::core::wire::Wire for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($type::$variant $(($($item),*))? $({ $($field),* })? => {
                        out.push($number);
                        $($($crate::core::wire::Wire::put($item, out);)*)?
                        $($(
                            $(let $field = &$sent::from($field);)?
                            $crate::core::wire::Wire::put($field, out);
                        )*)?
                    })*
                }
            }

            fn get(
                input: &mut $crate::core::wire::Input<'_>,
            ) -> Result<Self, $crate::core::wire::Malformed> {
                match input.byte()? {
                    $($number => {
                        $($(let $item = $crate::core::wire::Wire::get(input)?;)*)?
                        $($(
                            let $field = $crate::core::wire::Wire::get(input)?;
                            $(let $field = <$sent>::into($field);)?
                        )*)?
                        Ok($type::$variant $(($($item),*))? $({ $($field),* })?)
                    })*
                    _ => Err($crate::core::wire::Malformed::Invalid(concat!(
                        "an unknown number of ",
                        stringify!($type)
                    ))),
                }
            }
        }

        #[cfg(test)]
        impl $crate::core::wire::tests::Numbered for $type {
            const VARIANTS: &'static [(u8, &'static str)] =
                &[$(($number, stringify!($variant))),*];

            fn sample_of(number: u8, random: &mut $crate::core::wire::tests::Random) -> Self {
                let _ = &random;
                match number {
                    $($number => {
                        $($(let $item = $crate::core::wire::tests::Sample::sample(random);)*)?
                        $($(
                            let $field = $crate::core::wire::tests::Sample::sample(random);
                            $(let $field = <$sent>::into($field);)?
                        )*)?
                        $type::$variant $(($($item),*))? $({ $($field),* })?
                    })*
                    _ => panic!("no variant {number}"),
                }
            }
        }

        #[cfg(test)]
        impl $crate::core::wire::tests::Sample for $type {
            fn sample(random: &mut $crate::core::wire::tests::Random) -> Self {
                $crate::core::wire::tests::any_variant(random)
            }
        }
    };
}

pub(in crate::core) use wire_enum;
pub(in crate::core) use wire_struct;

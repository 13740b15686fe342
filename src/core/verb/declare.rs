//! How a verb is declared.

/// Declares a verb: its number, what it is made on, its kind, its name and fields, its answer, and what
/// is not as usual for it.
macro_rules! verb {
    (
        $(#[$doc:meta])*
        $number:literal $on:ident $kind:ident:
        $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? } -> $answer:ty
        $({ $($item:tt)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {
            $($(#[$field_doc])* pub(crate) $field: $type,)*
        }

        $crate::core::wire::wire_struct! { $name { $($field),* } }

        impl $crate::core::verb::Verb for $name {
            type On = $crate::core::verb::$on;
            type Answer = $answer;
            const NUMBER: u8 = $number;
            const KIND: $crate::core::verb::Kind = $crate::core::verb::Kind::$kind;

            $($($item)*)?
        }
    };
}

pub(in crate::core) use verb;

//! What is derived from the list of options: the types that have them, and their conversions.

use std::fmt;
use std::time::Duration;

use tubewell_drivers::{HISTORY_MAX, Traits};

use super::checks::{METRICS_MAX, above_zero, at_most, check_cooldown, check_max_attempts};
use super::list::tube_options;
use super::stored::{self, PAUSED};
use super::times::{limited, whole};
use super::value::OptionValue::{self, Number, Without};
use super::value::{InEffect, Value, given, value_or};
use crate::events::Callback;
use crate::{Backoff, Counting, DEFAULT_PRIORITY, Durability, Error, Keep, Rate, Result};

/// A name and a refusal that an entry may override: the first of the given ones.
macro_rules! first {
    ($first:expr $(, $rest:expr)*) => {
        $first
    };
}

macro_rules! declare {
    ($(
        $(#[$docs:meta])*
        $name:ident($value:ident: $given:ty) -> $in_effect:ty {
            $(#[$info:meta])*
            $(or $or:expr,)?
            $(default $default:expr,)?
            $(named $named:literal,)?
            $(in_effect $kept:expr,)?
            $(check $check:expr,)?
            $(needs $needs:ident $what:literal $(unless $nothing:expr)?,)?
            $(never $altered:ident,)?
            $(stored $number:literal,)?
        }
    )*) => {
        /// The options of a tube, and its driver. The store keeps all of them except the callback.
        ///
        /// They know which of them were named. [`create_tube`](crate::Store::create_tube) gives the others
        /// their defaults; [`open_tube`](crate::Store::open_tube) and
        /// [`alter`](crate::Admin::alter) leave the others of a tube that exists as they are.
        ///
        /// [`Unsupported`](crate::Error::Unsupported) is returned if the driver does not have one of the
        /// options. Times are rounded up to microseconds; `Duration::MAX` is without a limit.
        ///
        /// # Example
        /// ```
        /// use std::time::Duration;
        /// use tubewell::{Error, FIFO, LIMFIFOTTL, Store, TubeOptions};
        ///
        /// let store = Store::in_memory()?;
        /// let options = TubeOptions::new()
        ///     .driver(LIMFIFOTTL)
        ///     .capacity(1000)
        ///     .ttr(Duration::from_secs(60)) // a worker has a minute
        ///     .ttl(Duration::from_secs(86_400)); // and the task a day
        /// store.open_tube("uploads", options.clone())?;
        /// let plain = store.open_tube("plain", options.driver(FIFO));
        /// assert!(matches!(plain, Err(Error::Unsupported { .. })));
        /// # Ok::<(), Error>(())
        /// ```
        #[derive(Clone, Default)]
        pub struct TubeOptions {
            pub(crate) driver: Option<String>,
            // `Some(None)` names the default.
            $(pub(crate) $name: Option<Option<$given>>,)*
            pub(crate) callback: Option<Callback>,
        }

        /// A tube of the catalog: its options, and the calls that wait in it.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub struct TubeInfo {
            /// Its name.
            pub name: String,
            /// Its driver.
            pub driver: String,
            /// Whether its driver is registered. If not, puts and takes return
            /// [`DriverUnknown`](crate::Error::DriverUnknown).
            pub usable: bool,
            $(
                $(#[$info])*
                #[cfg_attr(feature = "serde", serde(default))]
                pub $name: $in_effect,
            )*
            /// Whether it is [paused](crate::Admin::pause), so that none of its tasks can be taken.
            #[cfg_attr(feature = "serde", serde(default))]
            pub paused: bool,
            /// When its pause ends; `None` without a limit, or if it is not paused.
            #[cfg_attr(feature = "serde", serde(default))]
            pub resumes_in: Option<Duration>,
            /// The number of takes that wait for a task.
            pub waiting: u64,
            /// The number of puts that wait for space.
            pub waiting_puts: u64,
        }

        /// The options of a tube as they are in effect, and its pause. What acts on an option reads it
        /// here. Times are whole microseconds.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) struct Policies {
            $(pub(crate) $name: $in_effect,)*
            /// Until when no task may be taken, on the timeline; `NEVER` without an end. It is a state
            /// of the tube and no option: an alter leaves it as it is.
            pub(crate) paused: Option<u64>,
        }

        impl TubeOptions {
            $(
                $(#[$docs])*
                #[must_use]
                pub fn $name(mut self, $value: $given) -> TubeOptions {
                    self.$name = Some(Some($value));
                    self
                }
            )*

            /// Sets an option by its name, as a configuration file or a command line has it:
            /// [`given`](TubeOptions::given) has the names and the values. A name that no option has is
            /// an error; [`OptionValue::Without`] names the default, so that an alter goes back to it.
            ///
            /// # Errors
            /// [`Invalid`](Error::Invalid): there is no such option, or its type does not have this value.
            /// The limits of the values are checked when a tube gets them.
            ///
            /// # Example
            /// ```
            /// use tubewell::{Store, TubeOptions};
            ///
            /// let mut options = TubeOptions::new();
            /// for (name, value) in [("ttr", "1m30s"), ("max_attempts", "5"), ("backoff", "10s")] {
            ///     options = options.set(name, value)?;
            /// }
            /// let jobs = Store::in_memory()?.open_tube("jobs", options)?;
            /// assert_eq!(jobs.info()?.max_attempts, Some(5));
            /// # Ok::<(), tubewell::Error>(())
            /// ```
            pub fn set(mut self, name: &str, value: impl Into<OptionValue>) -> Result<TubeOptions> {
                let value = value.into();
                $(if name == stringify!($name) {
                    self.$name = Some(given(name, value)?);
                    return Ok(self);
                })*
                let known = [$(stringify!($name)),*].join(", ");
                Err(Error::invalid(format!("a tube has no option {name:?}; it has {known}")))
            }

            /// The options that were given, by name. Not among them are the driver,
            /// and options that [`set`](TubeOptions::set) has set back to their defaults.
            ///
            /// # Example
            /// ```
            /// use tubewell::expert::OptionValue;
            /// use tubewell::TubeOptions;
            ///
            /// let options = TubeOptions::new().max_taken(2);
            /// let given: Vec<_> = options.given().collect();
            /// assert_eq!(given, [("max_taken", OptionValue::Number(2))]);
            /// ```
            pub fn given(&self) -> impl Iterator<Item = (&'static str, OptionValue)> + use<> {
                let values = [$(
                    self.$name.flatten().map(|value| (stringify!($name), Value::value(&value))),
                )*];
                values.into_iter().flatten()
            }

            /// Whether an option is named. The driver is none.
            pub(crate) fn name_any(&self) -> bool {
                false $(|| self.$name.is_some())*
            }

            /// Refuses a value outside its limits.
            pub(super) fn check(&self) -> Result<()> {
                $($(if let Some($value) = self.$name.flatten() {
                    $check?;
                })?)*
                Ok(())
            }
        }

        impl TubeOptions {
            /// The first given option that needs what a driver does not have.
            pub(super) fn unsupported(&self, traits: Traits) -> Option<&'static str> {
                $($(if !traits.$needs
                    && self.$name.flatten().is_some() $(&& self.$name.flatten() != Some($nothing))?
                {
                    return Some($what);
                })?)*
                None
            }
        }

        /// The options of a tube for which none is given.
        impl Default for Policies {
            fn default() -> Policies {
                Policies::in_effect(&TubeOptions::new())
            }
        }

        impl Policies {
            /// The options in effect where these are given, without a look at the limits.
            pub(super) fn in_effect(options: &TubeOptions) -> Policies {
                Policies {
                    $($name: match options.$name.flatten() {
                        Some($value) => first!($($kept,)? Into::<$in_effect>::into($value)),
                        None => first!($($default,)? Default::default()),
                    },)*
                    paused: None,
                }
            }

            /// These options, but for those that `other` has and `options` name. The pause stays.
            pub(super) fn with_named(&self, options: &TubeOptions, other: &Policies) -> Policies {
                Policies {
                    $($name: if options.$name.is_some() { other.$name } else { self.$name },)*
                    paused: self.paused,
                }
            }

            /// The options that are not the default.
            pub(super) fn to_options(&self) -> TubeOptions {
                TubeOptions {
                    $($name: {
                        let default = first!($($default,)? Default::default());
                        InEffect::given(self.$name, default).map(Some)
                    },)*
                    ..TubeOptions::default()
                }
            }

            /// All options, by name.
            pub(super) fn values(&self) -> Vec<(&'static str, OptionValue)> {
                vec![$(
                    (stringify!($name), value_or(InEffect::value(self.$name), [$($or)?])),
                )*]
            }

            /// The description of a tube with these options, without its pause and its waits.
            pub(crate) fn info(&self, name: &str, driver: &str, usable: bool) -> TubeInfo {
                TubeInfo {
                    name: name.to_owned(),
                    driver: driver.to_owned(),
                    usable,
                    $($name: self.$name,)*
                    paused: false,
                    resumes_in: None,
                    waiting: 0,
                    waiting_puts: 0,
                }
            }
        }

        impl TubeInfo {
            /// The options in effect.
            pub(super) fn policies(&self) -> Policies {
                Policies { $($name: self.$name,)* paused: None }
            }
        }

        /// The names of the options in [`TubeDiffers`](Error::TubeDiffers), each with whether an alter
        /// may change it, in the order of [`values`](Policies::values).
        pub(super) const NAMES: &[(&str, bool)] = &[$(
            (first!($($named,)? stringify!($name)), first!($(stringify!($altered).is_empty(),)? true)),
        )*];

        impl stored::Numbered for TubeOptions {
            fn count(&self) -> u64 {
                0 $($(+ u64::from($number != PAUSED && self.$name.flatten().is_some()))?)*
            }

            fn put(&self, encoder: &mut impl bincode::enc::Encoder) -> stored::Encoded {
                $($(if let Some(Some(value)) = &self.$name {
                    stored::put($number, value, encoder)?;
                })?)*
                Ok(())
            }

            fn get(
                &mut self,
                number: u32,
                decoder: &mut impl bincode::de::Decoder,
            ) -> Result<(), bincode::error::DecodeError> {
                match number {
                    $($($number => self.$name = Some(Some(stored::Stored::get(decoder)?)),)?)*
                    _ => return Err(stored::damaged("an unknown option")),
                }
                Ok(())
            }
        }

        impl fmt::Debug for TubeOptions {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct("TubeOptions")
                    .field("driver", &self.driver)
                    $(.field(stringify!($name), &self.$name))*
                    .finish_non_exhaustive()
            }
        }
    };
}

tube_options!(declare);

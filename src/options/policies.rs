//! The options of a tube as they are in effect.

use std::time::Duration;

use tubewell_drivers::Traits;

use super::declare::{NAMES, Policies, TubeOptions};

use crate::{Error, Result};

impl Policies {
    /// The options of a tube with this driver.
    pub(crate) fn new(options: &TubeOptions, driver: &str, traits: Traits) -> Result<Policies> {
        options.check()?;
        if let Some(what) = options.unsupported(traits) {
            return Err(Error::Unsupported { what: what.into(), driver: driver.into() });
        }
        let mut policies = Policies::in_effect(options);
        if options.ttr.flatten().is_none() {
            policies.ttr = policies.ttl;
        }
        Ok(policies)
    }

    /// These options of a tube with this driver, with the named ones.
    pub(crate) fn altered(
        &self,
        options: &TubeOptions,
        driver: &str,
        traits: Traits,
    ) -> Result<Policies> {
        let mut altered = self.with_named(options, &Policies::new(options, driver, traits)?);
        // A ttr that is the default follows the ttl. The file does not tell it from one that is given.
        let is_default = options.ttr.map_or(self.ttr == self.ttl, |named| named.is_none());
        if is_default {
            altered.ttr = altered.ttl;
        }
        Ok(altered)
    }

    /// The options that lead to these.
    pub(super) fn options(&self) -> TubeOptions {
        let mut options = self.to_options();
        // A ttr without a limit is the default in a tube whose ttl has none.
        let ttr = options.ttr.flatten().or(options.ttl.flatten().map(|_| Duration::MAX));
        options.ttr = ttr.map(Some);
        options
    }

    /// The first difference that no alter removes, as a clause.
    pub(crate) fn lasting_difference(&self, other: &Policies) -> Option<String> {
        self.differences(other).find(|(altered, _)| !altered).map(|(_, clause)| clause)
    }

    fn differences(&self, other: &Policies) -> impl Iterator<Item = (bool, String)> + use<> {
        let pairs = self.values().into_iter().zip(other.values());
        let named = pairs.zip(NAMES).filter(|(((_, mine), (_, theirs)), _)| mine != theirs);
        named.map(|(((_, mine), (_, theirs)), (name, altered))| {
            (*altered, format!("its {name} is {mine}, not {theirs}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use tubewell_drivers::NEVER;

    use super::*;
    use crate::base::codec::{decode_row, encode_row};
    use crate::options::OptionValue;
    use crate::{Backoff, Counting, DEFAULT_PRIORITY, Durability, Keep, Rate};

    const ALL: Traits = Traits { timed: true, sub_queued: true, bounded: true };
    const NONE: Traits = Traits { timed: false, sub_queued: false, bounded: false };

    fn of(options: &TubeOptions) -> Policies {
        Policies::new(options, "all", ALL).unwrap()
    }

    /// A value of each option that is not the default.
    fn each() -> Vec<TubeOptions> {
        let second = Duration::from_secs(1);
        let options = TubeOptions::new;
        vec![
            options().temporary(true),
            options().durability(Durability::write()),
            options().capacity(7),
            options().ttl(second),
            options().ttr(second),
            options().priority(3),
            options().max_runtime(second),
            options().max_attempts(3),
            options().count_takes(Counting::Lazily),
            options().backoff(Backoff::exponential(second).jitter(0.25)),
            options().reclaim_delay(second),
            options().keep_done(Keep::new().age(second)),
            options().keep_buried(Keep::new().count(3)),
            options().max_taken(2),
            options().sub_queue_limit(2),
            options().shared_limits(true),
            options().sub_queue_rate(Rate::per(2, second)),
            options().sub_queue_cooldown(second),
            options().rate(Rate::per(3, second)),
            options().history(9),
            options().metrics(30),
        ]
    }

    #[test]
    fn difference_names_both_values() {
        let difference = |one: TubeOptions, other: TubeOptions| {
            let (_, clause) = of(&one).differences(&of(&other)).next().unwrap();
            clause.replacen("its ", "", 1).replacen(" is ", ": ", 1)
        };
        let second = Duration::from_secs(1);
        let options = TubeOptions::new;
        for (one, text) in [
            (options().ttl(second), "ttl: 1s, not unlimited"),
            (options().ttr(second), "ttr: 1s, not unlimited"),
            (options().priority(5), "priority: 5, not 100"),
            (options().capacity(5), "capacity: 5, not 0"),
            (options().temporary(true), "option temporary: true, not false"),
            (options().durability(Durability::Flush), "durability: flush, not the store's"),
            (options().max_runtime(second), "max_runtime: 1s, not unlimited"),
            (options().max_attempts(3), "max_attempts: 3, not unlimited"),
            (options().count_takes(Counting::Flushed), "count_takes: flushed, not written"),
            (options().backoff(Backoff::exponential(second)), "backoff: 1s,factor=2, not none"),
            (options().reclaim_delay(second * 90), "reclaim_delay: 90s, not none"),
            (options().keep_done(Keep::new()), "keep_done: all, not none"),
            (options().keep_buried(Keep::new().count(9)), "keep_buried: count=9, not all"),
            (options().max_taken(2), "max_taken: 2, not unlimited"),
            (options().sub_queue_limit(3), "sub_queue_limit: 3, not 1"),
            (options().shared_limits(true), "option shared_limits: true, not false"),
            (options().sub_queue_rate(Rate::per(3, second)), "sub_queue_rate: 3/1s, not unlimited"),
            (options().sub_queue_cooldown(second), "sub_queue_cooldown: 1s, not none"),
            (options().rate(Rate::per(5, second)), "rate: 5/1s, not unlimited"),
            (options().history(9), "history: 9, not 0"),
            (options().metrics(30), "metrics: 30, not 0"),
        ] {
            assert_eq!(difference(one, options()), text);
        }
    }

    /// The bytes behind the six options that every row has.
    fn numbered(policies: &Policies) -> Vec<u8> {
        let plain = encode_row(&(NEVER, NEVER, 0_u32, 0_u64, false, None::<u64>));
        encode_row(policies)[plain.len()..].to_vec()
    }

    #[test]
    fn option_has_its_number_in_the_row_and_the_default_no_bytes() {
        let number = |options: TubeOptions| numbered(&of(&options));
        let second = Duration::from_secs(1);
        assert_eq!(number(TubeOptions::new()), Vec::<u8>::new());
        assert_eq!(number(TubeOptions::new().max_runtime(second)), [1, 0, 252, 64, 66, 15, 0]);
        assert_eq!(number(TubeOptions::new().max_attempts(3)), [1, 1, 3]);
        assert_eq!(number(TubeOptions::new().count_takes(Counting::Flushed)), [1, 2, 1]);
        let backoff = Backoff::constant(Duration::from_micros(5)).cap(Duration::from_micros(9));
        assert_eq!(number(TubeOptions::new().backoff(backoff)), [1, 3, 5, 251, 232, 3, 9, 0]);
        assert_eq!(number(TubeOptions::new().reclaim_delay(second / 1_000_000)), [1, 4, 1]);
        assert_eq!(number(TubeOptions::new().keep_done(Keep::new())), [1, 5, 0, 0]);
        assert_eq!(number(TubeOptions::new().keep_buried(Keep::new().count(7))), [1, 6, 1, 7, 0]);
        assert_eq!(number(TubeOptions::new().max_taken(2)), [1, 7, 2]);
        let rate = Rate::per(7, Duration::from_micros(9));
        assert_eq!(number(TubeOptions::new().rate(rate)), [1, 9, 7, 9]);
        assert_eq!(number(TubeOptions::new().sub_queue_limit(5)), [1, 10, 5]);
        assert_eq!(number(TubeOptions::new().shared_limits(true)), [1, 11]);
        assert_eq!(number(TubeOptions::new().sub_queue_rate(rate)), [1, 12, 7, 9]);
        assert_eq!(number(TubeOptions::new().history(9)), [1, 13, 9]);
        assert_eq!(number(TubeOptions::new().metrics(30)), [1, 14, 30]);
        let cooldown = Duration::from_micros(9);
        assert_eq!(number(TubeOptions::new().sub_queue_cooldown(cooldown)), [1, 15, 9]);
        let paused = Policies { paused: Some(6), ..of(&TubeOptions::new().metrics(30)) };
        assert_eq!(numbered(&paused), [2, 8, 6, 14, 30]);
    }

    #[test]
    fn row_with_an_unknown_option_or_one_outside_its_limits_is_damaged() {
        let row = |number: u8, value: u8| {
            let fixed = (NEVER, NEVER, DEFAULT_PRIORITY, 0_u64, false, None::<u64>);
            decode_row::<Policies>(&encode_row(&(fixed, vec![(number, value)])))
        };
        assert_eq!(row(14, 30), Some(of(&TubeOptions::new().metrics(30))));
        assert_eq!(row(16, 30), None);
        assert_eq!(row(7, 0), None);
    }

    #[test]
    fn policies_read_back() {
        let minute = Duration::from_secs(60);
        let keep = Keep::new().count(3).age(minute);
        let options = || TubeOptions::new();
        for options in [
            options(),
            options().max_runtime(minute),
            options().max_attempts(3),
            options().max_attempts(3).count_takes(Counting::Lazily),
            options().max_attempts(3).count_takes(Counting::Flushed),
            options().backoff(Backoff::exponential(minute).factor(1.5).jitter(0.25)),
            options().reclaim_delay(minute).max_runtime(minute),
            options().keep_done(Keep::new()),
            options().keep_done(keep).keep_buried(keep),
            options().keep_buried(Keep::new()),
            options().max_taken(2),
            options().sub_queue_limit(2),
            options().sub_queue_limit(1),
            options().shared_limits(true).sub_queue_limit(u32::MAX),
            options().sub_queue_rate(Rate::per(7, minute / 7)).max_taken(2),
            options().sub_queue_cooldown(minute / 7).max_taken(2),
            options().sub_queue_cooldown(Duration::ZERO),
            options().rate(Rate::per(5, minute)).max_taken(2),
            options().history(1).max_taken(2),
            options().history(1000),
            options().metrics(30),
            options().metrics(0),
        ] {
            let policies = of(&options);
            assert_eq!(decode_row(&encode_row(&policies)), Some(policies.clone()), "{options:?}");
            let paused = Policies { paused: Some(7), ..policies.clone() };
            assert_eq!(decode_row(&encode_row(&paused)), Some(paused.clone()), "{options:?}");
            assert_eq!(paused.differences(&policies).next(), None);
        }
    }

    #[test]
    fn each_option_goes_through_a_row_its_text_and_the_options_of_the_tube() {
        for options in each() {
            let policies = of(&options);
            assert_eq!(decode_row(&encode_row(&policies)), Some(policies.clone()), "{options:?}");
            assert_eq!(of(&policies.options()), policies, "{options:?}");
            let values: Vec<_> = options.given().collect();
            let [(name, value)] = values.as_slice() else { panic!("{options:?}") };
            let by_value = TubeOptions::new().set(name, value.clone()).unwrap();
            let by_text = TubeOptions::new().set(name, &*value.to_string()).unwrap();
            assert_eq!([of(&by_value), of(&by_text)], [policies.clone(), policies], "{options:?}");
            assert_eq!(by_text.set(name, OptionValue::Without("none")).unwrap().given().count(), 0);
        }
        assert_eq!(each().len(), NAMES.len());
    }

    #[test]
    fn option_that_the_driver_does_not_have_is_refused_unless_it_asks_for_nothing() {
        let needed =
            each().into_iter().filter(|options| Policies::new(options, "no", NONE).is_err());
        let names: Vec<_> =
            needed.flat_map(|options| options.given()).map(|(name, _)| name).collect();
        let expected = [
            "capacity",
            "ttl",
            "ttr",
            "priority",
            "max_runtime",
            "backoff",
            "reclaim_delay",
            "sub_queue_limit",
            "shared_limits",
            "sub_queue_rate",
            "sub_queue_cooldown",
        ];
        assert_eq!(names, expected);
        let options = TubeOptions::new().max_runtime(Duration::MAX).backoff(Backoff::none());
        let options = options.reclaim_delay(Duration::ZERO).shared_limits(false);
        let options = options.sub_queue_cooldown(Duration::ZERO);
        assert_eq!(Policies::new(&options, "no", NONE).unwrap(), Policies::default());
        for options in [TubeOptions::new().priority(0), TubeOptions::new().sub_queue_limit(1)] {
            let refused = Policies::new(&options, "no", NONE);
            assert!(matches!(refused, Err(Error::Unsupported { .. })), "{options:?}");
        }
        let timed = Traits { timed: true, ..NONE };
        Policies::new(&TubeOptions::new().ttl(Duration::from_secs(1)), "timed", timed).unwrap();
    }

    #[test]
    fn only_temporary_is_never_altered() {
        let plain = Policies::default();
        let lasting =
            each().into_iter().filter_map(|options| of(&options).lasting_difference(&plain));
        assert!(lasting.eq(["its option temporary is true, not false"]));
    }

    #[test]
    fn value_of_another_type_and_unknown_name_are_refused() {
        let error = |name: &str, value: OptionValue| {
            TubeOptions::new().set(name, value).unwrap_err().to_string()
        };
        let text = |text: &str| OptionValue::Text(text.to_owned());
        assert!(
            error("max_takn", text("5"))
                .starts_with("a tube has no option \"max_takn\"; it has temporary, ")
        );
        assert_eq!(error("max_taken", text("many")), "max_taken: many is not a whole number");
        assert_eq!(
            error("max_taken", OptionValue::Flag(true)),
            "max_taken: true is not a whole number"
        );
        assert_eq!(
            error("priority", OptionValue::Number(1 << 32)),
            "priority: 4294967296 is above 4294967295"
        );
        assert_eq!(error("shared_limits", text("yes")), "shared_limits: yes is not true or false");
        assert_eq!(
            error("rate", OptionValue::Number(5)),
            "rate: 5 is not a rate, such as \"10/1s\""
        );
        assert!(error("ttl", text("10")).starts_with("ttl: 10 has no unit"));
        assert_eq!(error("ttl", OptionValue::Flag(true)), "ttl: true is not a time");
    }
}

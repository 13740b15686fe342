//! Which cron expressions are accepted, and what is wrong with the others.
//!
//! croner accepts more: a step that is larger than its field, empty items, names in any field. And what it
//! says of an expression that it refuses names neither the field nor what to write.

/// A field of an expression.
struct Field {
    name: &'static str,
    least: u16,
    most: u16,
    /// The names of its values, from `least` on.
    names: &'static [&'static str],
}

const MONTHS: &[&str] =
    &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const SECOND: Field = Field { name: "second", least: 0, most: 59, names: &[] };
const MINUTE: Field = Field { name: "minute", least: 0, most: 59, names: &[] };
const HOUR: Field = Field { name: "hour", least: 0, most: 23, names: &[] };
const DAY: Field = Field { name: "day of the month", least: 1, most: 31, names: &[] };
const MONTH: Field = Field { name: "month", least: 1, most: 12, names: MONTHS };
/// Sunday is 0, and also 7.
const WEEKDAY: Field = Field { name: "day of the week", least: 0, most: 7, names: WEEKDAYS };

const NICKNAMES: &[&str] = &["@YEARLY", "@ANNUALLY", "@MONTHLY", "@WEEKLY", "@DAILY", "@HOURLY"];

/// Why an expression is refused, and what to write.
pub(super) fn check(expression: &str) -> Result<(), String> {
    let upper = expression.to_ascii_uppercase();
    let fields: Vec<&str> = upper.split_whitespace().collect();
    if let Some(name) = fields.iter().find(|field| field.contains('@')) {
        if NICKNAMES.contains(name) && fields.len() == 1 {
            return Ok(());
        }
        return Err(format!(
            "{name:?} is not known; write @yearly, @monthly, @weekly, @daily or @hourly, and nothing else, \
             or five fields"
        ));
    }
    let five = [MINUTE, HOUR, DAY, MONTH, WEEKDAY];
    let known: Vec<Field> = match fields.len() {
        5 => five.into(),
        6 => std::iter::once(SECOND).chain(five).collect(),
        0 => return Err(format!("it is empty; {SHAPE}")),
        7 => {
            return Err(
                "it has 7 fields; leave out the year: the number of runs ends a schedule".into()
            );
        }
        number => return Err(format!("it has {number} fields; {SHAPE}")),
    };
    known.iter().zip(fields).try_for_each(|(field, text)| field.check(text))
}

/// Whether a field of the second, the minute or the hour of an accepted expression has a step.
pub(super) fn has_step(expression: &str) -> bool {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    // All but the day of the month, the month and the day of the week.
    fields.iter().rev().skip(3).any(|field| field.contains('/'))
}

const SHAPE: &str = "write five: minute, hour, day of the month, month and day of the week, as in \
                     0 9 * * 1-5; or six, with the second first";

impl Field {
    fn check(&self, text: &str) -> Result<(), String> {
        // A plus sign lets a day match both fields of days.
        let text = if self.is_weekday() { text.strip_prefix('+').unwrap_or(text) } else { text };
        if self.is_every(text) {
            return Ok(());
        }
        text.split(',').try_for_each(|item| self.check_item(item, text))
    }

    fn check_item(&self, item: &str, text: &str) -> Result<(), String> {
        let name = self.name;
        if item.is_empty() {
            let items: Vec<&str> = text.split(',').filter(|item| !item.is_empty()).collect();
            let list = if items.is_empty() { "*".to_owned() } else { items.join(",") };
            return Err(format!("the {name} {text:?} has an empty item; write {list}"));
        }
        if self.is_every(item) {
            return Err(format!("* is one of several items of the {name} {text:?}; write * alone"));
        }
        // croner takes it for what all of the field is about.
        if self.is_day() && item == "LW" && text != item {
            return Err(format!(
                "LW is one of several items of the {name} {text:?}; write LW alone, and use a second schedule for \
                 the other days"
            ));
        }
        if let Some((range, step)) = item.split_once('/') {
            return self.check_step(item, range, step);
        }
        if self.is_day() && self.check_special_day(item)? {
            return Ok(());
        }
        let item = if self.is_weekday() { without_nth(item)? } else { item };
        match item.split_once('-') {
            Some((start, end)) => self.range(start, end).map(drop),
            None => self.value(item).map(drop),
        }
    }

    /// `range/step`.
    fn check_step(&self, item: &str, range: &str, step: &str) -> Result<(), String> {
        let (name, most) = (self.name, self.most);
        let wrong = || format!("the step of the {name} {item:?} is not a whole number above 0");
        let step = number(step).filter(|step| *step > 0).ok_or_else(wrong)?;
        let (start, end) = if self.is_every(range) {
            (self.least, self.last())
        } else if range.is_empty() {
            return Err(format!("the {name} {item:?} has no range; write */{step}"));
        } else if let Some((start, end)) = range.split_once('-') {
            self.range(start, end)?
        } else {
            let start = self.value(range)?;
            return Err(format!(
                "the step of the {name} {item:?} needs a range; write {start}-{most}/{step}"
            ));
        };
        if step > 1 && step > end - start {
            return Err(format!(
                "the step of the {name} {item:?} is larger than {start} to {end}, so that {start} is its only \
                 value; write {start}, or use an interval in place of a cron expression"
            ));
        }
        Ok(())
    }

    /// The ends of a range.
    fn range(&self, start: &str, end: &str) -> Result<(u16, u16), String> {
        let (first, mut last) = (self.value(start)?, self.value(end)?);
        if (start, end) == ("SUN", "SUN") {
            // croner begins with the one before the week and ends with the one after it.
            return Err(format!("SUN-SUN is no range of the {}; write SUN, or *", self.name));
        }
        if end == "SUN" {
            last = self.most;
        }
        if first <= last {
            return Ok((first, last));
        }
        let is_named = !start.starts_with(|c: char| c.is_ascii_digit());
        let bound = |value: u16| match self.names.get(usize::from(value - self.least)) {
            Some(name) if is_named => (*name).to_owned(),
            _ => value.to_string(),
        };
        let piece = |from: &str, is_one: bool, to: &str| {
            if is_one { from.to_owned() } else { format!("{from}-{to}") }
        };
        let before = piece(start, first >= self.last(), &bound(self.last()));
        let after = piece(&bound(self.least), last == self.least, end);
        Err(format!(
            "the range {start}-{end} of the {} goes backward; write {before},{after}",
            self.name
        ))
    }

    fn value(&self, text: &str) -> Result<u16, String> {
        let Field { name, least, most, names } = self;
        let named = names.iter().position(|known| *known == text);
        let named = named.and_then(|at| u16::try_from(at).ok()).map(|at| at + least);
        let value = named.or_else(|| number(text)).filter(|value| (least..=most).contains(&value));
        value.ok_or_else(|| {
            let names = match (names.first(), names.last()) {
                (Some(first), Some(last)) => format!(", or {first} to {last}"),
                _ => String::new(),
            };
            format!("{text:?} is no {name}; write {least} to {most}{names}")
        })
    }

    /// `L`, `LW` and `15W` of the day of the month. False if it is none of these.
    fn check_special_day(&self, item: &str) -> Result<bool, String> {
        if item == "L" || item == "LW" {
            return Ok(true);
        }
        if let Some(day) = item.strip_suffix('W') {
            return self.value(day).map(|_| true);
        }
        if item.contains(['L', 'W']) {
            return Err(format!(
                "{item:?} is no day of the month; write L for the last day, LW for the last weekday, or 15W \
                 for the weekday nearest to the 15th"
            ));
        }
        Ok(false)
    }

    /// Whether this stands for all values.
    fn is_every(&self, text: &str) -> bool {
        text == "*" || (text == "?" && (self.is_day() || self.is_weekday()))
    }

    /// The last value that is not another name of the first one.
    fn last(&self) -> u16 {
        if self.is_weekday() { self.most - 1 } else { self.most }
    }

    fn is_day(&self) -> bool {
        self.name == DAY.name
    }

    fn is_weekday(&self) -> bool {
        self.name == WEEKDAY.name
    }
}

/// A day of the week, or a range, without which of the month it is: `5#2`, `5#L`, `5L`.
fn without_nth(item: &str) -> Result<&str, String> {
    let (days, nth) = match item.split_once('#') {
        Some((days, nth)) => (days, nth),
        None => match item.strip_suffix('L').filter(|days| !days.contains('-')) {
            Some(days) => (days, "L"),
            None => return Ok(item),
        },
    };
    if days.is_empty() {
        return Err(format!(
            "{item:?} is no day of the week; write 5L for the last Friday of the month, or L as the day \
             of the month for its last day"
        ));
    }
    if nth != "L" && number(nth).is_none_or(|nth| !(1..=5).contains(&nth)) {
        return Err(format!(
            "{item:?} is no day of the week; write {days}#1 to {days}#5, or {days}#L for the last one"
        ));
    }
    Ok(days)
}

/// A number of digits only.
fn number(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_every_kind_are_accepted() {
        for expression in [
            "* * * * *",
            "0 9 * * 1-5",
            "*/15 * * * *",
            "*/59 * * * *",
            "10-50/10 8-18 * * *",
            "0,30 2,14 1 1 0",
            "0 0 1-15/2 jan,MAR-dec *",
            "0 0 ? * mon-fri",
            "0 0 * * 7",
            "0 0 * * FRI-SUN",
            "0 0 * * sun-tue",
            "0 0 L * *",
            "0 0 LW * ?",
            "0 0 15W * *",
            "0 0 1,15,L * *",
            "0 0 * * 5L",
            "0 0 * * FRIL",
            "0 0 * * 5#2",
            "0 0 * * MON#1,MON#3",
            "0 0 * * 1-5#1",
            "0 0 * * 5#L",
            "0 0 13 * +5",
            "*/20 * * * * *",
            "0 0 0 * * *",
            " 0  9 * * * ",
            "@daily",
            "@Weekly",
            "@annually",
            "05 07 * * *",
        ] {
            assert_eq!(check(expression), Ok(()), "{expression}");
        }
    }

    #[test]
    fn refusals_name_the_field_and_what_to_write() {
        for (expression, parts) in [
            ("*/90 * * * *", ["the minute \"*/90\" is larger than 0 to 59", "write 0"]),
            ("*/60 * * * *", ["the minute \"*/60\" is larger", "write 0"]),
            ("*/60 * * * * *", ["the second \"*/60\" is larger", "write 0"]),
            ("0 */24 * * *", ["the hour \"*/24\" is larger than 0 to 23", "write 0"]),
            ("0 0 */31 * *", ["the day of the month \"*/31\" is larger than 1 to 31", "write 1"]),
            ("0 0 1 */12 *", ["the month \"*/12\" is larger than 1 to 12", "write 1"]),
            ("0 0 * * */7", ["the day of the week \"*/7\" is larger than 0 to 6", "write 0"]),
            ("10-20/30 * * * *", ["\"10-20/30\" is larger than 10 to 20", "write 10"]),
            ("*/0 * * * *", ["the step of the minute \"*/0\"", "a whole number above 0"]),
            ("1/0 * * * *", ["the step of the minute \"1/0\"", "a whole number above 0"]),
            ("*/x * * * *", ["the step of the minute \"*/X\"", "a whole number above 0"]),
            ("5/10 * * * *", ["the minute \"5/10\" needs a range", "write 5-59/10"]),
            ("/10 * * * *", ["the minute \"/10\" has no range", "write */10"]),
            ("1,,2 * * * *", ["the minute \"1,,2\" has an empty item", "write 1,2"]),
            ("0 0 ,1 * *", ["the day of the month \",1\" has an empty item", "write 1"]),
            ("0 0 * * 1,", ["the day of the week \"1,\" has an empty item", "write 1"]),
            ("0 , * * *", ["the hour \",\" has an empty item", "write *"]),
            ("0 1,* * * *", ["the hour \"1,*\"", "write * alone"]),
            ("0 22-2 * * *", ["the range 22-2 of the hour goes backward", "write 22-23,0-2"]),
            ("0 23-0 * * *", ["the range 23-0 of the hour goes backward", "write 23,0"]),
            (
                "50-10/5 * * * *",
                ["the range 50-10 of the minute goes backward", "write 50-59,0-10"],
            ),
            ("0 0 25-5 * *", ["the range 25-5 of the day of the month", "write 25-31,1-5"]),
            ("0 0 * nov-feb *", ["the range NOV-FEB of the month", "write NOV-DEC,JAN-FEB"]),
            (
                "0 0 * * fri-mon",
                ["the range FRI-MON of the day of the week", "write FRI-SAT,SUN-MON"],
            ),
            ("0 0 * * 6-1", ["the range 6-1 of the day of the week", "write 6,0-1"]),
            ("61 * * * *", ["\"61\" is no minute", "write 0 to 59"]),
            ("60 * * * * *", ["\"60\" is no second", "write 0 to 59"]),
            ("0 25 * * *", ["\"25\" is no hour", "write 0 to 23"]),
            ("0 0 0 * *", ["\"0\" is no day of the month", "write 1 to 31"]),
            ("* * * 13 *", ["\"13\" is no month", "write 1 to 12, or JAN to DEC"]),
            ("0 0 * * 8", ["\"8\" is no day of the week", "write 0 to 7, or SUN to SAT"]),
            ("0 0 * * monday", ["\"MONDAY\" is no day of the week", "SUN to SAT"]),
            ("MON 0 * * *", ["\"MON\" is no minute", "write 0 to 59"]),
            ("0 0 * MON *", ["\"MON\" is no month", "JAN to DEC"]),
            ("? * * * *", ["\"?\" is no minute", "write 0 to 59"]),
            ("L * * * *", ["\"L\" is no minute", "write 0 to 59"]),
            ("0 0 * * L", ["\"L\" is no day of the week", "write 5L for the last Friday"]),
            ("0 0 * * #2", ["\"#2\" is no day of the week", "write 5L"]),
            ("0 0 * * 5#6", ["\"5#6\" is no day of the week", "write 5#1 to 5#5"]),
            ("0 0 * * 5#", ["\"5#\" is no day of the week", "write 5#1 to 5#5"]),
            ("0 0 * * 5W", ["\"5W\" is no day of the week", "write 0 to 7"]),
            ("0 0 * * sun-SUN", ["SUN-SUN is no range of the day of the week", "write SUN"]),
            ("0 0 L,LW * *", ["LW is one of several items", "write LW alone"]),
            ("0 0 LW,20 * *", ["LW is one of several items", "a second schedule"]),
            ("0 0 L-3 * *", ["\"L-3\" is no day of the month", "write L for the last day"]),
            ("0 0 5L * *", ["\"5L\" is no day of the month", "write L for the last day"]),
            ("0 0 15W7 * *", ["\"15W7\" is no day of the month", "15W"]),
            ("0 0 32W * *", ["\"32\" is no day of the month", "write 1 to 31"]),
            ("0 0 5#2 * *", ["\"5#2\" is no day of the month", "write 1 to 31"]),
            ("+5 * * * *", ["\"+5\" is no minute", "write 0 to 59"]),
            ("99999 * * * *", ["\"99999\" is no minute", "write 0 to 59"]),
            ("-5 * * * *", ["\"\" is no minute", "write 0 to 59"]),
            ("0 0 1 1 * 2027 *", ["it has 7 fields", "leave out the year"]),
            ("* * * *", ["it has 4 fields", "write five"]),
            ("* * * * * * * *", ["it has 8 fields", "write five"]),
            ("", ["it is empty", "write five"]),
            ("@reboot", ["\"@REBOOT\" is not known", "write @yearly"]),
            ("@daily *", ["\"@DAILY\" is not known", "nothing else"]),
        ] {
            let why = check(expression).expect_err(expression);
            assert!(parts.iter().all(|part| why.contains(part)), "{expression}: {why}");
        }
    }
}

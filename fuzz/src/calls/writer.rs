//! Requests as bytes, made of an input and of what a peer knows.

use std::collections::BTreeSet;

use arbitrary::{Arbitrary, Result, Unstructured};
use tubewell::SessionId;

use super::grammar::{Choice, Field, REQUEST, Variant};

const MS: u64 = 1000;
const SECOND: u64 = 1000 * MS;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;

const TIMES: [u64; 8] = [0, MS, SECOND, 3 * MS, 1, 20 * MS, HOUR, u64::MAX];
const COUNTS: [u64; 8] = [1, 2, 3, 0, 10, 127, 1000, u64::MAX];
const COUNTS_32: [u32; 7] = [1, 2, 3, 0, 10, 1000, u32::MAX];
const INTERVALS: [u64; 6] = [SECOND, 20 * MS, MS, MS - 1, HOUR, u64::MAX];
const SIZES: [usize; 6] = [3, 0, 19, 1024, 1025, 5000];
const SPANS: [(u64, u32); 7] =
    [(0, 3_000_000), (1, 0), (3600, 0), (0, 0), (0, 1), (0, 50_000_000), (u64::MAX, 999_999_999)];
const DRIVERS: [&str; 6] = ["fifo", "fifottl", "utube", "utubettl", "limfifottl", "of nobody"];
const TEXTS: [&str; 4] = ["a text", "", "größe", "two\nlines"];
/// The backup of a peer ends at once, with an error.
pub const NO_FOLDER: &str = "/no such folder of tubewell/copy";

/// What a peer knows of the store.
#[derive(Debug, Default)]
pub struct Known {
    /// The numbers and the names of tubes, of dropped ones too.
    pub tubes: Vec<(u32, String)>,
    /// The tasks: the name of the tube and the id.
    pub tasks: Vec<(String, u64)>,
    /// Tasks that were handed out to it, the newest last.
    pub grants: Vec<Grant>,
    pub sessions: Vec<SessionId>,
    /// What the wall clock shows, in microseconds.
    pub wall: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub tube: u32,
    pub id: u64,
    pub epoch: u64,
    pub session: SessionId,
}

/// A request, and what it is.
#[derive(Debug)]
pub struct Written {
    pub bytes: Vec<u8>,
    /// The variants in it: `Request::Call`, `Tube`, `PutTask`.
    pub variants: Vec<String>,
    /// The claim that it is about.
    pub grant: Option<Grant>,
}

/// Writes a request.
pub fn request(source: &mut Unstructured<'_>, known: &Known) -> Result<Written> {
    let focus = Focus::choose(source, known)?;
    let is_plain = source.ratio(1, 2)?;
    let mut writer =
        Writer { source, known, focus, is_plain, out: Vec::new(), variants: Vec::new() };
    writer.choice(&REQUEST)?;
    Ok(Written { bytes: writer.out, variants: writer.variants, grant: writer.focus.grant })
}

/// A take that does not wait.
pub fn take(tube: &(u32, String), session: SessionId) -> Vec<u8> {
    let (number, name) = tube;
    let (number, length) = (u8::try_from(*number), u8::try_from(name.len()));
    let tube = [&[5, 1, number.unwrap(), length.unwrap()], name.as_bytes()].concat();
    [&tube[..], &session.to_bytes(), &[1, 0, 0]].concat()
}

/// What most fields of a request are about, so that they fit together.
#[derive(Debug, Default)]
struct Focus {
    tube: Option<(u32, String)>,
    id: Option<u64>,
    grant: Option<Grant>,
}

impl Focus {
    fn choose(source: &mut Unstructured<'_>, known: &Known) -> Result<Focus> {
        if !known.grants.is_empty() && source.ratio(2, 3)? {
            let newest =
                known.grants.len() - 1 - source.int_in_range(0..=3)?.min(known.grants.len() - 1);
            let grant = known.grants[newest];
            let tube = known.tubes.iter().find(|(number, _)| *number == grant.tube).cloned();
            return Ok(Focus { tube, id: Some(grant.id), grant: Some(grant) });
        }
        if !known.tasks.is_empty() && source.ratio(2, 3)? {
            let (name, id) = source.choose(&known.tasks)?;
            let tube = known.tubes.iter().rfind(|(_, other)| other == name).cloned();
            return Ok(Focus { tube, id: Some(*id), grant: None });
        }
        Ok(Focus { tube: Some(source.choose(&known.tubes)?.clone()), id: None, grant: None })
    }
}

struct Writer<'w, 'a> {
    source: &'w mut Unstructured<'a>,
    known: &'w Known,
    focus: Focus,
    /// Without what may be left out.
    is_plain: bool,
    out: Vec<u8>,
    variants: Vec<String>,
}

impl Writer<'_, '_> {
    fn choice(&mut self, choice: &Choice) -> Result<()> {
        let byte = usize::from(u8::arbitrary(self.source)?);
        let (number, name, fields) = if byte < 208 {
            choice.variants[choice.often[byte % choice.often.len()]]
        } else if byte == 255 && !choice.later.is_empty() {
            choice.later[usize::from(u8::arbitrary(self.source)?) % choice.later.len()]
        } else {
            choice.variants[byte % choice.variants.len()]
        };
        match fields {
            [Field::Instead(other)] => self.choice(other),
            [Field::Request(number, name), fields @ ..] => {
                if self.out.len() > 1 {
                    self.out.remove(0);
                }
                self.out[0] = *number;
                self.variants = vec![format!("Request::{name}")];
                self.fields(fields)
            }
            [Field::ByTime(zero, other, end)] => {
                let time = *self.source.choose(&TIMES)?;
                let (number, name) = if time == 0 { zero } else { other };
                self.begin(choice, *number, name);
                if time > 0 {
                    self.out.push(*end);
                    self.number(time);
                    // No task is put.
                    self.out.push(0);
                }
                Ok(())
            }
            fields => {
                self.begin(choice, number, name);
                self.fields_of(choice, fields)
            }
        }
    }

    fn fields_of(&mut self, choice: &Choice, fields: &[Field]) -> Result<()> {
        let (at, variant) = (self.out.len() - 1, self.variants.len() - 1);
        for field in fields {
            let Field::Among(variants, often) = field else {
                self.field(field)?;
                continue;
            };
            let (number, name, fields) = self.one_among(variants, often)?;
            self.variants[variant] = choice.full_name(name);
            self.out[at] = number;
            self.fields(fields)?;
        }
        Ok(())
    }

    /// Chosen as a variant of a choice was.
    fn one_among(&mut self, variants: &[Variant], often: &[usize]) -> Result<Variant> {
        let byte = usize::from(u8::arbitrary(self.source)?);
        let is_often = byte < 208;
        Ok(variants[if is_often { often[byte % often.len()] } else { byte % variants.len() }])
    }

    /// Writes the number of a variant.
    fn begin(&mut self, choice: &Choice, number: u8, name: &str) {
        self.variants.push(choice.full_name(name));
        self.out.push(number);
    }

    fn fields(&mut self, fields: &[Field]) -> Result<()> {
        fields.iter().try_for_each(|field| self.field(field))
    }

    fn field(&mut self, field: &Field) -> Result<()> {
        match field {
            Field::Flag => {
                let flag = self.one_in(2)?;
                self.out.push(u8::from(flag));
            }
            Field::Unsent => drop(self.one_in(2)?),
            Field::Byte(byte) => self.out.push(*byte),
            Field::Option(some) => {
                let is_some = !self.is_plain && self.one_in(5)?;
                self.out.push(u8::from(is_some));
                if is_some {
                    self.field(some)?;
                }
            }
            Field::List(item) => {
                let count = if self.is_plain { 1 } else { self.source.int_in_range(0..=3)? };
                self.number(count);
                for _ in 0..count {
                    self.field(item)?;
                }
            }
            Field::All(fields) => self.fields(fields)?,
            Field::One(choice) => self.choice(choice)?,
            Field::Either(fields) => {
                let field = self.source.choose(fields)?;
                self.field(field)?;
            }
            Field::Tube => {
                let (number, name) = self.tube()?;
                self.number(number.into());
                self.text(&name);
            }
            Field::TubeNumber => {
                let (number, _) = self.tube()?;
                self.number(number.into());
            }
            Field::TubeName => {
                let (_, name) = self.tube()?;
                let name = if self.one_in(8)? { "new".to_owned() } else { name };
                self.text(&name);
            }
            Field::Id => {
                let id = self.id()?;
                self.number(id);
            }
            Field::Ids => {
                let count = self.source.int_in_range(1..=3)?;
                let ids = (0..count).map(|_| self.id()).collect::<Result<BTreeSet<u64>>>()?;
                self.number(ids.len() as u64);
                ids.into_iter().for_each(|id| self.number(id));
            }
            Field::Session => {
                let session = self.session()?;
                self.out.extend(session.to_bytes());
            }
            Field::Epoch => {
                let epoch = self.epoch()?;
                self.number(epoch);
            }
            Field::Claim => self.claim()?,
            Field::Granted => self.granted()?,
            other => self.value(other)?,
        }
        Ok(())
    }

    /// A field that does not depend on what the peer knows of tasks.
    fn value(&mut self, field: &Field) -> Result<()> {
        match field {
            Field::Time => self.one_of(&TIMES)?,
            Field::Delay => self.one_of(&[0, 0, 0, 0, 0, 0, MS, 20 * MS])?,
            Field::Moment => {
                let wall = self.known.wall;
                self.one_of(&[wall + SECOND, wall, wall - 1, wall + MS, wall - HOUR, 0, u64::MAX])?;
            }
            Field::Day => {
                let today = self.known.wall / DAY;
                self.one_of(&[today, today - 1, today + 1, 0, u32::MAX.into()])?;
            }
            Field::Count | Field::Order => self.one_of(&COUNTS)?,
            Field::Count32 => self.one_of(&COUNTS_32.map(u64::from))?,
            Field::Few => self.one_of(&[0, 0, 0, 0, 0, 1, 3, u32::MAX.into()])?,
            Field::Factor => self.one_of(&[1000, 1000, 1000, 2000, 2000, 100, u32::MAX.into()])?,
            Field::Share => self.one_of(&[0, 0, 0, 0, 100, 1000, u32::MAX.into()])?,
            Field::ShortSpan => {
                let span = [(0, 0), (0, 0), (0, 0), (0, 0), (0, 0), (0, 3_000_000)];
                let (seconds, nanos) = *self.source.choose(&span)?;
                self.number(seconds);
                self.number(nanos);
            }
            Field::Interval => self.one_of(&INTERVALS)?,
            Field::Kinds => self.one_of(&[(1 << 29) - 1, 1, 0, 1 << 28])?,
            Field::Span => {
                let (seconds, nanos) = *self.source.choose(&SPANS)?;
                self.number(seconds);
                self.number(nanos.into());
            }
            Field::Driver => self.one_text(&DRIVERS)?,
            Field::Key => self.name(&["k", "l", "m", "hourly"])?,
            Field::Token => self.name(&["s", "t", "u"])?,
            Field::Tag => self.name(&["red", "blue", "green", "tall", "old"])?,
            Field::SubQueue => self.name(&["x", "y", "z", ""])?,
            Field::Group => self.name(&["timeout", "refused"])?,
            Field::Label => self.name(&["worker-1", "worker-2"])?,
            Field::StepName => self.name(&["one", "two"])?,
            Field::Limit => self.name(&["x", "host"])?,
            Field::Text => self.one_text(&TEXTS)?,
            Field::Cron => self.one_text(&["0 9 * * *", "", "every day"])?,
            Field::Zone => self.one_text(&["UTC", ""])?,
            Field::Path => self.text(NO_FOLDER),
            _ => {
                let size = *self.source.choose(&SIZES)?;
                self.number(size as u64);
                self.out.resize(self.out.len() + size, b'b');
            }
        }
        Ok(())
    }

    fn one_in(&mut self, times: u8) -> Result<bool> {
        self.source.ratio(1, times)
    }

    fn tube(&mut self) -> Result<(u32, String)> {
        match &self.focus.tube {
            Some(tube) if !self.source.ratio(1, 6)? => Ok(tube.clone()),
            _ => Ok(self.source.choose(&self.known.tubes)?.clone()),
        }
    }

    fn id(&mut self) -> Result<u64> {
        if let Some(id) = self.focus.id
            && !self.one_in(6)?
        {
            return Ok(id);
        }
        if !self.known.tasks.is_empty() && !self.one_in(4)? {
            return Ok(self.source.choose(&self.known.tasks)?.1);
        }
        Ok(*self.source.choose(&[0, 1, 2, 1000, 1 << 40, u64::MAX])?)
    }

    fn session(&mut self) -> Result<SessionId> {
        if let Some(grant) = self.focus.grant
            && !self.one_in(8)?
        {
            return Ok(grant.session);
        }
        if self.one_in(12)? {
            return Ok(SessionId::from_bytes([9; 16]));
        }
        self.source.choose(&self.known.sessions).copied()
    }

    fn epoch(&mut self) -> Result<u64> {
        if let Some(grant) = self.focus.grant
            && !self.one_in(8)?
        {
            return Ok(grant.epoch);
        }
        self.source.choose(&COUNTS).copied()
    }

    /// Reads the session first, the id last, and the epoch of every second claim, as inputs did when a claim was
    /// named without its epoch, too.
    fn claim(&mut self) -> Result<()> {
        let session = self.session()?;
        let epoch = if self.one_in(2)? { Some(self.epoch()?) } else { None };
        let id = self.id()?;
        let known = self.known.grants.iter().rev();
        let known = known.filter(|grant| grant.id == id && grant.session == session);
        let epoch = epoch.or_else(|| known.map(|grant| grant.epoch).next()).unwrap_or(0);
        self.put_claim(id, session, epoch);
        Ok(())
    }

    fn granted(&mut self) -> Result<()> {
        let (id, epoch) = (self.id()?, self.epoch()?);
        let mut known = self.known.grants.iter().rev();
        let grant = known.find(|grant| grant.id == id && grant.epoch == epoch).copied();
        let session = grant.map_or_else(|| SessionId::from_bytes([9; 16]), |grant| grant.session);
        self.number(grant.map_or(0, |grant| u64::from(grant.tube)));
        self.put_claim(id, session, epoch);
        Ok(())
    }

    fn put_claim(&mut self, id: u64, session: SessionId, epoch: u64) {
        self.number(id);
        self.out.extend(session.to_bytes());
        self.number(epoch);
    }

    fn one_of(&mut self, numbers: &[u64]) -> Result<()> {
        let number = *self.source.choose(numbers)?;
        self.number(number);
        Ok(())
    }

    fn one_text(&mut self, texts: &[&str]) -> Result<()> {
        let text = *self.source.choose(texts)?;
        self.text(text);
        Ok(())
    }

    /// A name of these; sometimes one that is too long, or none.
    fn name(&mut self, names: &[&str]) -> Result<()> {
        match self.source.int_in_range(0..=31_u8)? {
            31 => self.text(&"n".repeat(300)),
            30 => self.text(""),
            _ => self.one_text(names)?,
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.out.extend(text.as_bytes());
    }

    /// Seven bits to a byte, the least first.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.out.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.out.push(number.to_le_bytes()[0]);
    }
}

/// Changes some of the bytes of a request.
pub fn mutate(bytes: &mut Vec<u8>, source: &mut Unstructured<'_>) -> Result<()> {
    for _ in 0..source.int_in_range(1..=3)? {
        let at = usize::from(u16::arbitrary(source)?) % (bytes.len() + 1);
        let byte = u8::arbitrary(source)?;
        match source.int_in_range(0..=3)? {
            0 if at < bytes.len() => drop(bytes.remove(at)),
            1 => bytes.insert(at, byte),
            2 => drop(bytes.splice(at..at, [byte; 9])),
            _ if at < bytes.len() => bytes[at] = byte,
            _ => bytes.truncate(at),
        }
    }
    Ok(())
}

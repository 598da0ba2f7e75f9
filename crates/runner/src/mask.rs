//! Keeps a step's secrets out of its log: every occurrence of one becomes `***` before a byte of it touches the disk.
//!
//! A stream comes in pieces, and a secret may lie across any number of them. So what may be the beginning of a secret is
//! held back until its rest has come, or something else, or the end. Nothing else is held back, and whatever the pieces
//! are, the result is the same. Where secrets overlap, every byte of each of them is covered.
//!
//! What is looked for: the value; each line of one that has several; and of those that are not too long both as base64,
//! wherever they begin in what was encoded, and in lines as tools break it where they begin it. A step that wants to print its secret in another form still can: this is a guard against accidents.

use std::rc::Rc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use protocol::secret::{SECRET_BYTES_MIN, SecretValues};
use serde_json::Value;

const STARS: &[u8] = b"***";
/// Longer ones are not looked for as base64: sixteen times as much would have to be looked for, and who encodes a file breaks it into
/// lines as well.
const CODED_VALUE_BYTES_MAX: usize = 1024;
/// So much to look for has a place in the fastest kind of table, which is large.
const FAST_BYTES_MAX: usize = 4 * 1024;
/// How wide tools make lines of base64: `base64` itself, and those that write PEM.
const CODED_LINE_WIDTHS: [usize; 2] = [76, 64];
/// Shorter pieces of base64 are found in any text.
const CODED_BYTES_MIN: usize = 8;

/// All that a step's output is searched for.
#[derive(Debug)]
pub(crate) struct Mask {
    /// Says quickly whether there is anything: mostly there is not.
    scout: AhoCorasick,
    /// Finds all that overlap.
    finder: AhoCorasick,
    /// Sorted, none twice.
    needles: Vec<Vec<u8>>,
    longest: usize,
    /// Which bytes a needle can begin with.
    first: [bool; 256],
}

impl Mask {
    /// `None` where there is nothing to mask.
    pub(crate) fn new(secrets: &SecretValues) -> Option<Rc<Mask>> {
        let mut needles: Vec<Vec<u8>> = secrets.values().flat_map(|value| needles_of(value.expose())).collect();
        needles.sort_unstable();
        needles.dedup();
        let longest = needles.iter().map(Vec::len).max()?;
        let mut first = [false; 256];
        needles.iter().for_each(|needle| first[usize::from(needle[0])] = true);
        let large = needles.iter().map(Vec::len).sum::<usize>() > FAST_BYTES_MAX;
        let table = large.then_some(AhoCorasickKind::ContiguousNFA);
        let search = |kind| AhoCorasick::builder().match_kind(kind).kind(table).build(&needles);
        let (scout, finder) = (search(MatchKind::LeftmostFirst), search(MatchKind::Standard));
        let few = "a step's secrets are far below the limit of patterns";
        Some(Rc::new(Mask { scout: scout.expect(few), finder: finder.expect(few), needles, longest, first }))
    }

    /// A text as it may be shown.
    pub(crate) fn text(self: &Rc<Self>, text: &str) -> String {
        let mut masker = Masker::new(self.clone());
        let mut shown = Vec::with_capacity(text.len());
        masker.feed(text.as_bytes(), |bytes| shown.extend_from_slice(bytes));
        masker.finish(|bytes| shown.extend_from_slice(bytes));
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Every text in a value, and every number that is one; keys as well.
    pub(crate) fn value(self: &Rc<Self>, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.into_iter().map(|(key, value)| (self.text(&key), self.value(value))).collect())
            }
            Value::Number(number) => {
                let (text, shown) = (number.to_string(), self.text(&number.to_string()));
                if text == shown { Value::Number(number) } else { Value::String(shown) }
            }
            Value::Null | Value::Bool(_) => value,
        }
    }

    /// From where on `bytes` may be the beginning of a needle; their length if nowhere.
    fn begins_at(&self, bytes: &[u8]) -> usize {
        let earliest = bytes.len().saturating_sub(self.longest - 1);
        let may_begin = |at: &usize| {
            let rest = &bytes[*at..];
            // The first needle that is not before the rest, in their order, is the only one to look at.
            let next = self.needles.partition_point(|needle| needle.as_slice() <= rest);
            self.needles.get(next).is_some_and(|needle| needle.starts_with(rest))
        };
        let candidates = (earliest..bytes.len()).filter(|at| self.first[usize::from(bytes[*at])]);
        candidates.into_iter().find(may_begin).unwrap_or(bytes.len())
    }
}

/// One stream on its way through a [`Mask`].
pub(crate) struct Masker {
    mask: Rc<Mask>,
    /// May be the beginning of a secret, or part of one.
    held: Vec<u8>,
    /// So many bytes of `held` belong to a secret that is masked already.
    covered: usize,
    /// The stars of the line that the covered bytes are in were written.
    starred: bool,
}

impl Masker {
    pub(crate) fn new(mask: Rc<Mask>) -> Self {
        Masker { mask, held: Vec::new(), covered: 0, starred: false }
    }

    /// Takes the next piece, and gives `out` what may be shown by now.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: impl FnMut(&[u8])) {
        if self.held.is_empty() {
            let kept = self.pass(bytes, false, out);
            self.held.extend_from_slice(&bytes[kept..]);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(bytes);
            let kept = self.pass(&held, false, out);
            held.drain(..kept);
            self.held = held;
        }
    }

    /// Nothing more comes: what is held back is no secret.
    pub(crate) fn finish(&mut self, out: impl FnMut(&[u8])) {
        let held = std::mem::take(&mut self.held);
        self.pass(&held, true, out);
    }

    /// Lets all go that is decided, and returns where the rest begins.
    fn pass(&mut self, bytes: &[u8], last: bool, mut out: impl FnMut(&[u8])) -> usize {
        let secrets = self.secrets_in(bytes);
        let end = if last { bytes.len() } else { self.mask.begins_at(bytes) };
        let (mut shown, mut covered) = (0, 0);
        let covered_before = self.covered > 0;
        let goes_on = |from: usize| from == 0 && covered_before;
        for (from, to) in secrets.into_iter().take_while(|(from, _)| *from < end || goes_on(*from)) {
            if !goes_on(from) {
                self.starred = false;
            }
            if shown < from {
                out(&bytes[shown..from]);
            }
            shown = to.min(end);
            self.write_stars(&bytes[from..shown], &mut out);
            covered = to - shown;
        }
        if shown < end {
            out(&bytes[shown..end]);
        }
        self.covered = covered;
        end
    }

    /// From where to where, in order and apart from each other.
    fn secrets_in(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        if self.covered > 0 {
            spans.push((0, self.covered));
        }
        if !self.mask.scout.is_match(bytes) {
            return spans;
        }
        for found in self.mask.finder.find_overlapping_iter(bytes) {
            let (mut from, mut to) = (found.start(), found.end());
            // They come by their ends: one may reach back over several.
            while let Some(span) = spans.pop_if(|(_, before)| *before > from) {
                (from, to) = (from.min(span.0), to.max(span.1));
            }
            spans.push((from, to));
        }
        spans
    }

    /// Lines stay lines.
    fn write_stars(&mut self, secret: &[u8], out: &mut impl FnMut(&[u8])) {
        for (number, line) in secret.split(|byte| *byte == b'\n').enumerate() {
            if number > 0 {
                out(b"\n");
                self.starred = false;
            }
            if !line.is_empty() && !self.starred {
                out(STARS);
                self.starred = true;
            }
        }
    }
}

/// All forms in which a value is looked for.
fn needles_of(value: &str) -> Vec<Vec<u8>> {
    let lines = || value.lines().map(str::trim).filter(|line| !line.is_empty());
    let long = lines().filter(|line| line.len() >= SECRET_BYTES_MIN);
    let mut needles: Vec<Vec<u8>> = long.map(|line| line.as_bytes().to_vec()).collect();
    if needles.is_empty() || lines().any(|line| line.len() < SECRET_BYTES_MIN) {
        // A line that is too short to be looked for alone is masked where the whole is printed.
        needles.push(value.as_bytes().to_vec());
    }
    if value.len() <= CODED_VALUE_BYTES_MAX {
        let parts: Vec<Vec<u8>> = needles.iter().flat_map(|needle| coded(needle)).collect();
        needles.extend(parts);
        needles.extend(coded(value.as_bytes()));
    }
    needles
}

/// What stands in base64 text for these bytes, whatever is before and after them there.
fn coded(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for before in 0..3_usize {
        let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(bytes.iter().copied()).collect();
        // Characters to which nobody else's bits belong.
        let inside = (before * 8).div_ceil(6)..padded.len() * 8 / 6;
        if inside.len() >= CODED_BYTES_MIN {
            let form = |text: String| text.as_bytes()[inside.clone()].to_vec();
            forms.extend([form(STANDARD_NO_PAD.encode(&padded)), form(URL_SAFE_NO_PAD.encode(&padded))]);
        }
    }
    forms.extend(coded_ends(bytes));
    let whole = STANDARD_NO_PAD.encode(bytes);
    let own = &whole.as_bytes()[..bytes.len() * 8 / 6];
    for width in CODED_LINE_WIDTHS.into_iter().filter(|width| own.len() > *width) {
        forms.extend(own.chunks(width).filter(|line| line.len() >= CODED_BYTES_MIN).map(<[u8]>::to_vec));
    }
    forms
}

/// The same to its very end, where they end what was encoded, alone or with a line end: the last characters have bits of theirs as
/// well, and the last of several lines may be too short to be looked for alone.
fn coded_ends(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = Vec::new();
    for ended in [bytes.to_vec(), [bytes, b"\n"].concat()] {
        for before in 0..3_usize {
            let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(ended.iter().copied()).collect();
            let text = STANDARD.encode(&padded).into_bytes();
            forms.push(text[(before * 8).div_ceil(6)..].to_vec());
        }
        let text = STANDARD.encode(&ended);
        for width in CODED_LINE_WIDTHS.into_iter().filter(|width| text.len() > *width) {
            forms.push(text.as_bytes().chunks(width).collect::<Vec<_>>().join(&b'\n'));
        }
    }
    forms.retain(|form| form.len() >= CODED_BYTES_MIN);
    forms
}

#[cfg(test)]
mod tests;

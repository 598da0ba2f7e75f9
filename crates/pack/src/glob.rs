//! Patterns for files, relative to a folder: `*` and `?` within a name, `[a-z]` one character, `**` any number of folders.
//!
//! Names that begin with a dot are like all others. Who names a folder means all that is in it.

use thiserror::Error;

/// A pattern that is longer than this names no file.
pub const GLOB_BYTES_MAX: usize = 1024;

/// A pattern, taken apart at its slashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// `**`
    AnyFolders,
    Name(Vec<Piece>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    /// `?`
    AnyChar,
    /// `*`
    AnyChars,
    /// `[…]`, or `[!…]` for all others.
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GlobError {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {GLOB_BYTES_MAX} bytes")]
    Long,
    #[error("it must be relative to the step's working folder")]
    Absolute,
    #[error("`..` leads out of the step's working folder")]
    Escapes,
    #[error("`[` has no `]`")]
    Unclosed,
    #[error("a `\\` at its end means nothing")]
    Dangling,
    #[error("it holds a control character")]
    Control,
}

/// Where in a pattern one stands after some names: a place among its parts.
pub(crate) type Place = usize;

/// Whether a relative path may lead out of the folder that it begins in. `a/..` does not by its words, but does where `a` is
/// a link, so any `..` counts.
pub fn leads_out(path: &str) -> bool {
    path.split('/').any(|name| name == "..")
}

impl Glob {
    pub fn parse(text: &str) -> Result<Glob, GlobError> {
        let text = text.strip_prefix("./").unwrap_or(text);
        if text.len() > GLOB_BYTES_MAX {
            return Err(GlobError::Long);
        }
        if text.starts_with('/') {
            return Err(GlobError::Absolute);
        }
        if text.chars().any(char::is_control) {
            return Err(GlobError::Control);
        }
        if leads_out(text) {
            return Err(GlobError::Escapes);
        }
        let mut parts = Vec::new();
        for name in text.split('/').filter(|name| !name.is_empty() && *name != ".") {
            match name {
                // Two in a row mean no more than one.
                "**" if parts.last() == Some(&Part::AnyFolders) => {}
                "**" => parts.push(Part::AnyFolders),
                name => parts.push(Part::Name(pieces(name)?)),
            }
        }
        if parts.is_empty() {
            // `.` is the whole folder.
            if text != "." {
                return Err(GlobError::Empty);
            }
            parts.push(Part::AnyFolders);
        }
        // Any name there is enough: a folder stands for all that is in it.
        if let Some(last) = parts.last_mut().filter(|last| **last == Part::AnyFolders) {
            *last = Part::Name(vec![Piece::AnyChars]);
        }
        Ok(Glob { text: text.to_owned(), parts })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn start(&self) -> Vec<Place> {
        self.reach(vec![0])
    }

    /// Where the name leads from these places. It is matched as a whole if [`Glob::is_end`] holds for one of them.
    pub(crate) fn step(&self, places: &[Place], name: &str) -> Vec<Place> {
        let mut next = Vec::new();
        for &place in places {
            match self.parts.get(place) {
                Some(Part::AnyFolders) => next.push(place),
                Some(Part::Name(pieces)) if matches(pieces, name) => next.push(place + 1),
                Some(Part::Name(_)) | None => {}
            }
        }
        self.reach(next)
    }

    /// `**` may also stand for nothing.
    fn reach(&self, mut places: Vec<Place>) -> Vec<Place> {
        let mut at = 0;
        while let Some(&place) = places.get(at) {
            if self.parts.get(place) == Some(&Part::AnyFolders) && !places.contains(&(place + 1)) {
                places.push(place + 1);
            }
            at += 1;
        }
        places
    }

    /// Whether a name that led here is one that the pattern means.
    pub(crate) fn is_end(&self, places: &[Place]) -> bool {
        places.contains(&self.parts.len())
    }

    /// Whether the pattern means this path, or a folder that it lies in.
    pub fn takes(&self, path: &str) -> bool {
        let mut places = self.start();
        path.split('/').any(|name| {
            places = self.step(&places, name);
            self.is_end(&places)
        })
    }
}

fn pieces(name: &str) -> Result<Vec<Piece>, GlobError> {
    let mut pieces = Vec::new();
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        let piece = match c {
            '*' if pieces.last() == Some(&Piece::AnyChars) => continue,
            '*' => Piece::AnyChars,
            '?' => Piece::AnyChar,
            '[' => class(&mut rest)?,
            '\\' => Piece::Char(rest.next().ok_or(GlobError::Dangling)?),
            c => Piece::Char(c),
        };
        pieces.push(piece);
    }
    Ok(pieces)
}

fn class(rest: &mut std::str::Chars<'_>) -> Result<Piece, GlobError> {
    let mut inside: Vec<char> = Vec::new();
    loop {
        match rest.next() {
            None => return Err(GlobError::Unclosed),
            // Right at the beginning it stands for itself.
            Some(']') if !(inside.is_empty() || inside == ['!'] || inside == ['^']) => break,
            Some(c) => inside.push(c),
        }
    }
    let negated = matches!(inside[0], '!' | '^');
    let listed = &inside[usize::from(negated)..];
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < listed.len() {
        if at + 2 < listed.len() && listed[at + 1] == '-' {
            ranges.push((listed[at], listed[at + 2]));
            at += 3;
        } else {
            ranges.push((listed[at], listed[at]));
            at += 1;
        }
    }
    Ok(Piece::Class { ranges, negated })
}

/// By the last `*` that could take more: linear for one star, and never worse than the product of both lengths.
fn matches(pieces: &[Piece], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut piece, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        let fits = match pieces.get(piece) {
            Some(Piece::AnyChars) => {
                star = Some((piece, at));
                piece += 1;
                continue;
            }
            Some(Piece::Char(c)) => *c == name[at],
            Some(Piece::AnyChar) => true,
            Some(Piece::Class { ranges, negated }) => {
                ranges.iter().any(|(from, to)| (*from..=*to).contains(&name[at])) != *negated
            }
            None => false,
        };
        match (fits, star) {
            (true, _) => (piece, at) = (piece + 1, at + 1),
            (false, Some((star_piece, star_at))) => {
                star = Some((star_piece, star_at + 1));
                (piece, at) = (star_piece + 1, star_at + 1);
            }
            (false, None) => return false,
        }
    }
    pieces[piece..].iter().all(|piece| *piece == Piece::AnyChars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_take_what_they_mean() {
        let table = [
            ("target/release/app", "target/release/app", true),
            ("target/release/app", "target/release/app2", false),
            ("dist", "dist/a/b.txt", true),
            ("dist/", "dist/a", true),
            ("./dist", "dist/a", true),
            ("dist", "src/dist/a", false),
            ("*.txt", "a.txt", true),
            ("*.txt", ".txt", true),
            ("*.txt", "a/b.txt", false),
            ("**/*.txt", "b.txt", true),
            ("**/*.txt", "a/b/c.txt", true),
            ("a/**/z", "a/z", true),
            ("a/**/z", "a/b/c/z", true),
            ("a/**/z", "b/a/z", false),
            ("a/**", "a/b", true),
            ("a/**", "a", false),
            ("**", "anything/at/all", true),
            (".", "anything", true),
            ("app-?.bin", "app-1.bin", true),
            ("app-?.bin", "app-12.bin", false),
            ("app-[0-9].bin", "app-7.bin", true),
            ("app-[!0-9].bin", "app-7.bin", false),
            ("[]]", "]", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
        ];
        for (pattern, path, expected) in table {
            let glob = Glob::parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(glob.takes(path), expected, "{pattern} and {path}");
        }
    }

    #[test]
    fn bad_patterns_are_refused_with_a_reason() {
        let table = [
            ("", GlobError::Empty),
            ("/etc/passwd", GlobError::Absolute),
            ("a/../../b", GlobError::Escapes),
            ("a[bc", GlobError::Unclosed),
            ("a\\", GlobError::Dangling),
            ("a\nb", GlobError::Control),
        ];
        for (pattern, expected) in table {
            assert_eq!(Glob::parse(pattern), Err(expected), "{pattern}");
        }
        assert_eq!(Glob::parse(&"x".repeat(GLOB_BYTES_MAX + 1)), Err(GlobError::Long));
    }

    /// A pattern is a step's own text: none may take for ever.
    #[test]
    fn no_pattern_takes_for_ever() {
        let glob = Glob::parse(&"*a".repeat(200)).expect("good");
        assert!(!glob.takes(&"a".repeat(150)));
        let glob = Glob::parse(&"**/a/".repeat(100)).expect("good");
        assert!(!glob.takes(&vec!["b"; 200].join("/")));
    }
}

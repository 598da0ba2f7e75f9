//! The keys that a mapping may have, as data.

/// One kind of mapping.
#[derive(Debug)]
pub(crate) struct Shape {
    /// With its article, for messages: "a step".
    pub(crate) title: &'static str,
    pub(crate) keys: &'static [Key],
    /// Words that people know from elsewhere, and what we call it.
    pub(crate) synonyms: &'static [(&'static str, &'static str)],
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) doc: &'static str,
    pub(crate) required: bool,
}

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Kind {
    Null,
    Text,
    /// Text, number or boolean, taken as text.
    AnyScalar,
    Any,
    Boolean,
    Integer {
        min: i64,
        max: i64,
    },
    Number {
        min: f64,
        max: f64,
    },
    /// `1h30m`
    Duration,
    /// `1GiB`
    Size,
    Words(&'static [&'static str]),
    List(&'static Kind),
    /// Any keys, values of one kind.
    Map(&'static Kind),
    Shape(&'static Shape),
    OneOf(&'static [Kind]),
}

impl Shape {
    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.keys.iter().position(|key| key.name == name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().map(|key| key.name)
    }
}

impl Key {
    pub(crate) const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Key {
        Key { name, kind, doc, required: false }
    }

    pub(crate) const fn required(name: &'static str, kind: Kind, doc: &'static str) -> Key {
        Key { name, kind, doc, required: true }
    }
}

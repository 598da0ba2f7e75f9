//! Words of commands that people are to type, as a shell reads them.

use std::borrow::Cow;

/// As it is where that is safe, else in quotes: to a shell the name of an item, `each[0]`, is a pattern.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=./:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn patterns_are_quoted() {
        assert_eq!(["build", "a-b.c", "f[0]", "it's", ""].map(word), ["build", "a-b.c", "'f[0]'", r"'it'\''s'", "''"]);
    }
}

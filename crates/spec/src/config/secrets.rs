//! Addresses hold passwords, and problems are shown with the line where they are: what is shown has none.

/// The same text with a star for each byte of a password in an address, so that every place in it stays where it was.
pub(super) fn hidden(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut from = 0;
    while let Some(at) = text[from..].find("://") {
        let start = from + at + "://".len();
        let length = text[start..].find(|c: char| c.is_whitespace() || "\"'`".contains(c));
        let end = length.map_or(text.len(), |length| start + length);
        let address = &text[start..end];
        // The last one: what is wrong with an address may be that there are several.
        if let Some((credentials, _)) = address.rsplit_once('@') {
            let user = credentials.find(':').map_or(credentials.len(), |colon| colon + 1);
            bytes[start + user..start + credentials.len()].fill(b'*');
        }
        for (at, word) in address.match_indices("password=") {
            let value = start + at + word.len();
            let length = text[value..end].find('&').unwrap_or(end - value);
            bytes[value..value + length].fill(b'*');
        }
        from = end;
    }
    // Whole characters were replaced by stars, and nothing else.
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_stars_and_the_rest_stays() {
        let cases = [
            ("database: postgres://ada:hush@db:5432/jobs # x", "database: postgres://ada:****@db:5432/jobs # x"),
            ("mysql://ada:hu@sh/@db", "mysql://ada:******@db"),
            ("{ a: \"x://u:p@h\", b: 'y://u:pä@h' }", "{ a: \"x://u:*@h\", b: 'y://u:***@h' }"),
            ("postgres://ada@db/jobs?password=hush&sslmode=x", "postgres://ada@db/jobs?password=****&sslmode=x"),
            ("postgres://ada@db/jobs", "postgres://ada@db/jobs"),
            ("listen: 127.0.0.1:7411 :// @", "listen: 127.0.0.1:7411 :// @"),
        ];
        for (text, expected) in cases {
            assert_eq!(hidden(text), expected);
            assert_eq!(hidden(text).len(), text.len());
        }
    }
}

//! Tidy tables without lines: easy on the eye, easy for `awk`.

use api::Page;
use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::error::CliError;
use crate::exit::Exit;
use crate::print::{put, put_json, say};

/// A list of the API: as it came, or a row for each item.
pub(crate) fn put_page<T: Serialize>(
    page: &Page<T>,
    json: bool,
    headings: &[&str],
    row: impl Fn(&T) -> Vec<String>,
    if_none: &str,
) -> Result<Exit, CliError> {
    if json {
        put_json(page)?;
    } else {
        put_table(headings, page.items.iter().map(row).collect(), if_none)?;
    }
    Ok(Exit::Success)
}

/// Prints rows under their headings; says on stderr if there are none.
pub(crate) fn put_table(headings: &[&str], rows: Vec<Vec<String>>, if_none: &str) -> Result<(), CliError> {
    if rows.is_empty() {
        say(if_none);
        return Ok(());
    }
    put(&table(headings, rows))
}

fn table(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().map(|heading| heading.to_uppercase()));
    table.add_rows(rows.into_iter().map(|row| row.into_iter().map(one_line)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A row stays a row, whatever the text.
fn one_line(text: String) -> String {
    if text.contains(char::is_control) { text.replace(char::is_control, " ") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_rows_stay_rows() {
        let rows = vec![vec!["a".to_owned(), "one\ntwo".to_owned()], vec!["longer".to_owned(), "x".to_owned()]];
        assert_eq!(table(&["id", "text"], rows), "ID      TEXT\na       one two\nlonger  x");
    }
}

//! The checked-in description is the one that the code gives.

use std::path::Path;

#[test]
fn the_checked_in_description_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let mut current = api::openapi().to_pretty_json().expect("a description is plain data");
    current.push('\n');
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("make docs");
        std::fs::write(&path, &current).expect("write docs/openapi.json");
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == current,
        "docs/openapi.json is not what the code says; run the tests once with UPDATE_OPENAPI=1 and look at the difference"
    );
}

#[test]
fn every_reference_leads_somewhere() {
    let text = api::openapi().to_json().expect("a description is plain data");
    let description: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let schemas = description["components"]["schemas"].as_object().expect("there are schemas");
    for piece in text.split("#/components/schemas/").skip(1) {
        let name = piece.split('"').next().unwrap_or_default();
        assert!(schemas.contains_key(name), "nothing is called {name}");
    }
}

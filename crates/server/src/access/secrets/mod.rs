//! Secrets of the installation, by name: of steps, of triggers and of webhooks. One name is looked for in this order:
//!
//! 1. `BOWLINE_SECRET_<NAME>` in the server's environment;
//! 2. the file `<NAME>` in the folder `secrets` of its data, which nobody but its owner may read;
//! 3. the store: rows of the database, sealed with the servers' key ([`seal`]), which `bowline secret set` writes.
//!
//! They are looked up with each use, so that a changed one holds at once.

mod private;
mod seal;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Time;
use protocol::secret::{STEP_SECRETS_BYTES_MAX, SecretValue, SecretValues, UnfitSecret};
use spec::task::{SERVER_KEY, is_secret_name};
use store::rows::SecretRow;
use store::{Reader, Store, StoreError};

use private::PrivateError;
use seal::Keys;
pub use seal::SealError;

const PREFIX: &str = "BOWLINE_SECRET_";
const FOLDER: &str = "secrets";

/// So many may lie in the store: each list holds all of them.
pub const STORED_MAX: usize = 1_000;

/// Signs words to the outside that name no secret of their own.
pub const OWN_KEY: &str = SERVER_KEY;

/// Where the ledger gets what steps are given. It asks on its own thread: nobody may take long.
pub trait SecretSource: Send + Sync {
    /// All of these, or why not.
    fn of_step(&self, names: &[Arc<str>]) -> Result<SecretValues, SecretError>;
}

/// A server that has none.
pub struct NoSecrets;

impl SecretSource for NoSecrets {
    fn of_step(&self, names: &[Arc<str>]) -> Result<SecretValues, SecretError> {
        match names.first() {
            None => Ok(SecretValues::new()),
            Some(name) => Err(SecretError::NotSet { name: name.to_string() }),
        }
    }
}

pub struct Secrets {
    folder: PathBuf,
    keys: Keys,
    reader: Arc<dyn Reader>,
}

/// Where a secret is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Environment,
    File,
    Store,
}

/// A secret that this server has, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub place: Place,
    /// Of those in the store.
    pub set: Option<(Time, String)>,
    /// Why no step can have it.
    pub problem: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("the secret `{name}` is not set on the server")]
    NotSet { name: String },
    #[error("the secrets {} are not set on the server", and(names))]
    SeveralNotSet { names: Vec<String> },
    #[error("the file of the secret `{name}` can be read by others, so it is not used")]
    ReadByOthers { name: String },
    #[error("the secret `{name}` cannot be read: {source}")]
    Unreadable { name: String, source: io::Error },
    #[error("the secret `{name}` {why}")]
    Unfit { name: String, why: UnfitSecret },
    #[error("the step's secrets have {bytes} bytes together, more than the {STEP_SECRETS_BYTES_MAX} allowed")]
    TooMuch { bytes: usize },
    #[error("the secret `{name}` cannot be opened: {source}")]
    Sealed { name: String, source: SealError },
    /// It may be there.
    #[error("the secret `{name}` cannot be looked up now: {source}")]
    Store { name: String, source: StoreError },
}

impl SecretError {
    /// The same, with where it was looked for.
    pub fn in_full(&self) -> String {
        match self {
            SecretError::NotSet { name } => format!(
                "{self}: there is no {PREFIX}{name} in its environment, no {FOLDER}/{name} in its data folder, and none in its store"
            ),
            SecretError::SeveralNotSet { .. } => format!(
                "{self}: they are neither in its environment ({PREFIX}NAME), nor in {FOLDER} in its data folder, nor in its store"
            ),
            other => other.to_string(),
        }
    }

    /// Whether it says nothing about the secret itself, but only about the disk or the process at this moment.
    pub fn may_pass(&self) -> bool {
        let source = match self {
            SecretError::Unreadable { source, .. }
            | SecretError::Sealed { source: SealError::KeyUnreadable { source, .. }, .. } => source,
            _ => return false,
        };
        // One that the system did not give is our own word on what lies there: no regular file, say.
        source.raw_os_error().is_some()
            && !matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::NotFound
                    | io::ErrorKind::NotADirectory
                    | io::ErrorKind::IsADirectory
            )
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            SecretError::NotSet { name } => {
                format!(
                    "`bowline secret set {name}`, or set {PREFIX}{name}, or write {FOLDER}/{name} in the server's data folder"
                )
            }
            SecretError::SeveralNotSet { names } => {
                let set: Vec<String> = names.iter().map(|name| format!("`bowline secret set {name}`")).collect();
                set.join(", ")
            }
            SecretError::ReadByOthers { name } => format!("chmod 600 {FOLDER}/{name} in the server's data folder"),
            SecretError::Unreadable { name, .. } => format!("see to {FOLDER}/{name} in the server's data folder"),
            SecretError::Unfit { name, why } => match why.hint() {
                Some(hint) => format!("set `{name}` anew: {hint}"),
                None => format!("set `{name}` anew"),
            },
            SecretError::TooMuch { .. } => "large files are no secrets; keep the key to them as one".to_owned(),
            SecretError::Sealed { name, .. } => {
                format!("give the server the key again, or set the secret anew with `bowline secret set {name}`")
            }
            SecretError::Store { .. } => "try again in a moment".to_owned(),
        }
    }
}

impl Secrets {
    pub fn new(data: &Path, reader: Arc<dyn Reader>) -> Secrets {
        Secrets { folder: data.join(FOLDER), keys: Keys::new(data), reader }
    }

    /// The key that signs what has no secret of its own; made with the first start. Servers that share a database are given one.
    pub fn ensure_own_key(&self) -> io::Result<()> {
        let file = self.folder.join(OWN_KEY);
        if std::env::var_os(format!("{PREFIX}{OWN_KEY}")).is_some() || file.exists() {
            return Ok(());
        }
        private::create(&file, &private::random_key()?)
    }

    /// The line end of a file is not part of it.
    pub fn get(&self, name: &str) -> Result<Vec<u8>, SecretError> {
        let not_set = || SecretError::NotSet { name: name.to_owned() };
        // It becomes part of a path.
        if !is_secret_name(name) {
            return Err(not_set());
        }
        if let Some(value) = in_environment(name) {
            return Ok(value);
        }
        if let Some(value) = self.in_file(name)? {
            return Ok(value);
        }
        let looked = self.reader.secret(name);
        let row = looked.map_err(|source| SecretError::Store { name: name.to_owned(), source })?.ok_or_else(not_set)?;
        self.keys.open(name, &row.sealed).map_err(|source| SecretError::Sealed { name: name.to_owned(), source })
    }

    fn in_file(&self, name: &str) -> Result<Option<Vec<u8>>, SecretError> {
        match private::read(&self.folder.join(name)) {
            Ok(text) => Ok(text.map(|text| text.trim_ascii_end().to_vec()).filter(|text| !text.is_empty())),
            Err(PrivateError::ReadByOthers) => Err(SecretError::ReadByOthers { name: name.to_owned() }),
            Err(PrivateError::Io(source)) => Err(SecretError::Unreadable { name: name.to_owned(), source }),
        }
    }

    /// Seals a value and puts it into the store. The first one makes the key. Of one server's only one may be under way at a time.
    pub fn set(
        &self,
        store: &mut dyn Store,
        name: &str,
        value: &SecretValue,
        set_at: Time,
        set_by: &str,
    ) -> Result<SecretRow, SecretError> {
        let (row, made_key) = self.seal(name, value, set_at, set_by)?;
        self.put(store, &row, made_key)?;
        Ok(row)
    }

    /// And whether the key was made for it.
    fn seal(
        &self,
        name: &str,
        value: &SecretValue,
        set_at: Time,
        set_by: &str,
    ) -> Result<(SecretRow, bool), SecretError> {
        let sealing = |source| SecretError::Sealed { name: name.to_owned(), source };
        let made_key = !self.keys.any().map_err(sealing)?;
        if made_key {
            self.opens_all(name)?;
            self.keys.create().map_err(sealing)?;
        }
        let sealed = self.keys.seal(name, value.expose().as_bytes()).map_err(sealing)?;
        Ok((SecretRow { name: name.to_owned(), sealed, set_at, set_by: set_by.to_owned() }, made_key))
    }

    /// Another server may have made a key at the same time, and put its first secret into the store before this one was there to be
    /// seen. Each looks when its own is: whoever then finds the other's takes back what it wrote, and its key.
    fn put(&self, store: &mut dyn Store, row: &SecretRow, made_key: bool) -> Result<(), SecretError> {
        let stored = |source| SecretError::Store { name: row.name.clone(), source };
        store.put_secret(row).map_err(stored)?;
        let Some(other) = made_key.then(|| self.opens_all(&row.name).err()).flatten() else { return Ok(()) };
        let is_ours = self.reader.secret(&row.name).map_err(stored)?.is_some_and(|found| found.sealed == row.sealed);
        if is_ours {
            store.remove_secret(&row.name).map_err(stored)?;
        }
        self.keys.discard().map_err(|source| SecretError::Sealed { name: row.name.clone(), source })?;
        Err(other)
    }

    /// Not where another server has sealed some: with a key of our own nobody could open all of them.
    fn opens_all(&self, name: &str) -> Result<(), SecretError> {
        let stored = self.reader.secrets().map_err(|source| SecretError::Store { name: name.to_owned(), source })?;
        for row in stored {
            let opened = self.keys.open(&row.name, &row.sealed);
            opened.map_err(|source| SecretError::Sealed { name: name.to_owned(), source })?;
        }
        Ok(())
    }

    /// Every name that can be had here, from where it is taken.
    pub fn list(&self) -> Result<Vec<Listed>, StoreError> {
        let mut found: BTreeMap<String, Listed> = BTreeMap::new();
        for row in self.reader.secrets()? {
            let set = Some((row.set_at, row.set_by));
            found.insert(row.name.clone(), Listed { name: row.name, place: Place::Store, set, problem: None });
        }
        for (names, place) in [(self.file_names(), Place::File), (variable_names(), Place::Environment)] {
            for name in names.into_iter().filter(|name| is_secret_name(name) && name != OWN_KEY) {
                let problem = self.get(&name).err().map(|error| error.to_string());
                found.insert(name.clone(), Listed { name, place, set: None, problem });
            }
        }
        Ok(found.into_values().collect())
    }

    /// From where it is taken although it is in the store.
    pub fn shadowed_by(&self, name: &str) -> Option<Place> {
        if in_environment(name).is_some() {
            Some(Place::Environment)
        } else {
            self.folder.join(name).exists().then_some(Place::File)
        }
    }

    /// A folder that cannot be read has none.
    fn file_names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

impl SecretSource for Secrets {
    fn of_step(&self, names: &[Arc<str>]) -> Result<SecretValues, SecretError> {
        let mut values = SecretValues::new();
        let (mut not_set, mut other) = (Vec::new(), None);
        for name in names {
            match self.one_of_step(name) {
                Ok(value) => drop(values.insert(name.to_string(), value)),
                Err(SecretError::NotSet { name }) => not_set.push(name),
                Err(error) => other = other.or(Some(error)),
            }
        }
        // Whoever sets one of them should not find the next one only then.
        match (not_set.len(), other) {
            (0, None) => {}
            (0, Some(error)) => return Err(error),
            (1, _) => return Err(SecretError::NotSet { name: not_set.remove(0) }),
            (_, _) => return Err(SecretError::SeveralNotSet { names: not_set }),
        }
        let bytes = values.values().map(|value| value.expose().len()).sum();
        if bytes > STEP_SECRETS_BYTES_MAX { Err(SecretError::TooMuch { bytes }) } else { Ok(values) }
    }
}

impl Secrets {
    fn one_of_step(&self, name: &str) -> Result<SecretValue, SecretError> {
        // No task that was checked names it; a stored text of long ago may.
        if name == OWN_KEY {
            return Err(SecretError::NotSet { name: name.to_owned() });
        }
        let value = SecretValue::from_bytes(self.get(name)?);
        value.map_err(|why| SecretError::Unfit { name: name.to_owned(), why })
    }
}

/// `A`, `B` and `C`.
fn and(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [init @ .., last] if !init.is_empty() => format!("{} and {last}", init.join(", ")),
        all => all.join(", "),
    }
}

fn in_environment(name: &str) -> Option<Vec<u8>> {
    let value = std::env::var_os(format!("{PREFIX}{name}")).filter(|value| !value.is_empty());
    value.map(std::ffi::OsString::into_encoded_bytes)
}

fn variable_names() -> Vec<String> {
    let names = std::env::vars_os().filter(|(_, value)| !value.as_bytes().is_empty());
    names.filter_map(|(name, _)| Some(name.to_str()?.strip_prefix(PREFIX)?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use store_memory::MemoryDatabase;

    use super::*;

    #[test]
    fn trouble_of_the_moment_says_nothing_about_a_secret() {
        let unreadable = |source| SecretError::Unreadable { name: "A".to_owned(), source };
        for (number, passes) in [(5, true), (24, true), (116, true), (13, false), (2, false), (21, false)] {
            assert_eq!(unreadable(io::Error::from_raw_os_error(number)).may_pass(), passes, "{number}");
        }
        assert!(!unreadable(io::Error::other("it is not a regular file")).may_pass());
        let file = PathBuf::from("key");
        let key = SealError::KeyUnreadable { file, source: io::Error::from_raw_os_error(24) };
        assert!(SecretError::Sealed { name: "A".to_owned(), source: key }.may_pass());
        assert!(!SecretError::NotSet { name: "A".to_owned() }.may_pass());
    }

    struct Home {
        data: tempfile::TempDir,
        store: Box<dyn Store>,
        secrets: Secrets,
    }

    impl Home {
        fn new(database: &MemoryDatabase) -> Home {
            let data = tempfile::tempdir().expect("a temporary folder");
            let store = Box::new(database.open());
            let secrets = Secrets::new(data.path(), store.reader());
            Home { data, store, secrets }
        }

        fn write(&self, name: &str, text: &str) {
            let folder = self.data.path().join("secrets");
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(name), text).expect("a file");
            self.mode(name, 0o600);
        }

        fn mode(&self, name: &str, mode: u32) {
            let file = self.data.path().join("secrets").join(name);
            fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("its owner may");
        }

        fn set(&mut self, name: &str, value: &str) -> Result<(), SecretError> {
            let value = SecretValue::new(value.to_owned()).expect("fit");
            self.secrets.set(&mut *self.store, name, &value, Time(7), "ada").map(drop)
        }
    }

    /// Both looked, and found nothing, before either had written.
    #[test]
    fn of_two_servers_that_make_a_key_at_once_one_takes_it_back() {
        let database = MemoryDatabase::default();
        let (mut one, mut other) = (Home::new(&database), Home::new(&database));
        let value = SecretValue::new("s3cret".to_owned()).expect("fit");
        let (row, made_key) = one.secrets.seal("ONE", &value, Time(7), "ada").expect("nothing is there yet");
        assert!(made_key);
        other.set("OTHER", "its own").expect("nothing is there yet");
        let refused = one.secrets.put(&mut *one.store, &row, made_key).expect_err("nobody could open both");
        assert!(matches!(refused, SecretError::Sealed { source: SealError::OtherKey { .. }, .. }), "{refused}");
        assert!(matches!(other.secrets.get("ONE"), Err(SecretError::NotSet { .. })), "it was taken back");
        assert_eq!(other.secrets.get("OTHER").expect("it stays"), b"its own");
        assert!(!one.secrets.keys.any().expect("no file is no mistake"));
        assert!(one.set("ONE", "s3cret").is_err(), "the next try is told at once");
    }

    #[test]
    fn a_file_is_a_secret_if_it_is_one() {
        let home = Home::new(&MemoryDatabase::default());
        let secrets = &home.secrets;
        assert!(matches!(secrets.get("HOOK"), Err(SecretError::NotSet { .. })));
        home.write("HOOK", "s3cret\n");
        home.mode("HOOK", 0o644);
        assert!(matches!(secrets.get("HOOK"), Err(SecretError::ReadByOthers { .. })));
        home.mode("HOOK", 0o600);
        assert_eq!(secrets.get("HOOK").expect("it is one now"), b"s3cret");
        fs::write(home.data.path().join("outside"), "s3cret").expect("a file");
        home.mode("../outside", 0o600);
        assert!(matches!(secrets.get("../outside"), Err(SecretError::NotSet { .. })), "a name is no path");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            home.data.path().join("secrets/PIPE"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .expect("a pipe");
        assert!(matches!(secrets.get("PIPE"), Err(SecretError::Unreadable { .. })), "and nobody waits for it");
    }

    #[test]
    fn the_own_key_is_made_once_and_is_no_steps() {
        let home = Home::new(&MemoryDatabase::default());
        home.secrets.ensure_own_key().expect("a folder to write to");
        let key = home.secrets.get(OWN_KEY).expect("only its owner may read it");
        assert_eq!(key.len(), 64);
        home.secrets.ensure_own_key().expect("it is there");
        assert_eq!(home.secrets.get(OWN_KEY).expect("still"), key);
        assert!(matches!(home.secrets.of_step(&[OWN_KEY.into()]), Err(SecretError::NotSet { .. })));
        assert_eq!(home.secrets.list().expect("a read"), []);
    }

    #[test]
    fn a_file_comes_before_the_store() {
        let mut home = Home::new(&MemoryDatabase::default());
        home.set("KEY", "of the store").expect("the first makes a key");
        assert_eq!(home.secrets.get("KEY").expect("stored"), b"of the store");
        let stored = Listed {
            name: "KEY".to_owned(),
            place: Place::Store,
            set: Some((Time(7), "ada".to_owned())),
            problem: None,
        };
        assert_eq!((home.secrets.list().expect("a read"), home.secrets.shadowed_by("KEY")), (vec![stored], None));
        home.write("KEY", "of the file");
        assert_eq!(home.secrets.get("KEY").expect("in a file"), b"of the file");
        let file = Listed { name: "KEY".to_owned(), place: Place::File, set: None, problem: None };
        assert_eq!(
            (home.secrets.list().expect("a read"), home.secrets.shadowed_by("KEY")),
            (vec![file], Some(Place::File))
        );
    }

    #[test]
    fn servers_that_share_a_store_share_a_key() {
        let database = MemoryDatabase::default();
        let (mut one, mut other) = (Home::new(&database), Home::new(&database));
        one.set("KEY", "s3cret").expect("the first makes a key");
        let error = other.secrets.get("KEY").expect_err("it has no key");
        assert!(error.to_string().contains("sealed with the key"), "{error}");
        let error = other.set("OTHER", "s3cret").expect_err("a key of its own would part them");
        assert!(error.to_string().contains("sealed with the key"), "{error}");
        assert!(!other.data.path().join("secrets.key").exists());
        fs::copy(one.data.path().join("secrets.key"), other.data.path().join("secrets.key")).expect("a copy");
        assert_eq!(other.secrets.get("KEY").expect("the same key"), b"s3cret");
        other.set("OTHER", "s3cret").expect("the same key");
        assert_eq!(one.secrets.get("OTHER").expect("the same key"), b"s3cret");
    }

    #[test]
    fn steps_get_what_can_be_masked() {
        let home = Home::new(&MemoryDatabase::default());
        home.write("SHORT", "abc");
        home.write("GOOD", "abcd\n");
        home.write("LARGE", &"x".repeat(40_000));
        (0..3).for_each(|n| home.write(&format!("PART{n}"), &"x".repeat(30_000)));
        let of_step = |names: &[&str]| {
            let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
            home.secrets.of_step(&names)
        };
        assert_eq!(of_step(&["GOOD"]).expect("fit")["GOOD"].expose(), "abcd");
        let why = |names: &[&str]| of_step(names).expect_err("unfit").to_string();
        assert_eq!(
            why(&["GOOD", "SHORT"]),
            "the secret `SHORT` is shorter than 4 bytes, too short to be kept out of logs"
        );
        assert_eq!(why(&["LARGE"]), "the secret `LARGE` has 40000 bytes, more than the 32768 allowed");
        assert!(why(&["PART0", "PART1", "PART2"]).contains("90000 bytes together"));
        assert!(why(&["GOOD", "NONE"]).starts_with("the secret `NONE` is not set on the server"));
        let several = of_step(&["NONE", "SHORT", "GOOD", "NOR", "THIS"]).expect_err("three are not there");
        assert_eq!(several.to_string(), "the secrets `NONE`, `NOR` and `THIS` are not set on the server");
        assert!(several.hint().ends_with("`bowline secret set NOR`, `bowline secret set THIS`"), "{}", several.hint());
    }
}

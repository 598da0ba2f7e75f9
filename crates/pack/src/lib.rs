//! Artifacts of a step as files: which ones are meant, what they are, and how they travel and lie as one file.
//!
//! All artifacts of one attempt are a *set*. A [`Manifest`] lists its files; the hash of the manifest's text is the set's
//! name ([`SetId`]), so that whoever knows the name can tell whether what it was given is all of it, and nothing else.
//!
//! ```text
//!  glob ─► collect ─► Manifest ─► Contents (a stream) ══► pack file on a server ══► unpack
//! ```
//!
//! In reading order: [`glob`] (which files), [`manifest`] (what they are), [`collect`] (finding and hashing them),
//! [`contents`] (their bytes, one after the other), [`layout`] (the pack file), [`unpack`] (files again).
//!
//! Used by workers (collect, unpack), servers (store, verify, serve single files), the command line, and by `spec` for its globs.

pub mod collect;
pub mod contents;
pub mod glob;
pub mod layout;
pub mod manifest;
pub mod unpack;

pub use collect::{CollectError, Limits, Rule, collect};
pub use contents::Contents;
pub use glob::{Glob, GlobError};
pub use layout::{Layout, PackError, verify};
pub use manifest::{FILES_MAX, FileEntry, MANIFEST_BYTES_MAX, Manifest, ManifestError, SetId};
pub use unpack::{UnpackError, place_file, unpack};

//! The test's side of pause points.

use std::path::PathBuf;

use pause::Point;

use crate::wait::await_that;

/// Stops processes at one point, and lets them go on.
#[derive(Debug)]
pub struct Pauses {
    folder: PathBuf,
    point: Point,
}

impl Pauses {
    pub(crate) fn new(folder: PathBuf, point: Point) -> Pauses {
        const { assert!(pause::POSSIBLE, "the testkit was built without pause points") };
        std::fs::create_dir_all(&folder).expect("made");
        Pauses { folder, point }
    }

    pub(crate) fn variables(&self) -> [(String, String); 2] {
        let folder = self.folder.display().to_string();
        [(pause::POINT_VARIABLE.to_owned(), self.point.name().to_owned()), (pause::FOLDER_VARIABLE.to_owned(), folder)]
    }

    /// Waits until a process stands there; returns its number.
    pub fn reached(&self) -> u32 {
        await_that(&format!("somebody reaches `{}`", self.point.name()), || {
            let marks = std::fs::read_to_string(self.folder.join(self.point.name())).ok()?;
            marks.split_once('\n')?.0.parse().ok()
        })
    }

    /// Whoever stands there goes on, and nobody stops there any more.
    pub fn open(&self) {
        std::fs::write(self.folder.join(format!("{}.go", self.point.name())), "").expect("written");
    }
}

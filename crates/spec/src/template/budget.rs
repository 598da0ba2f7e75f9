//! What the filters of one step may go through. Fuel counts instructions, and a single one may sort a whole list:
//! a script of many small templates over a large input would keep the ledger busy for minutes.

use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::value::{Object, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// Thirty-two times the largest text, or a million items: some tenths of a second.
const BYTES_MAX: u64 = 32 * 1024 * 1024;
/// What a number or an item costs besides the bytes of its text.
const VALUE_BYTES: u64 = 32;

/// The budget's name in the context. No expression can write it.
pub(crate) const NAME: &str = "\0budget";

/// Shared by all texts of one step.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicU64,
}

impl Budget {
    pub(crate) fn full() -> Value {
        Value::from_object(Budget { left: AtomicU64::new(BYTES_MAX) })
    }

    /// Walks the value, and stops as soon as it is too much.
    fn take(&self, value: &Value) -> Result<(), Error> {
        self.spend(VALUE_BYTES + value.as_str().map_or(0, |text| text.len() as u64))?;
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => value.try_iter()?.try_for_each(|item| self.take(&item)),
            ValueKind::Map => value.try_iter()?.try_for_each(|key| {
                self.take(&key)?;
                self.take(&value.get_item(&key)?)
            }),
            _ => Ok(()),
        }
    }

    fn spend(&self, bytes: u64) -> Result<(), Error> {
        let spent = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        spent.map(drop).map_err(|_| {
            let detail = "the filters of this step go through too much data; compute it in a step";
            Error::new(ErrorKind::InvalidOperation, detail)
        })
    }
}

impl Object for Budget {}

/// Takes what a filter is given from the budget of the step, where there is one.
pub(super) fn charge(state: &State<'_, '_>, arguments: &[Value]) -> Result<(), Error> {
    let budget = state.lookup(NAME).and_then(|value| value.downcast_object::<Budget>());
    budget.map_or(Ok(()), |budget| arguments.iter().try_for_each(|argument| budget.take(argument)))
}

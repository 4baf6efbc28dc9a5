//! Rows of a CSV file by the names of their columns.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context, Result};

/// The rows of a file.
pub(crate) struct Rows(Vec<Row>);

/// One row.
pub(crate) struct Row(BTreeMap<String, String>);

impl Rows {
    /// Reads a file whose first line names the columns.
    pub(crate) fn read(path: &str) -> Result<Self> {
        let mut reader = csv::Reader::from_path(path).with_context(|| format!("cannot read {path}"))?;
        let rows: Result<Vec<BTreeMap<String, String>>, _> = reader.deserialize().collect();
        Ok(Self(rows.with_context(|| format!("{path} is not a table"))?.into_iter().map(Row).collect()))
    }

    /// The rows, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.0.iter()
    }

    /// The row of an instance type.
    pub(crate) fn of_type(&self, name: &str) -> Result<&Row> {
        let row = self.0.iter().find(|row| row.text("instance_type").is_ok_and(|kind| kind == name));
        row.with_context(|| format!("no row for {name}"))
    }
}

impl Row {
    /// The text of a column, perhaps empty.
    pub(crate) fn text(&self, column: &str) -> Result<&str> {
        self.0.get(column).map(String::as_str).with_context(|| format!("no column {column}"))
    }

    /// The number of a column.
    pub(crate) fn number<T: FromStr>(&self, column: &str) -> Result<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let text = self.text(column)?;
        text.parse().with_context(|| format!("{column}: {text:?} is not such a number"))
    }

    /// The number of a column that may be empty.
    pub(crate) fn optional_number(&self, column: &str) -> Result<Option<u32>> {
        if self.text(column)?.is_empty() { Ok(None) } else { self.number(column).map(Some) }
    }

    /// The truth of a column.
    pub(crate) fn is(&self, column: &str) -> Result<bool> {
        self.number(column)
    }
}

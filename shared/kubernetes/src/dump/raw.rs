//! Objects of files as they were written, whatever their kinds are.

use std::io::BufRead;

use outrigger_model::Invalid;
use serde_json::Value;

use super::stream::Sink;
use super::{DumpError, read_into};
use crate::wire::Object;

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct RawObject {
    /// The name under which complaints mention its file.
    pub file: String,
    /// Group and version, as `karpenter.sh/v1`; that of its list where it says none itself.
    pub api_version: String,
    /// Its kind; that of its list where it says none itself.
    pub kind: String,
    /// All of it.
    pub value: Value,
}

/// Takes in files one after another and keeps every object whole. [`DumpReader`](super::DumpReader)
/// is the one for files that may be larger than the memory.
#[derive(Debug, Default)]
pub struct RawReader {
    file: String,
    documents: usize,
    objects: Vec<RawObject>,
    invalid: Vec<Invalid>,
}

impl RawReader {
    /// Reads a file; `file` is the name under which complaints mention it.
    pub fn add(&mut self, file: &str, input: impl BufRead) -> Result<(), DumpError> {
        file.clone_into(&mut self.file);
        self.documents = 0;
        read_into(self, file, input)
    }

    /// The objects in the order of the files, and what is no object of a kind.
    pub fn finish(self) -> (Vec<RawObject>, Vec<Invalid>) {
        (self.objects, self.invalid)
    }

    fn refuse(&mut self, problem: Invalid) {
        self.invalid.push(problem.in_file(&self.file));
    }
}

impl Sink for RawReader {
    fn document(&mut self) {
        self.documents += 1;
    }

    fn object(&mut self, version: &str, kind: &str, object: Object) {
        if kind.is_empty() {
            return self.refuse(super::without_kind(self.documents));
        }
        match object.into_value(kind) {
            Ok(value) => self.objects.push(RawObject {
                file: self.file.clone(),
                api_version: version.to_owned(),
                kind: kind.to_owned(),
                value,
            }),
            Err(problem) => self.refuse(problem),
        }
    }

    fn strange(&mut self, shown: String) {
        self.refuse(super::no_object(self.documents, shown));
    }
}

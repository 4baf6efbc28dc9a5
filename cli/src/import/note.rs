//! What could not be carried, and what somebody has to do about it.

use outrigger_model::Invalid;
use owo_colors::OwoColorize;
use serde::Serialize;
use serde_json::Value;

use crate::output::tell;

/// How many characters of a value are shown.
const SHOWN: usize = 120;

/// What became of the thing that a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Fate {
    /// An object cannot be carried at all.
    LeftOut,
    /// A field is not in the output, or has another value there.
    NotCarried,
    /// It is carried, and something beside it is for people to do.
    ToDo,
    /// Nothing is made of objects of this kind or role.
    PassedOver,
}

impl Fate {
    const fn heading(self) -> &'static str {
        match self {
            Self::LeftOut => "left out:",
            Self::NotCarried => "not carried:",
            Self::ToDo => "to do:",
            Self::PassedOver => "passed over:",
        }
    }
}

/// One thing that could not be carried, or that is for people to do. Its names are stable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Note {
    /// What became of it.
    pub(super) fate: Fate,
    /// The file that the object came from.
    pub(super) file: String,
    /// The object, as `Kind/name`.
    pub(super) object: String,
    /// The field, as `spec.template.spec.kubelet`; empty where it is about the whole object.
    pub(super) field: String,
    /// What stands there.
    pub(super) found: String,
    /// What may stand there, or what is to be done.
    pub(super) advice: String,
}

/// Where an object came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The name of its file; `-` is standard input.
    pub(super) file: String,
    /// `Kind/name`.
    pub(super) object: String,
}

/// All notes, in the order in which they came up.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<Note>);

impl Notes {
    /// Notes something about a field of an object.
    pub(super) fn add(
        &mut self,
        fate: Fate,
        origin: &Origin,
        field: impl Into<String>,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.0.push(Note {
            fate,
            file: origin.file.clone(),
            object: origin.object.clone(),
            field: field.into(),
            found: found.into(),
            advice: advice.into(),
        });
    }

    /// Notes a complaint of one of the readers.
    pub(super) fn complain(&mut self, fate: Fate, file: &str, problem: &Invalid) {
        self.0.push(Note {
            fate,
            file: problem.file.clone().unwrap_or_else(|| file.to_owned()),
            object: problem.object.clone(),
            field: problem.field.clone(),
            found: problem.actual.clone(),
            advice: format!("allowed: {}", problem.allowed),
        });
    }

    /// Adds the notes of others behind these.
    pub(super) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Whether an object is left out.
    pub(super) fn has_left_out(&self) -> bool {
        self.0.iter().any(|note| note.fate == Fate::LeftOut)
    }

    /// All of them.
    pub(super) fn as_slice(&self) -> &[Note] {
        &self.0
    }

    /// Tells them on standard error.
    pub(super) fn print(&self) {
        for note in &self.0 {
            let Note { fate, file, object, field, found, advice } = note;
            let gap = if field.is_empty() { "" } else { ": " };
            let heading = match fate {
                Fate::LeftOut => fate.heading().red().bold().to_string(),
                Fate::NotCarried | Fate::ToDo => fate.heading().yellow().bold().to_string(),
                Fate::PassedOver => fate.heading().dimmed().to_string(),
            };
            tell!("{heading} {file}: {object}: {field}{gap}found {found}; {advice}");
        }
    }
}

/// A value as it is shown to people: as JSON, cut to a readable length.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > SHOWN {
        text.chars().take(SHOWN - 3).chain("...".chars()).collect()
    } else {
        text
    }
}

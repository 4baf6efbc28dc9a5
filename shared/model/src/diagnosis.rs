//! What a function sees of all that it needs, as it answers the payload `{"doctor": true}`.

use serde::{Deserialize, Serialize};

/// What one function sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The function, as `provision`.
    pub function: String,
    /// Each thing that it needs.
    pub findings: Vec<Finding>,
}

/// How one thing stands that a function needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The thing, as `API server`.
    pub subject: String,
    /// How it stands.
    pub health: Health,
    /// What was seen.
    pub detail: String,
    /// The one thing to do about it; none where it is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    /// It is as it should be.
    Good,
    /// It works, and somebody should know about it.
    Remarkable,
    /// The function cannot do its work.
    Bad,
}

impl Finding {
    /// Something that is as it should be.
    pub fn good(subject: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { subject: subject.into(), health: Health::Good, detail: detail.into(), remedy: None }
    }

    /// Something that somebody should know about.
    pub fn remarkable(
        subject: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { health: Health::Remarkable, remedy: Some(remedy.into()), ..Self::good(subject, detail) }
    }

    /// Something that keeps the function from its work.
    pub fn bad(subject: impl Into<String>, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { health: Health::Bad, ..Self::remarkable(subject, detail, remedy) }
    }
}

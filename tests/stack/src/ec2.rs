//! EC2's front: what its API model and its documentation do not allow is refused, as EC2 does and
//! moto does not.
//!
//! The model is botocore's, which AWS writes and the clients are made from: names of parameters,
//! types, required members, values of enumerations, bounds, and, in its documentation, the filters
//! of each Describe. What only the prose of the documentation says is in [`limits`] and
//! [`launches`].

mod launches;
mod limits;
mod model;

use crate::roles::Call;

pub use model::Ec2Model;

/// Why EC2 refuses a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// EC2's code.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
}

impl Fault {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn value(name: &str, value: &str, allowed: &str) -> Self {
        Self::new(
            "InvalidParameterValue",
            format!("Value ({value}) for parameter {name} is invalid; allowed: {allowed}"),
        )
    }

    fn combination(message: impl Into<String>) -> Self {
        Self::new("InvalidParameterCombination", message)
    }
}

impl Ec2Model {
    /// Whether EC2 takes the request at all.
    pub fn check(&self, call: &Call) -> Result<(), Fault> {
        self.check_shape(call)?;
        self.check_filters(call)?;
        limits::check(call)?;
        launches::check(call)
    }
}

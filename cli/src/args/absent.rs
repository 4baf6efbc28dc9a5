//! What commands take that this binary was built without.

use std::ffi::OsString;

use clap::Args as Arguments;

/// Anything, so that the answer says what is missing rather than which word is unknown.
#[derive(Debug, Arguments)]
#[command(disable_help_flag = true)]
pub(crate) struct Absent {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

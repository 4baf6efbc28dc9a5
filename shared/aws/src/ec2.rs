//! EC2: fleets, instances, launch templates, and what a node class names in the account.

pub(crate) mod account;
pub(crate) mod class;
pub(crate) mod console;
pub(crate) mod ending;
pub(crate) mod fleet;
pub(crate) mod images;
pub(crate) mod instances;
pub(crate) mod reservations;
pub(crate) mod status;
pub(crate) mod template;

use aws_sdk_ec2::types::{Filter, Tag};

/// The service's name in errors.
pub(crate) const SERVICE: &str = "EC2";

/// A filter of a describe call.
pub(crate) fn filter(name: impl Into<String>, values: impl IntoIterator<Item = impl Into<String>>) -> Filter {
    Filter::builder().name(name).set_values(Some(values.into_iter().map(Into::into).collect())).build()
}

/// A tag for a request.
pub(crate) fn tag(key: &str, value: &str) -> Tag {
    Tag::builder().key(key).value(value).build()
}

/// The tag `Name`.
pub(crate) fn name_of(tags: &[Tag]) -> String {
    let name = tags.iter().find(|tag| tag.key() == Some("Name")).and_then(Tag::value);
    name.unwrap_or_default().to_owned()
}

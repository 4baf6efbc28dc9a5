//! Maps whose hashes are the same in every run; nothing iterates over them all the same.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

/// A map that is only looked into.
pub(crate) type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

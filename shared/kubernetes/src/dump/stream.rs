//! Objects out of a stream of JSON or YAML, one at a time: a List is never held as a whole.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::{Object, short};

/// Takes the objects in.
pub(super) trait Sink {
    /// Another document, or item of an array of documents.
    fn document(&mut self);
    /// An object with its version and kind, which may be empty.
    fn object(&mut self, version: &str, kind: &str, object: Object);
    /// Something that is no object.
    fn strange(&mut self, value: String);
}

/// Reads a sequence of JSON values.
pub(super) fn read_json(input: impl Read, sink: &mut impl Sink) -> Result<(), serde_json::Error> {
    let mut json = serde_json::Deserializer::from_reader(input);
    while json.end().is_err() {
        read_document::<Box<RawValue>, _>(&mut json, sink)?;
    }
    Ok(())
}

/// Reads one document: an object, a List, or an array of them.
pub(super) fn read_document<'de, P: Part, D: Deserializer<'de>>(
    input: D,
    sink: &mut impl Sink,
) -> Result<(), D::Error> {
    let kindless = Document::<_, P> { sink: &mut *sink, list: None, part: PhantomData }.deserialize(input)?;
    if let Some((version, object)) = kindless {
        sink.object(&version, "", object);
    }
    Ok(())
}

/// What the fields of an object are kept as until its end.
pub(super) trait Part: DeserializeOwned {
    /// The text that it is, if it is one.
    fn text(&self) -> Option<String>;
    /// The object of these fields.
    fn object(fields: BTreeMap<String, Self>) -> Object;
}

impl Part for Box<RawValue> {
    fn text(&self) -> Option<String> {
        serde_json::from_str(self.get()).ok()
    }

    fn object(fields: BTreeMap<String, Self>) -> Object {
        let size: usize = fields.iter().map(|(key, value)| key.len() + value.get().len() + 8).sum();
        let mut json = String::with_capacity(size);
        for (key, value) in &fields {
            json.push(if json.is_empty() { '{' } else { ',' });
            json.push_str(&Value::from(key.as_str()).to_string());
            json.push(':');
            json.push_str(value.get());
        }
        json.push_str(if json.is_empty() { "{}" } else { "}" });
        Object::Text(json)
    }
}

impl Part for Value {
    fn text(&self) -> Option<String> {
        self.as_str().map(str::to_owned)
    }

    fn object(fields: BTreeMap<String, Self>) -> Object {
        Object::Value(fields.into_iter().collect())
    }
}

/// An object that says no kind, with the version that it says. The list that it stands in may give
/// it one.
type Kindless = Option<(String, Object)>;

/// What a typed list, as `PodList`, says of its items: version and kind.
type ListOf = Option<(String, String)>;

struct Document<'s, S, P> {
    sink: &'s mut S,
    list: ListOf,
    part: PhantomData<P>,
}

impl<'de, S: Sink, P: Part> DeserializeSeed<'de> for Document<'_, S, P> {
    type Value = Kindless;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Kindless, D::Error> {
        input.deserialize_any(self)
    }
}

/// The answers to everything that is no object.
macro_rules! strange {
    ($($visit:ident: $type:ty),*) => {
        $(fn $visit<E>(self, value: $type) -> Result<Self::Value, E> {
            self.sink.document();
            self.sink.strange(short(Value::from(value)));
            Ok(Self::Value::default())
        })*

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
}

impl<'de, S: Sink, P: Part> Visitor<'de> for Document<'_, S, P> {
    type Value = Kindless;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object or List")
    }

    strange!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kindless, A::Error> {
        loop {
            let item = Document::<_, P> { sink: &mut *self.sink, list: None, part: PhantomData };
            match items.next_element_seed(item)? {
                None => return Ok(None),
                Some(None) => {}
                Some(Some((version, object))) => self.sink.object(&version, "", object),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Kindless, A::Error> {
        let mut fields: BTreeMap<String, P> = BTreeMap::new();
        let (mut version, mut kind): (Option<String>, Option<String>) = (None, None);
        let mut items: Option<Vec<(String, Object)>> = None;
        self.sink.document();
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" && kind.as_deref().is_none_or(|kind| kind.ends_with("List")) {
                let list = version.as_deref().and_then(|version| list_of(version, kind.as_deref()));
                let seed = Items::<_, P> { sink: &mut *self.sink, list, part: PhantomData };
                items.get_or_insert_default().extend(map.next_value_seed(seed)?);
                continue;
            }
            let value: P = map.next_value()?;
            match key.as_str() {
                "apiVersion" => version = value.text(),
                "kind" => kind = value.text(),
                _ => {}
            }
            fields.insert(key, value);
        }
        if let Some(kindless) = items {
            self.end_of_list(version.as_deref(), kind.as_deref(), kindless);
            return Ok(None);
        }
        let (list_version, list_kind) = self.list.unwrap_or_default();
        let (version, kind) = (version.unwrap_or(list_version), kind.unwrap_or(list_kind));
        let object = P::object(fields);
        if kind.is_empty() {
            return Ok(Some((version, object)));
        }
        self.sink.object(&version, &kind, object);
        Ok(None)
    }
}

impl<S: Sink, P> Document<'_, S, P> {
    /// Where the list's version or kind stood behind its items, those without a kind of their own
    /// have waited for it.
    fn end_of_list(self, version: Option<&str>, kind: Option<&str>, kindless: Vec<(String, Object)>) {
        if !kind.is_some_and(|kind| kind.ends_with("List")) {
            self.sink.strange(format!("items in a {}", kind.unwrap_or("thing without a kind")));
        }
        let (list_version, list_kind) = list_of(version.unwrap_or_default(), kind).unwrap_or_default();
        for (version, object) in kindless {
            let version = if version.is_empty() { &list_version } else { &version };
            self.sink.object(version, &list_kind, object);
        }
    }
}

/// `v1` and `Pod` of a `PodList`; nothing of a plain `List`.
fn list_of(version: &str, kind: Option<&str>) -> ListOf {
    let kind = kind?.strip_suffix("List").filter(|kind| !kind.is_empty())?;
    Some((version.to_owned(), kind.to_owned()))
}

/// The items of a list; what it gives back are those without a kind.
struct Items<'s, S, P> {
    sink: &'s mut S,
    list: ListOf,
    part: PhantomData<P>,
}

impl<'de, S: Sink, P: Part> DeserializeSeed<'de> for Items<'_, S, P> {
    type Value = Vec<(String, Object)>;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Self::Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de, S: Sink, P: Part> Visitor<'de> for Items<'_, S, P> {
    type Value = Vec<(String, Object)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects")
    }

    strange!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.sink.strange("items that are no list".into());
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut kindless = Vec::new();
        loop {
            let list = self.list.clone();
            let item = Document::<_, P> { sink: &mut *self.sink, list, part: PhantomData };
            match items.next_element_seed(item)? {
                Some(item) => kindless.extend(item),
                None => return Ok(kindless),
            }
        }
    }
}

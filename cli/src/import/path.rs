//! Fields by their path, as complaints write it: `spec.taints[0].value`, `spec.tags[a.b/c]`.

use serde_json::Value;

/// Marks the fields of these paths and takes all of them out at once, so that the places in lists
/// hold until the end. Gives back those that are not there.
pub(super) fn remove<'p>(object: &mut Value, paths: &[&'p str]) -> Vec<&'p str> {
    let mut missing = Vec::new();
    let mut lists = Vec::new();
    for &path in paths {
        let steps = steps(path);
        let Some((end, parents)) = steps.split_last() else {
            missing.push(path);
            continue;
        };
        let is_there = match (at(object, parents), end) {
            (Some(Value::Object(map)), Step::Key(key)) => map.remove(*key).is_some(),
            (Some(Value::Array(list)), Step::Index(index)) => {
                let item = list.get_mut(*index);
                lists.push(parents.to_vec());
                item.map(Value::take).is_some()
            }
            _ => false,
        };
        if !is_there {
            missing.push(path);
        }
    }
    for list in lists {
        if let Some(Value::Array(list)) = at(object, &list) {
            list.retain(|item| !item.is_null());
        }
    }
    missing
}

/// One step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

fn at<'v>(value: &'v mut Value, steps: &[Step<'_>]) -> Option<&'v mut Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(*key),
        Step::Index(index) => value.get_mut(*index),
    })
}

/// Keys in brackets may hold dots, and numbers in brackets are places in a list.
fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (step, behind) = if let Some(inner) = rest.strip_prefix('[') {
            let (name, behind) = inner.split_once(']').unwrap_or((inner, ""));
            (name.parse().map_or(Step::Key(name), Step::Index), behind)
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            (Step::Key(&rest[..end]), &rest[end..])
        };
        steps.push(step);
        rest = behind.strip_prefix('.').unwrap_or(behind);
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_removed_by_their_paths() {
        let mut object = json!({
            "spec": {"tags": {"a.b/c": "x", "d": "y"}, "list": [{"a": 1, "b": 2}, 1, 2], "gone": true},
        });
        let paths = ["spec.tags[a.b/c]", "spec.list[0].a", "spec.list[1]", "spec.list[2]", "spec.gone"];
        assert_eq!(remove(&mut object, &paths), Vec::<&str>::new());
        assert_eq!(object, json!({"spec": {"tags": {"d": "y"}, "list": [{"b": 2}]}}));
        let missing = ["spec.gone", "", "spec.list[7]", "spec.tags.d.e"];
        assert_eq!(remove(&mut object, &missing), missing);
    }
}

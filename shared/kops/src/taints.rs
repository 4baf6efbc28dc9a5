//! Taints in kOps' grammar.

use outrigger_model::{Invalid, Taint, TaintEffect};

use crate::error::{KopsError, refuse};

/// Reads taints in kOps' grammar, `key=value:Effect` or `key:Effect`.
pub(crate) fn parse_taints(object: &str, field: &str, texts: &[String]) -> Result<Vec<Taint>, KopsError> {
    let mut taints = Vec::new();
    let mut problems = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match parse_taint(text) {
            Some(taint) => taints.push(taint),
            None => problems.push(Invalid::new(
                object,
                format!("{field}[{index}]"),
                format!("{text:?}"),
                "key=value:Effect or key:Effect, with NoSchedule, PreferNoSchedule or NoExecute",
            )),
        }
    }
    refuse(problems)?;
    Ok(taints)
}

fn parse_taint(text: &str) -> Option<Taint> {
    let (pair, effect) = text.split_once(':')?;
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    let effect = match effect {
        "NoSchedule" => TaintEffect::NoSchedule,
        "PreferNoSchedule" => TaintEffect::PreferNoSchedule,
        "NoExecute" => TaintEffect::NoExecute,
        _ => return None,
    };
    (!key.is_empty() && !value.contains('=')).then(|| Taint::new(key, value, effect))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(text: &str, expected: &str) {
        assert_eq!(parse_taint(text).unwrap().to_string(), expected);
    }

    #[test]
    fn taints_follow_kops_grammar() {
        reads("dedicated=gpu:NoSchedule", "dedicated=gpu:NoSchedule");
        reads("dedicated:NoExecute", "dedicated:NoExecute");
        reads("example.com/a=:PreferNoSchedule", "example.com/a:PreferNoSchedule");
    }

    #[test]
    fn other_taints_are_refused_by_place() {
        for text in ["dedicated", "a=b", ":NoSchedule", "a=b:Never", "a=b=c:NoSchedule", "a:b:NoSchedule"] {
            let error = parse_taints("InstanceGroup/x", "spec.taints", &[text.to_owned()]).unwrap_err();
            assert!(error.to_string().contains("spec.taints[0]"), "{text}: {error}");
        }
    }
}

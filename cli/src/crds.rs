//! `outrigger crds`: the custom resources' definitions, printed or written to files.

use serde_json::{Value, json};

use crate::args;
use crate::error::CliError;
use crate::output::{CommandOutcome, Format, json, page, say, yaml};

/// Runs the command.
pub(crate) fn run(command: &args::Crds, format: Format) -> Result<CommandOutcome, CliError> {
    let definitions = outrigger_model::crd::crds();
    match (&command.dir, format) {
        (Some(dir), _) => write(&definitions, dir, format)?,
        (None, Format::Json) => {
            page(&json(&json!({"apiVersion": "v1", "kind": "List", "items": definitions}))?);
        }
        (None, Format::Text | Format::Wide | Format::Yaml) => {
            for definition in &definitions {
                page(&format!("---\n{}", yaml(definition)?));
            }
        }
        (None, Format::Name) => {
            let names = definitions.iter().filter_map(name);
            names.for_each(|name| say!("customresourcedefinition/{name}"));
        }
    }
    Ok(CommandOutcome::Done)
}

fn write(definitions: &[Value], dir: &std::path::Path, format: Format) -> Result<(), CliError> {
    let failed = |path: &std::path::Path| {
        let file = path.display().to_string();
        move |source| CliError::Write { file, source }
    };
    std::fs::create_dir_all(dir).map_err(failed(dir))?;
    for definition in definitions {
        let name = name(definition).unwrap_or("unnamed");
        let (text, extension) = match format {
            Format::Json => (json(definition)? + "\n", "json"),
            _ => (yaml(definition)?, "yaml"),
        };
        let path = dir.join(format!("{name}.{extension}"));
        std::fs::write(&path, text).map_err(failed(&path))?;
        say!("{}", path.display());
    }
    Ok(())
}

fn name(definition: &Value) -> Option<&str> {
    definition.pointer("/metadata/name").and_then(Value::as_str)
}

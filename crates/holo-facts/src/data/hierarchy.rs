//! Layers of data and their merge rules: `hierarchy.toml`.

use super::constraints::{Constraint, ValueDocument};
use super::merge::{Rules, Strategy};
use crate::document;
use crate::key;
use crate::template::Templates;
use holo_definitions::LocatedError;
use holo_definitions::reading;
use holo_system::Root;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use toml::Spanned;
use toml::de::DeValue;

const NAME: &str = "hierarchy.toml";

/// The default layers.
const USUAL: [&str; 3] = ["host/{{ facts.hostname }}", "os/{{ facts.os.id }}", "common"];

/// A parsed hierarchy.
#[derive(Debug)]
pub(super) struct Hierarchy {
    /// The name in error messages.
    place: String,
    /// Templates of layers with their line numbers, most specific first.
    layers: Vec<(String, Option<usize>)>,
    rules: Rules,
    constraints: Vec<Constraint>,
}

#[derive(Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(title = "The hierarchy of holo's data"))]
#[serde(deny_unknown_fields)]
struct Document {
    /// The layers, most specific first: paths below a data directory, as templates over facts.
    layers: Option<Vec<String>>,
    /// The strategy for values in several layers; `first` by default.
    #[cfg_attr(test, schemars(with = "Option<ForAll>"))]
    merge: Option<Strategy>,
    /// Strategies for single keys and everything below them.
    #[serde(default)]
    keys: BTreeMap<String, Strategy>,
    /// Constraints on single values.
    #[serde(default)]
    values: BTreeMap<String, ValueDocument>,
}

/// The strategies available for all values.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "it only describes")]
enum ForAll {
    /// The value of the most specific layer is used as a whole.
    First,
    /// Tables are merged recursively.
    Deep,
}

impl Hierarchy {
    /// Reads the hierarchy from the first directory that contains one.
    pub(super) fn read(root: &Root, directories: &[&str]) -> Result<Hierarchy, LocatedError> {
        for directory in directories {
            let path = Path::new(directory).join(NAME);
            if let Some(content) = document::content(root, &path)? {
                return Hierarchy::parse(&root.shown(&path).display().to_string(), &content);
            }
            // Data may be written in these languages, so users may try them for the hierarchy too.
            for other in document::KINDS.map(|kind| path.with_extension(kind)) {
                if root.has(&other) {
                    let text = format!("the hierarchy is written in TOML, as {NAME}; this file would not be read");
                    return Err(LocatedError::new(root.shown(&other).display(), text));
                }
            }
        }
        Hierarchy::parse("the usual hierarchy", b"")
    }

    fn parse(place: &str, content: &[u8]) -> Result<Hierarchy, LocatedError> {
        let table = document::parse(place, content)?;
        let document: Document = reading::read(&table).map_err(|wrong| document::wrong_in(place, content, &wrong))?;
        let line =
            |value: Option<&Spanned<DeValue<'_>>>| value.map(|value| document::line(content, value.span().start));
        let of = |key: &str| table.get_ref().get(key);
        let mut rules = Rules::default();
        if let Some(strategy) = document.merge {
            if strategy == Strategy::Concatenate {
                let text = "merge: expected one of first, deep; lists are joined key by key, in [keys]";
                return Err(LocatedError::new(place, text).at(line(of("merge"))));
            }
            rules.add(&[], strategy);
        }
        let keys = of("keys").and_then(|keys| keys.get_ref().as_table());
        for (key, strategy) in document.keys {
            let at = line(keys.and_then(|keys| keys.get(key.as_str())));
            let parts = key::parts(&key).map_err(|error| LocatedError::new(place, format!("keys: {error}")).at(at))?;
            rules.add(&parts, strategy);
        }
        let values = of("values").and_then(|values| values.get_ref().as_table());
        let mut constraints = Vec::new();
        for (key, document) in document.values {
            let at = line(values.and_then(|values| values.get(key.as_str())));
            constraints.push(Constraint::new(key, document, (place, at))?);
        }
        let stand = of("layers").and_then(|layers| layers.get_ref().as_array());
        let layers = match document.layers {
            Some(layers) => layers
                .into_iter()
                .enumerate()
                .map(|(index, layer)| (layer, line(stand.and_then(|layers| layers.get(index)))))
                .collect(),
            None => USUAL.map(|layer| (layer.to_owned(), None)).to_vec(),
        };
        Ok(Hierarchy { place: place.to_owned(), layers, rules, constraints })
    }

    /// Returns the layers of a machine without duplicates, most specific first: paths below a data directory.
    ///
    /// A layer with an empty path component is left out: it depends on a fact that is unknown for this machine.
    pub(super) fn layers(&self, templates: &Templates) -> Result<Vec<String>, LocatedError> {
        let mut layers: Vec<String> = Vec::new();
        for (template, line) in &self.layers {
            let wrong = |text: String| LocatedError::new(&self.place, format!("layers: {text}")).at(*line);
            let layer =
                templates.render(&self.place, template, &Default::default()).map_err(|fault| wrong(fault.text))?;
            if layer.split('/').any(str::is_empty) && !layer.starts_with('/') {
                continue;
            }
            let stays = Path::new(&layer).components().all(|part| matches!(part, Component::Normal(_)));
            if !stays || layer.contains('\0') {
                return Err(wrong(format!("the layer {layer:?} would leave the directory")));
            }
            if !layers.contains(&layer) {
                layers.push(layer);
            }
        }
        Ok(layers)
    }

    /// Returns the name in error messages.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Returns the constraints on single values.
    pub(super) fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_that_of_the_types() {
        let schema = schemars::schema_for!(Document).to_value();
        holo_testing::schema_is_kept("holo-hierarchy.schema.json", &schema);
        let validator = jsonschema::validator_for(&schema).unwrap();
        for text in [
            "",
            "layers = ['common']\nmerge = 'deep'\n[keys]\n'a.b' = 'concatenate'\n",
            "merge = 'concatenate'\n",
            "merge = 'last'\n",
            "layers = [1]\n",
            "layer = []\n",
            "[keys]\na = 'last'\n",
            "[values]\n'a.b' = { required = true, validate = 'value > 1', env = 'B' }\n",
            "[values]\na = true\n",
            "[values.a]\nrequire = true\n",
        ] {
            let value: toml::Value = toml::from_str(text).unwrap();
            let is_valid = validator.is_valid(&serde_json::to_value(value).unwrap());
            assert_eq!(is_valid, Hierarchy::parse("hierarchy.toml", text.as_bytes()).is_ok(), "{text}");
        }
    }
}

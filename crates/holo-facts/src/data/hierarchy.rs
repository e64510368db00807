//! Which layers of data there are, and how they are laid over each other: `hierarchy.toml`.

use super::merge::{Rules, Strategy};
use crate::below::Below;
use crate::document;
use crate::fault::Fault;
use crate::key;
use crate::knowledge::Knowledge;
use crate::template::Templates;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Component, Path};
use toml::Spanned;

const NAME: &str = "hierarchy.toml";

/// The layers where nobody names any.
const USUAL: [&str; 3] = ["host/{{ facts.hostname }}", "os/{{ facts.os.id }}", "common"];

/// A hierarchy as it was read.
#[derive(Debug)]
pub(super) struct Hierarchy {
    /// What to call it where something is wrong.
    place: String,
    /// Templates of layers, the most specific first, with the lines that they stand in.
    layers: Vec<(String, Option<usize>)>,
    rules: Rules,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    layers: Option<Vec<Spanned<String>>>,
    merge: Option<Spanned<Strategy>>,
    #[serde(default)]
    keys: BTreeMap<String, Spanned<Strategy>>,
}

impl Hierarchy {
    /// Reads the hierarchy of the first directory that has one.
    pub(super) fn read(below: &Below, directories: &[&str]) -> Result<Hierarchy, Fault> {
        for directory in directories {
            let path = Path::new(directory).join(NAME);
            if let Some(content) = below.read(&path)? {
                return Hierarchy::parse(&below.shown(&path).display().to_string(), &content);
            }
        }
        Hierarchy::parse("the usual hierarchy", b"")
    }

    fn parse(place: &str, content: &[u8]) -> Result<Hierarchy, Fault> {
        let document: Document = document::typed(place, content)?;
        let wrong = |start: usize, text: String| Fault::new(place, text).at(document::line(content, start));
        let mut rules = Rules::default();
        if let Some(strategy) = document.merge {
            if *strategy.get_ref() == Strategy::Concatenate {
                let text = "merge is \"first\" or \"deep\"; lists are joined key by key, in [keys]";
                return Err(wrong(strategy.span().start, text.to_owned()));
            }
            rules.add(&[], strategy.into_inner());
        }
        for (key, strategy) in document.keys {
            let parts = key::parts(&key).map_err(|text| wrong(strategy.span().start, text))?;
            rules.add(&parts, strategy.into_inner());
        }
        let layers = match document.layers {
            Some(layers) => layers
                .into_iter()
                .map(|layer| {
                    let line = document::line(content, layer.span().start);
                    (layer.into_inner(), Some(line))
                })
                .collect(),
            None => USUAL.map(|layer| (layer.to_owned(), None)).to_vec(),
        };
        Ok(Hierarchy { place: place.to_owned(), layers, rules })
    }

    /// The layers of a machine, the most specific first, each once: paths below a directory of data.
    ///
    /// A layer that has an empty part is for machines of which something is known that is not known of this one, and left out.
    pub(super) fn layers(&self, knowledge: &Knowledge) -> Result<Vec<String>, Fault> {
        let templates = Templates::of_facts(knowledge);
        let mut layers: Vec<String> = Vec::new();
        for (template, line) in &self.layers {
            let wrong = |text: String| Fault::new(&self.place, text).at(*line);
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

    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }
}

//! A definition together with its rendered items.

use super::Executor;
use crate::definition::ScaffoldDefinition;
use crate::entity::Scaffold;
use crate::error::{Result, ScaffoldError};
use crate::post::Programs;
use crate::render::{self, Rendered};
use crate::together::Shared;
use holo_change::claims::Claim;
use holo_change::tracked::Tracks;
use std::path::PathBuf;
use std::sync::Arc;

/// A definition together with its rendered items.
pub(super) struct Work<'a> {
    pub(super) entity: &'a Scaffold,
    pub(super) definition: &'a ScaffoldDefinition,
    /// The canonical path of the target.
    pub(super) target: PathBuf,
    pub(super) rendered: Rendered,
    pub(super) validations: Programs<'a>,
    pub(super) programs: Programs<'a>,
    pub(super) shared: Arc<Shared>,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        entity: &'a Scaffold,
        definition: &'a ScaffoldDefinition,
        executor: &Executor<'_>,
    ) -> Result<Work<'a>> {
        let (rendered, warnings) = render::render(definition, &entity.file, executor.host)?;
        executor.warnings.borrow_mut().extend(warnings);
        let target = executor.tracker.canonical(&entity.target)?;
        let validations = Programs::new(&definition.validate, &target, entity.timeout)?;
        let programs = Programs::new(&definition.post, &target, entity.timeout)?;
        Ok(Work { entity, definition, target, rendered, validations, programs, shared: entity.together.shared() })
    }

    /// Returns the paths of the target and of all rendered items.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        std::iter::once(self.target.clone()).chain(self.rendered.keys().map(|path| self.target.join(path)))
    }

    /// Returns the files whose content must not be displayed.
    pub(super) fn sensitive(&self) -> impl Iterator<Item = PathBuf> {
        let sensitive = self.rendered.iter().filter(|(_, item)| item.is_sensitive());
        sensitive.map(|(path, _)| self.target.join(path))
    }

    /// Returns an error if a file that is to be created has an edit: the base would contain its lines.
    pub(super) fn check_edits(&self, tracks: &Tracks, executor: &Executor<'_>) -> Result<()> {
        let layers = self.shared.layers(executor.host, &executor.tracker);
        let edited = self.paths().filter(|path| tracks.get(path).is_none());
        let edited = edited.filter_map(|path| Some((executor.shown(&path), layers.get(&path)?.as_ref()?))).next();
        edited.map_or(Ok(()), |(shown, edit)| {
            let problem = format!("{shown} is made by {}, and edited by {edit}; one of both has to go", self.shown());
            Err(ScaffoldError::Never(problem))
        })
    }

    /// Returns the ID of the entity and its definition file.
    fn shown(&self) -> String {
        Claim::new(&self.entity.id(), &self.target, std::slice::from_ref(&self.entity.file)).shown()
    }

    /// Checks that no other entity claims one of the paths, or a parent of one in a conflicting way.
    pub(super) fn check_claims(&self, executor: &Executor<'_>) -> Result<()> {
        for path in self.paths() {
            // The files that another entity creates in a tree are only known after they have been created.
            let claims = self.shared.claims(executor.host);
            let rival = executor.tracker.rival(&path, &self.entity.id(), &claims.all)?;
            let other = claims.paths.conflict(&path, false);
            if let Some(other) = other.or(rival.filter(|rival| rival.is_tree)) {
                let shown = executor.host.below_root(&path);
                let problem = format!(
                    "{} is made by {}, and ruled by {}; one of both has to go",
                    shown.display(),
                    self.shown(),
                    other.shown()
                );
                return Err(ScaffoldError::Never(problem));
            }
        }
        Ok(())
    }
}

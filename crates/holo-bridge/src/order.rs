//! The order of entities: modules edit shared files without locks, so entities of the same module are processed
//! sequentially.

use holo_plugin::declared::Declared;
use holo_plugin::{Entity, Host, Job, SetAnswers, apply_in_lanes};
use std::collections::BTreeMap;

/// Applies a set of entities: those of the same module sequentially in the order of their definitions, those of
/// different modules concurrently, up to the number of jobs. `module` returns the module of an entity.
pub fn apply_by_module<E, M: Ord>(
    host: &Host,
    set: &[Job<'_, Declared<E>>],
    module: impl Fn(&E) -> M,
    answers: &mut dyn SetAnswers,
) where
    E: Entity + Sync,
{
    let lanes = lanes(set, module);
    apply_in_lanes(host, set, &lanes, host.jobs(), answers);
}

fn lanes<E, M: Ord>(set: &[Job<'_, Declared<E>>], module: impl Fn(&E) -> M) -> Vec<Vec<usize>> {
    let mut places: Vec<usize> = (0..set.len()).collect();
    let location = |place: &usize| set.get(*place).map(|job| &job.entity.common.location);
    places.sort_by(|one, other| location(one).cmp(&location(other)));
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    let mut known: BTreeMap<M, usize> = BTreeMap::new();
    for place in places {
        let Some(job) = set.get(place) else { continue };
        let lane = *known.entry(module(&job.entity.entity)).or_insert(lanes.len());
        match lanes.get_mut(lane) {
            Some(lane) => lane.push(place),
            None => lanes.push(vec![place]),
        }
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use holo_plugin::definitions::{self, Definition};
    use holo_plugin::{Applied, EntityReport, FilePair, Mode, Output, Sink, Stream};

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        name: String,
        module: u8,
    }

    impl Definition for Thing {
        const TABLE: &'static str = "thing";
    }

    impl Entity for Thing {
        fn report(&self) -> EntityReport {
            EntityReport::new(self.name.as_str())
        }

        fn apply(&self, _: &Host, _: Mode<'_>, _: &mut Output<'_>) -> Applied {
            Applied::Unchanged
        }

        fn diff(&self, _: &Host) -> Option<FilePair> {
            None
        }
    }

    struct Silent;

    impl Sink for Silent {
        fn write(&mut self, _: Stream, bytes: &[u8]) {
            panic!("{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn those_of_a_module_are_in_the_order_of_their_definitions() {
        let folder = tempfile::tempdir().unwrap();
        let thing = |name: &str, module: u8| format!("[[thing]]\nname = \"{name}\"\nmodule = {module}\n");
        let first: String = [thing("z", 1), thing("y", 2), thing("a", 1)].concat();
        std::fs::write(folder.path().join("9.toml"), thing("b", 1)).unwrap();
        std::fs::write(folder.path().join("10.toml"), first).unwrap();
        let host = Host::from_environment(|_| Some(folder.path().into())).unwrap();
        let definitions = definitions::read::<Thing>(&host, &mut Output::new(&mut Silent));
        let entities: Vec<Declared<Thing>> =
            definitions.valid.into_values().map(|defined| Declared::new(defined.definition, defined.common)).collect();
        let set: Vec<Job<'_, Declared<Thing>>> =
            entities.iter().map(|entity| Job { entity, mode: Mode::default() }).collect();
        let lanes = lanes(&set, |thing| thing.module);
        let names: Vec<Vec<&str>> =
            lanes.iter().map(|lane| lane.iter().map(|&place| entities[place].entity.name.as_str()).collect()).collect();
        assert_eq!(names, [vec!["z", "a", "b"], vec!["y"]]);
    }
}

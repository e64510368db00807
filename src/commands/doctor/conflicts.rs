//! Conflicts between entities, which prevent all of them from being applied.

use super::{Check, Findings, Scene};

pub(super) const CHECK: Check =
    Check { name: "conflicts", fine: "no two entities are in conflict", needs_plugins: true, look };

fn look(scene: &Scene<'_>, findings: &mut Findings<'_>) {
    let Some(inventory) = &scene.inventory else { return };
    for conflict in inventory.plan.conflicts() {
        findings.fail(conflict.describe(&inventory.entities), "remove all of these definitions but one");
    }
}

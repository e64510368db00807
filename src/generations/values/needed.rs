//! Determines which values are still needed: those of each existing generation, and the last ones.

use super::{ValueLine, split};
use bstr::{BStr, ByteSlice};
use holo_protocol::Text;
use std::collections::{BTreeSet, HashMap};

/// The index of a line, and that of a value in it.
type Index = (usize, usize);

/// Returns the smallest set of lines that gives the same values for all existing generations.
///
/// The values of a generation are the last ones of the lines up to it, in the order of the generations.
pub(super) fn needed(
    lines: &[ValueLine],
    generation: impl Fn(&ValueLine) -> u32,
    kept: &BTreeSet<u32>,
) -> Vec<ValueLine> {
    let mut in_order: Vec<(u32, usize)> =
        lines.iter().enumerate().map(|(index, line)| (generation(line), index)).collect();
    in_order.sort_unstable();
    let mut needed: BTreeSet<Index> = BTreeSet::new();
    let mut current: HashMap<(&BStr, &BStr), Index> = HashMap::new();
    let mut rest = in_order.iter().peekable();
    for number in kept.iter().copied().chain([u32::MAX]) {
        while let Some((_, index)) = rest.next_if(|(of, _)| *of <= number) {
            take(&mut current, lines, *index);
        }
        needed.extend(current.values());
    }
    let mut last = HashMap::new();
    (0..lines.len()).for_each(|index| take(&mut last, lines, index));
    needed.extend(last.values());
    let line = |(index, line): (usize, &ValueLine)| {
        let values = line.values.iter().enumerate().filter(|(value, _)| needed.contains(&(index, *value)));
        ValueLine { values: values.map(|(_, value)| value.clone()).collect(), ..line.clone() }
    };
    lines.iter().enumerate().map(line).filter(|line| !line.values.is_empty()).collect()
}

/// Replaces the current values by those of a line.
fn take<'a>(current: &mut HashMap<(&'a BStr, &'a BStr), Index>, lines: &'a [ValueLine], index: usize) {
    let Some(ValueLine { entity, values, .. }) = lines.get(index) else { return };
    for (value, Text(text)) in values.iter().enumerate() {
        current.insert((entity.0.as_bstr(), split(text.as_bstr()).0), (index, value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{last_values, until};
    use super::*;
    use holo_testing::random::{self, Random};

    fn line(random: &mut Random, run: usize) -> ValueLine {
        let value = |random: &mut Random| {
            let (key, value) = (["version", "installed", "x"][random.below(3)], random.below(4));
            Text(format!("{key}={value}").into())
        };
        ValueLine {
            run: format!("{run:04}"),
            used: random.chance(20).then(|| u32::try_from(random.below(12)).unwrap()),
            entity: Text(format!("package:{}", random.below(5)).into()),
            values: (0..1 + random.below(3)).map(|_| value(random)).collect(),
        }
    }

    #[test]
    fn needed_lines_give_the_same_values_and_are_few() {
        random::cases(500, |random| {
            let lines: Vec<ValueLine> = (0..random.below(200)).map(|run| line(random, run)).collect();
            let kept: BTreeSet<u32> = (0..random.below(5)).map(|_| u32::try_from(random.below(12)).unwrap()).collect();
            // Every twentieth run begins a generation.
            let generation = |line: &ValueLine| line.used.unwrap_or(line.run.parse::<u32>().unwrap() / 20);
            let fewer = needed(&lines, generation, &kept);
            assert_eq!(last_values(&fewer), last_values(&lines));
            for &number in kept.iter().chain(&[20]) {
                assert_eq!(
                    last_values(until(&fewer, generation, number)),
                    last_values(until(&lines, generation, number)),
                    "of generation {number}"
                );
            }
            let values: usize = fewer.iter().map(|line| line.values.len()).sum();
            assert!(values <= 5 * 3 * (kept.len() + 2), "{values} values");
            assert_eq!(needed(&fewer, generation, &kept).len(), fewer.len());
        });
    }
}

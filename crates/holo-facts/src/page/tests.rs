//! Tests the escaping of text, and the contrast between each text colour and its background, in light mode, in dark
//! mode and on paper.

use super::{STYLE, number, render, safe};
use std::collections::{BTreeMap, BTreeSet};

/// The minimum contrast of WCAG level AA for text of any size.
const LEAST: f64 = 4.5;
/// The backgrounds of the page itself and of boxes on it, which most text is on.
const GROUNDS: [&str; 2] = ["paper", "panel"];
/// The text colours used where a background does not set its own.
const INHERITED: [&str; 2] = ["ink", "soft"];

/// A rule: its selector and its declarations.
type Rule<'a> = (&'a str, BTreeMap<&'a str, &'a str>);

/// Returns the rules of a style sheet in order, including those in media blocks.
fn rules(css: &str) -> Vec<Rule<'_>> {
    let mut rules = Vec::new();
    for block in css.split('}') {
        let Some((before, declarations)) = block.rsplit_once('{') else { continue };
        let selector = before.rsplit(['{', ';']).next().unwrap_or_default().trim();
        let declarations = declarations.split(';').filter_map(|line| line.split_once(':'));
        rules.push((selector, declarations.map(|(name, value)| (name.trim(), value.trim())).collect()));
    }
    rules
}

/// Returns the name of the variable that a declaration uses.
fn variable<'a>(declarations: &BTreeMap<&'a str, &'a str>, name: &str) -> Option<&'a str> {
    declarations.get(name)?.strip_prefix("var(--")?.strip_suffix(')')
}

/// Returns the pairs of a text colour and a possible background.
fn pairs<'a>(rules: &[Rule<'a>]) -> BTreeSet<(&'a str, &'a str)> {
    let mut pairs = BTreeSet::new();
    for (selector, declarations) in rules {
        let is_text = ["text", ".label", ".note"].iter().any(|part| selector.contains(part));
        let text = variable(declarations, "color").or_else(|| variable(declarations, "fill").filter(|_| is_text));
        match (text, variable(declarations, "background")) {
            (Some(text), Some(ground)) => drop(pairs.insert((text, ground))),
            (Some(text), None) => pairs.extend(GROUNDS.map(|ground| (text, ground))),
            (None, Some(ground)) => pairs.extend(INHERITED.map(|text| (text, ground))),
            (None, None) => {}
        }
    }
    pairs
}

/// Returns the relative luminance of `#rgb` or `#rrggbb`.
fn luminance(colour: &str) -> f64 {
    let digits = colour.strip_prefix('#').unwrap();
    let width = digits.len() / 3;
    let channel = |index: usize| {
        let text = digits[index * width..(index + 1) * width].repeat(3 - width);
        let value = f64::from(u8::from_str_radix(&text, 16).unwrap()) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
}

fn contrast(one: &str, other: &str) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_text_has_enough_contrast() {
    let rules = rules(STYLE);
    let themes: Vec<_> = rules.iter().filter(|(selector, _)| *selector == ":root").collect();
    assert_eq!(themes.len(), 3, "light, dark and paper");
    let pairs = pairs(&rules);
    assert!(pairs.contains(&("add", "add-bg")) && pairs.contains(&("soft", "panel")), "{pairs:?}");
    assert!(pairs.len() > 15, "{pairs:?}");
    for (number, (_, theme)) in themes.iter().enumerate() {
        let colour = |name: &str| theme.get(&*format!("--{name}")).unwrap_or_else(|| panic!("{number} has no {name}"));
        for (text, ground) in &pairs {
            let contrast = contrast(colour(text), colour(ground));
            assert!(contrast >= LEAST, "{text} on {ground} in theme {number} has {contrast:.2}");
        }
    }
}

#[test]
fn contrast_matches_the_standard() {
    assert!((contrast("#000", "#fff") - 21.0).abs() < 1e-9);
    assert!((contrast("#777777", "#fff") - 4.48).abs() < 0.005);
    assert!((contrast("#f00", "#00ff00") - 2.91).abs() < 0.005);
}

#[test]
fn digits_are_grouped() {
    assert_eq!([0, 12, 999, 1000, 10_000, 1_234_567].map(number).join(" "), "0 12 999 1,000 10,000 1,234,567");
}

#[test]
fn invalid_text_is_replaced() {
    assert_eq!(safe(b"a\tb\nc<d>&\"'"), "a\tb\nc<d>&\"'");
    assert_eq!(safe("grün אב".as_bytes()), "grün אב");
    for text in ["\0", "\x1b", "\r", "\u{85}", "\u{202e}", "\u{2066}", "\u{ffff}", "\u{1fffe}", "\u{fdd0}"] {
        assert_eq!(safe(text.as_bytes()), "\u{fffd}", "{text:?}");
    }
    assert_eq!(safe(b"a\xffb"), "a\u{fffd}b");
}

#[test]
fn text_cannot_leave_its_place() {
    let template = "{% extends \"frame\" %}{% block main %}{{ text }}{% endblock %}";
    let page = render(template, &BTreeMap::from([("text", "<b>&\u{202e}\x1b{{ 1 }}")])).unwrap();
    assert!(page.contains("\n&lt;b&gt;&amp;\u{fffd}\u{fffd}{{ 1 }}"), "{page}");
}

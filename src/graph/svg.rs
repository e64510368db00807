//! Renders a self-contained SVG picture.

use super::layout::{self, BoxIndex, HEIGHT, LABEL_HEIGHT, Link, LinkIndex, Spot, Way};
use super::{Line, Picture, REFRESH_COLOUR, Shown, ShownIndex};
use crate::entities::node::Table;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The width of a character in labels of boxes and of links, slightly more than in most monospaced fonts.
const CHARACTER: f64 = 7.3;
const SMALL_CHARACTER: f64 = 6.1;
/// The maximum number of columns shown of a label; the whole text becomes a tooltip.
const LONGEST: usize = 48;
const LONGEST_SMALL: usize = 30;
/// The padding at the left and right of a box's label.
const PADDING: f64 = 10.0;
const MARGIN: f64 = 24.0;
/// The height of a row of entities without edges.
const ROW: f64 = 18.0;
/// The width of the legend, and minimum width of the picture.
const LEGEND: f64 = 930.0;

const STYLE: &str = "\
text{font:12px ui-monospace,'DejaVu Sans Mono','Liberation Mono',Menlo,Consolas,monospace;fill:#1f2937}
.box{fill:#f8fafc;stroke:#64748b}
.orphan{fill:#fff;stroke-dasharray:4 3}
.line{fill:none;stroke:#64748b;stroke-width:1.2;stroke-dasharray:5 4;marker-end:url(#arrow)}
.requires{stroke-dasharray:none}
.label{font-size:10px;fill:#475569;text-anchor:middle}
.paper{fill:#fff}
.note{font-size:11px;fill:#64748b}
";

pub(super) fn write(picture: &Picture) -> String {
    let labels: Vec<Cow<'_, str>> = picture.entities.iter().map(|entity| shorten(&entity.label, LONGEST)).collect();
    let line_labels: Vec<Option<String>> = picture.lines.iter().map(line_label).collect();
    let widths: Table<BoxIndex, f64> =
        labels.iter().map(|label| columns(label) as f64 * CHARACTER + 2.0 * PADDING).collect();
    let label_width =
        |label: &Option<String>| label.as_ref().map_or(0.0, |label| columns(label) as f64 * SMALL_CHARACTER);
    let links = picture.lines.iter().zip(&line_labels);
    let index = |shown: ShownIndex| usize::from(shown).into();
    let link =
        |(line, label): (&Line, _)| Link { from: index(line.from), to: index(line.to), label: label_width(label) };
    let links: Table<LinkIndex, Link> = links.map(link).collect();
    let layout = layout::lay_out(&widths, &links);

    let mut body = String::new();
    for (line, way) in picture.lines.iter().zip(&layout.ways) {
        draw_line(&mut body, picture, line, way);
    }
    for ((line, link), (label, way)) in picture.lines.iter().zip(&links).zip(line_labels.iter().zip(&layout.ways)) {
        if let (Some(label), Some(spot)) = (label, way.label) {
            draw_label(&mut body, label, &line.assets.join("\n"), spot, link.label);
        }
    }
    for ((entity, label), (spot, width)) in picture.entities.iter().zip(&labels).zip(layout.boxes.iter().zip(&widths)) {
        if let Some(spot) = *spot {
            draw_box(&mut body, entity, label, spot, *width);
        }
    }
    let alone: Vec<(&str, &str)> = std::iter::zip(&picture.entities, &labels)
        .zip(&layout.boxes)
        .filter_map(|((entity, label), spot)| spot.is_none().then_some((&*entity.label, &**label)))
        .collect();
    let mut height = layout.height;
    let mut width = layout.width.max(LEGEND);
    if !alone.is_empty() {
        height += if height > 0.0 { 2.0 * ROW } else { 0.0 };
        (width, height) = list(&mut body, &alone, width, height);
    }
    height += 2.0 * ROW;
    legend(&mut body, height);
    frame(&body, width, height)
}

fn frame(body: &str, width: f64, height: f64) -> String {
    let (width, height) = ((width + 2.0 * MARGIN).ceil(), (height + ROW / 2.0 + 2.0 * MARGIN).ceil());
    let arrow = |id: &str, colour: &str| {
        format!(
            "<marker id=\"{id}\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 .8 8 4 0 7.2z\" fill=\"{colour}\"/></marker>\n"
        )
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
         <style>\n{STYLE}.refreshes{{stroke:{REFRESH_COLOUR};stroke-width:2.2;marker-end:url(#refresh)}}\n</style>\n\
         <defs>\n{}{}</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <g transform=\"translate({MARGIN} {MARGIN})\">\n{body}</g>\n</svg>\n",
        arrow("arrow", "#64748b"),
        arrow("refresh", REFRESH_COLOUR),
    )
}

fn draw_line(body: &mut String, picture: &Picture, line: &Line, way: &Way) {
    let mut path = String::new();
    let mut end: Option<(f64, f64)> = None;
    for stretch in &way.stretches {
        let _ = match end {
            None => write!(path, "M{:.1} {:.1}", stretch.left, stretch.y),
            Some((x, y)) => {
                let middle = f64::midpoint(x, stretch.left);
                write!(path, "C{middle:.1} {y:.1} {middle:.1} {:.1} {:.1} {:.1}", stretch.y, stretch.left, stretch.y)
            }
        };
        if stretch.right > stretch.left {
            let _ = write!(path, "H{:.1}", stretch.right);
        }
        end = Some((stretch.right, stretch.y));
    }
    let class = class(line.requires, line.refreshes);
    let title = escape_all(&format!("{} → {}", picture.entities[line.from].label, picture.entities[line.to].label));
    let _ = writeln!(body, "<path class=\"{class}\" d=\"{path}\"><title>{title}</title></path>");
}

/// Draws a label with a background that hides the line below it.
fn draw_label(body: &mut String, label: &str, whole: &str, middle: Spot, width: f64) {
    let _ = writeln!(
        body,
        "<g>{}<rect class=\"paper\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{LABEL_HEIGHT}\"/>\
         <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        title(label, whole),
        middle.x - width / 2.0,
        middle.y - LABEL_HEIGHT / 2.0,
        middle.x,
        middle.y + LABEL_HEIGHT / 4.0,
        escape(label)
    );
}

fn draw_box(body: &mut String, entity: &Shown, label: &str, Spot { x, y }: Spot, width: f64) {
    let class = if entity.orphan { "box orphan" } else { "box" };
    let _ = writeln!(
        body,
        "<g>{}<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" rx=\"4\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        title(label, &entity.label),
        x + PADDING,
        y + HEIGHT / 2.0 + 4.0,
        escape(label)
    );
}

fn class(requires: bool, refreshes: bool) -> &'static str {
    match (requires, refreshes) {
        (false, false) => "line",
        (true, false) => "line requires",
        (false, true) => "line refreshes",
        (true, true) => "line requires refreshes",
    }
}

/// Lists entities without edges in columns, as drawing them would add no information. Returns the new width and height.
fn list(body: &mut String, alone: &[(&str, &str)], width: f64, top: f64) -> (f64, f64) {
    let column = alone.iter().map(|(_, label)| columns(label)).max().unwrap_or(0) as f64 * CHARACTER + 3.0 * CHARACTER;
    let count = alone.len() as f64;
    // Choose the number of columns so that a long list is about as wide as it is high.
    let wanted = (count * ROW / column).sqrt().ceil();
    let number = (width / column).floor().max(wanted).clamp(1.0, count.max(1.0));
    let rows = (count / number).ceil().max(1.0);
    let _ = writeln!(body, "<text class=\"note\" x=\"0\" y=\"{top:.1}\">without edges: {count}</text>");
    let mut farthest = width;
    for (index, (whole, label)) in alone.iter().enumerate() {
        let index = index as f64;
        let (x, y) = ((index / rows).floor() * column, top + (1.0 + index % rows) * ROW + 4.0);
        farthest = farthest.max(x + column);
        let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}{}</text>", title(label, whole), escape(label));
    }
    (farthest, top + rows * ROW + 4.0)
}

fn legend(body: &mut String, y: f64) {
    let mut x = 0.0;
    let _ = writeln!(body, "<g>");
    for (requires, refreshes, text) in [
        (true, false, "required"),
        (false, false, "order only"),
        (true, true, "required, refreshes"),
        (false, true, "refreshes"),
    ] {
        let class = class(requires, refreshes);
        let _ = writeln!(body, "<path class=\"{class}\" d=\"M{x:.1} {y:.1}H{:.1}\"/>", x + 40.0);
        x += 48.0;
        let _ = writeln!(body, "<text class=\"note\" x=\"{x:.1}\" y=\"{:.1}\">{text}</text>", y + 4.0);
        x += columns(text) as f64 * 6.7 + 24.0;
    }
    let _ = writeln!(
        body,
        "<rect class=\"box orphan\" x=\"{x:.1}\" y=\"{:.1}\" width=\"24\" height=\"12\" rx=\"3\"/>\
         <text class=\"note\" x=\"{:.1}\" y=\"{:.1}\">orphan</text>\n\
         <text class=\"note\" x=\"{:.1}\" y=\"{:.1}\">(text on a line: what is needed)</text>\n</g>",
        y - 6.0,
        x + 32.0,
        y + 4.0,
        x + 100.0,
        y + 4.0
    );
}

fn line_label(line: &Line) -> Option<String> {
    let (first, others) = line.assets.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!(" +{}", others.len()) };
    Some(shorten(first, LONGEST_SMALL - more.len()).into_owned() + &more)
}

/// Returns a tooltip with the whole text if the label is shortened.
fn title(shown: &str, whole: &str) -> String {
    if shown == whole { String::new() } else { format!("<title>{}</title>", escape_all(whole)) }
}

fn escape(text: &str) -> String {
    // Consecutive blanks would be collapsed.
    escape_all(text).replace(' ', "\u{a0}")
}

fn escape_all(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the number of columns of a text in a monospaced font; wide East Asian characters and emojis take two.
fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(c: char) -> usize {
    match c {
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// Shortens a long text in the middle, because IDs differ at their ends.
fn shorten(text: &str, longest: usize) -> Cow<'_, str> {
    if columns(text) <= longest {
        return Cow::Borrowed(text);
    }
    let fitting = |characters: &mut dyn Iterator<Item = char>, room: usize| -> Vec<char> {
        let mut left = room;
        characters.take_while(|&c| left.checked_sub(width(c)).map(|rest| left = rest).is_some()).collect()
    };
    let begin = fitting(&mut text.chars(), longest / 3);
    let end = fitting(&mut text.chars().rev(), longest - longest / 3 - 1);
    Cow::Owned(begin.into_iter().chain(['…']).chain(end.into_iter().rev()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{hostile, small};
    use super::*;

    #[test]
    fn entities_and_edges_are_shown() {
        let text = write(&small());
        for label in ["group:web", "user:www", "file:/etc/www", "service:www", "user\u{a0}www", "without edges: 1"] {
            assert!(text.contains(&format!(">{label}</text>")), "{label} is missing in {text}");
        }
        // Four in the picture, and four in the legend.
        assert_eq!(text.matches("<path class=\"line").count(), 8);
        assert_eq!(text.matches("<path class=\"line requires refreshes\"").count(), 2);
        assert!(text.contains("<title>file:/etc/www → service:www</title>"));
    }

    #[test]
    fn labels_cannot_break_out() {
        let text = write(&hostile());
        assert!(text.contains(">a\"b\\&lt;c&gt;&amp;lt;'%#;é\u{fffd}</text>"), "{text}");
        assert!(text.contains(">--&gt;\u{fffd}|\u{fffd}]]&gt;</text>"), "{text}");
        assert!(text.contains(">path\u{a0}/\"]\\n</text>"), "{text}");
    }

    #[test]
    fn empty_plan_is_a_valid_picture() {
        let text = write(&Picture { entities: Table::new(), lines: Vec::new() });
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }

    #[test]
    fn long_labels_lose_their_middle() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten("abcdefghijk", 10), "abc…fghijk");
        assert_eq!(shorten("日本語日本語", 10), "日…日本語");
        let line = Line {
            from: 0.into(),
            to: 1.into(),
            requires: false,
            refreshes: false,
            assets: vec!["path /a".into(), "user x".into()],
        };
        assert_eq!(line_label(&line).as_deref(), Some("path /a +1"));
    }
}

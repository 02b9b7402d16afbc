//! The savings as a picture.

use std::fmt::Write as _;

use super::{COPIES, Row, STRATEGIES};

const COLOURS: [&str; 3] = ["#9aa5b1", "#e0a458", "#2f7f86"];
const BAR: usize = 9;
const GROUP: usize = 4 * BAR + 8;
const HEIGHT: usize = 160;
const LEFT: usize = 40;

/// Bars for each program and number of copies, and the bound as a line.
pub fn svg(rows: &[Row]) -> String {
    let panel = HEIGHT + 70;
    let width = LEFT + rows.len().max(1) * GROUP + 20;
    let height = COPIES.len() * panel + 30;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"10\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (number, copies) in COPIES.into_iter().enumerate() {
        let top = number * panel + 25;
        let base = top + HEIGHT;
        let _ = writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{copies} copies: hits saved, in percent</text>",
            top - 8
        );
        for share in [0, 25, 50, 75, 100] {
            let y = base - HEIGHT * share / 100;
            let _ = writeln!(
                out,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>\
                 <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">{share}</text>",
                width - 20,
                LEFT - 5,
                y + 3
            );
        }
        for (place, row) in rows.iter().enumerate() {
            let left = LEFT + place * GROUP + 6;
            for (bar, strategy) in STRATEGIES.into_iter().enumerate() {
                let saved =
                    row.cost(strategy, copies).map_or(0.0, |cost| cost.saved).clamp(0.0, 1.0);
                let tall = (saved * HEIGHT as f64).round() as usize;
                let _ = writeln!(
                    out,
                    "<rect x=\"{}\" y=\"{}\" width=\"{BAR}\" height=\"{tall}\" fill=\"{}\"/>",
                    left + bar * (BAR + 1),
                    base - tall,
                    COLOURS[bar]
                );
            }
            let bound = row.cost("adaptive", copies).map_or(0.0, |cost| cost.bound).clamp(0.0, 1.0);
            let y = base - (bound * HEIGHT as f64).round() as usize;
            let middle = left + 3 * (BAR + 1) / 2;
            let _ = writeln!(
                out,
                "<line x1=\"{}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#b3261e\" stroke-width=\"2\"/>\
                 <text x=\"{middle}\" y=\"{}\" text-anchor=\"end\" transform=\"rotate(-35 {middle} {})\">{}</text>",
                left - 2,
                left + 3 * (BAR + 1) + 1,
                base + 12,
                base + 12,
                row.name
            );
        }
    }
    let mut x = LEFT;
    let y = height - 8;
    for (name, colour) in
        STRATEGIES.into_iter().zip(COLOURS).chain([("bound: no partition saves more", "#b3261e")])
    {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"9\" height=\"9\" fill=\"{colour}\"/><text x=\"{}\" y=\"{y}\">{name}</text>",
            y - 8,
            x + 13
        );
        x += 24 + 6 * name.len();
    }
    out.push_str("</svg>\n");
    out
}

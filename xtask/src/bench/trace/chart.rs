//! The results as a picture: what one run takes, and how near plans for several
//! runs come to the bound.

use std::fmt::Write as _;

use super::Row;

const HEIGHT: usize = 160;
const LEFT: usize = 40;
const GROUP: usize = 58;
const COLOURS: [&str; 3] = ["#2f7f86", "#9aa5b1", "#e0a458"];

/// Two panels of bars, by program.
pub fn svg(rows: &[Row]) -> String {
    // Wide enough for the titles.
    let width = LEFT + rows.len().max(9) * GROUP + 20;
    let panel = HEIGHT + 75;
    let height = 2 * panel + 30;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"10\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let singles = rows.iter().filter_map(|row| {
        let single = row.single.as_ref()?;
        let bits = 8.0 * single.bytes as f64 / single.blocks.max(1) as f64;
        let instructions = single.instructions.1 as f64 / single.instructions.0 as f64;
        Some((&row.name[..], vec![single.seconds.1 / single.seconds.0, instructions, bits]))
    });
    let title = "one run: time, instructions (of the original's), bits per block";
    draw(&mut out, (title, 4.0, 1.6), 25, width, singles);
    let several = rows.iter().filter_map(|row| {
        let over = |runs| row.several.as_ref()?.best(runs).map(|it| it.0 / it.2.max(1e-9));
        Some((&row.name[..], vec![over(2)?, over(4)?, over(6)?]))
    });
    let title = "2, 4 and 6 runs: hits of the worst run, of the bound";
    draw(&mut out, (title, 4.0, 1.15), 25 + panel, width, several);
    out.push_str("</svg>\n");
    out
}

/// A panel up to `most`, with a line at what is wanted.
fn draw<'a>(
    out: &mut String,
    (title, most, wanted): (&str, f64, f64),
    top: usize,
    width: usize,
    groups: impl Iterator<Item = (&'a str, Vec<f64>)>,
) {
    let base = top + HEIGHT;
    let tall = |value: f64| ((value / most).clamp(0.0, 1.0) * HEIGHT as f64).round() as usize;
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{title}; the line is what is wanted</text>",
        top - 8
    );
    for step in 0..=most as usize {
        let y = base - tall(step as f64);
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"#555\">{step}</text>",
            width - 20,
            LEFT - 5,
            y + 3
        );
    }
    for (place, (name, values)) in groups.enumerate() {
        let left = LEFT + place * GROUP + 6;
        for (bar, value) in values.into_iter().enumerate() {
            let height = tall(value);
            let _ = writeln!(
                out,
                "<rect x=\"{}\" y=\"{}\" width=\"13\" height=\"{height}\" fill=\"{}\"><title>{name}: {value:.2}</title></rect>",
                left + bar * 15,
                base - height,
                COLOURS[bar % COLOURS.len()]
            );
        }
        let (x, y) = (left + 22, base + 12);
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" transform=\"rotate(-35 {x} {y})\">{name}</text>"
        );
    }
    let y = base - tall(wanted);
    let _ = writeln!(
        out,
        "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#b3261e\" stroke-width=\"1.5\"/>",
        width - 20
    );
}

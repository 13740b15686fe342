//! Draws a view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::view::{Body, Cell, Panel, Tone, View};
use crate::columns::{cut, pad, width, wrap};

/// The lines of a panel besides its rows: its title, and the names of its columns.
const FRAME: u16 = 2;
/// The most lines of the footer.
const FOOTER: u16 = 6;
/// The widest a column gets that is not the last one.
const WIDEST: usize = 32;

/// Draws the whole view.
pub fn draw(view: &View, colours: bool, frame: &mut Frame<'_>) {
    let (text, tone) = &view.footer;
    let most = FOOTER.min(frame.area().height / 2).max(1);
    let mut lines = wrap(text, usize::from(frame.area().width));
    lines.truncate(usize::from(most));
    let height = u16::try_from(lines.len()).unwrap_or(most);
    let parts = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(height)];
    let [title, body, footer] = Layout::vertical(parts).areas(frame.area());
    let bold = style(Tone::Bold, colours);
    frame.render_widget(Line::styled(view.title.as_str(), bold), title);
    match &view.body {
        Body::Panels(panels) => draw_panels(panels, colours, frame, body),
        Body::Text { title, lines, first } => {
            let shown = lines.iter().skip(*first).take(usize::from(body.height));
            let line =
                |(text, tone): &(String, Tone)| Line::styled(text.clone(), style(*tone, colours));
            let text: Vec<Line<'_>> = shown.map(line).collect();
            frame.render_widget(Paragraph::new(text).block(framed(title, true, colours)), body);
        }
    }
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::raw).collect();
    frame.render_widget(Paragraph::new(lines).style(style(*tone, colours)), footer);
    if !view.popup.is_empty() {
        draw_popup(&view.popup, colours, frame, body);
    }
}

fn style(tone: Tone, colours: bool) -> Style {
    let colour = |colour| if colours { Style::new().fg(colour) } else { Style::new() };
    match tone {
        Tone::Plain => Style::new(),
        Tone::Bold => Style::new().add_modifier(Modifier::BOLD),
        Tone::Dim => Style::new().add_modifier(Modifier::DIM),
        Tone::Good => colour(Color::Green),
        Tone::Warn => colour(Color::Yellow),
        Tone::Bad => colour(Color::Red),
    }
}

fn framed<'a>(title: &str, is_active: bool, colours: bool) -> Block<'a> {
    let tone = style(if is_active { Tone::Bold } else { Tone::Dim }, colours);
    let title = if title.is_empty() { String::new() } else { format!(" {title} ") };
    Block::new().borders(Borders::TOP).title(Line::styled(title, tone))
}

fn draw_panels(panels: &[Panel], colours: bool, frame: &mut Frame<'_>, area: Rect) {
    let heights = heights(panels, area.height);
    let mut top = area.y;
    for (panel, height) in panels.iter().zip(heights) {
        if height > 0 {
            let area = Rect { x: area.x, y: top, width: area.width, height };
            draw_panel(panel, colours, frame, area);
        }
        top += height;
    }
}

/// How many lines each panel gets: what it needs, or a fair part of what there is. The panel in which
/// keys move comes first. One that would have no row is not shown. The last one that is shown gets what
/// is left.
fn heights(panels: &[Panel], lines: u16) -> Vec<u16> {
    let needs = |panel: &Panel| {
        u16::try_from(panel.rows.len()).unwrap_or(u16::MAX).saturating_add(FRAME).max(FRAME + 1)
    };
    let mut order: Vec<(usize, &Panel)> = panels.iter().enumerate().collect();
    order.sort_by_key(|(_, panel)| (panel.selected.is_none(), needs(panel)));
    let mut heights = vec![0; panels.len()];
    let mut left = lines;
    for (nth, (at, panel)) in order.iter().enumerate() {
        let others = u16::try_from(order.len() - nth).unwrap_or(u16::MAX);
        let share = match others {
            1 => left,
            _ if nth == 0 => left.div_ceil(2),
            others => left / others,
        };
        let height = needs(panel).min(share.max(FRAME + 1)).min(left);
        if nth == 0 || height > FRAME {
            heights[*at] = height;
            left -= height;
        }
    }
    // What the others do not need.
    if let Some((at, panel)) = order.first() {
        let more = needs(panel).saturating_sub(heights[*at]).min(left);
        heights[*at] += more;
        left -= more;
    }
    if let Some(last) = heights.iter_mut().rfind(|height| **height > 0) {
        *last += left;
    }
    heights
}

fn draw_panel(panel: &Panel, colours: bool, frame: &mut Frame<'_>, area: Rect) {
    let widths = widths(panel);
    let mut lines = vec![head(panel, &widths, colours)];
    let shown = usize::from(area.height.saturating_sub(FRAME));
    // The selected row is the last one that is shown, or one before.
    let first = panel.selected.map_or(0, |at| (at + 1).saturating_sub(shown));
    for (nth, row) in panel.rows.iter().enumerate().skip(first).take(shown) {
        let line = line(row, &widths, colours);
        let is_selected = panel.selected == Some(nth);
        lines.push(if is_selected {
            line.style(Style::new().add_modifier(Modifier::REVERSED))
        } else {
            line
        });
    }
    let block = framed(&panel.title, panel.selected.is_some(), colours);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// The width of each column: that of its widest cell.
fn widths(panel: &Panel) -> Vec<usize> {
    let column = |(nth, name): (usize, &&str)| {
        let cells = panel.rows.iter().filter_map(|row| row.get(nth));
        let widest = cells.map(|cell| width(&cell.text)).chain([width(name)]).max().unwrap_or(0);
        if nth + 1 == panel.head.len() { widest } else { widest.min(WIDEST) }
    };
    panel.head.iter().enumerate().map(column).collect()
}

fn head<'a>(panel: &Panel, widths: &[usize], colours: bool) -> Line<'a> {
    let is_right =
        |nth: usize| panel.rows.first().and_then(|row| row.get(nth)).is_some_and(|cell| cell.right);
    let cell = |(nth, name): (usize, &&str)| Cell {
        text: (*name).to_owned(),
        right: is_right(nth),
        tone: Tone::Dim,
    };
    let cells: Vec<Cell> = panel.head.iter().enumerate().map(cell).collect();
    line(&cells, widths, colours)
}

fn line<'a>(cells: &[Cell], widths: &[usize], colours: bool) -> Line<'a> {
    let spans = cells.iter().zip(widths).flat_map(|(cell, width)| {
        [Span::styled(fit(cell, *width), style(cell.tone, colours)), Span::raw("  ")]
    });
    Line::from(spans.collect::<Vec<_>>())
}

/// The text of a cell, padded or cut to a width.
fn fit(cell: &Cell, to: usize) -> String {
    pad(&cut(&cell.text, to), to, cell.right)
}

fn draw_popup(lines: &[String], colours: bool, frame: &mut Frame<'_>, area: Rect) {
    let widest = lines.iter().map(|line| width(line)).max().unwrap_or(0);
    let wide = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(area.width);
    let high = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let (x, y) = (area.x + (area.width - wide) / 2, area.y + (area.height - high) / 2);
    let area = Rect { x, y, width: wide, height: high };
    let block = Block::bordered()
        .title(Line::styled(" keys ", style(Tone::Bold, colours)))
        .padding(ratatui::widgets::Padding::horizontal(1));
    let text: Vec<Line<'_>> = lines.iter().map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(block), area);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_wide_as_their_column_and_cut_between_characters() {
        let fit = |text: &str, right, to| {
            fit(&Cell { text: text.to_owned(), right, tone: Tone::Plain }, to)
        };
        assert_eq!(fit("日本", false, 6), "日本  ");
        assert_eq!(fit("e\u{301}", true, 3), "  e\u{301}");
        assert_eq!(fit("日本語", false, 5), "日本…");
        // Half of a wide character is a blank.
        assert_eq!(fit("日本語", false, 4), "日… ");
        assert_eq!(fit("🇩🇪🇩🇪", false, 3), "🇩🇪…");
        assert_eq!(fit("ae\u{301}bc", false, 3), "ae\u{301}…");
        assert_eq!(fit("❤\u{fe0f}❤\u{fe0f}", false, 3), "❤\u{fe0f}…");
    }
}

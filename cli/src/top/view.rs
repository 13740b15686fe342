//! The view: what is shown, as rows and lines of text, before it is drawn.

/// What is shown.
#[derive(Debug)]
pub struct View {
    /// The first line.
    pub title: String,
    pub body: Body,
    /// The last line.
    pub footer: (String, Tone),
    /// Lines above the rest: the help.
    pub popup: Vec<String>,
}

#[derive(Debug)]
pub enum Body {
    Panels(Vec<Panel>),
    /// Lines of text, from this one on.
    Text {
        title: String,
        lines: Vec<(String, Tone)>,
        first: usize,
    },
}

/// A list of rows.
#[derive(Debug)]
pub struct Panel {
    pub title: String,
    pub head: &'static [&'static str],
    pub rows: Vec<Vec<Cell>>,
    /// The number of the selected row, if keys move in this panel.
    pub selected: Option<usize>,
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Tube(String),
    Group { tube: String, group: String },
    Task { tube: String, id: u64 },
}

impl Item {
    pub fn tube(&self) -> &str {
        match self {
            Item::Tube(tube) | Item::Group { tube, .. } | Item::Task { tube, .. } => tube,
        }
    }
}

/// A row, and what it is about.
#[derive(Debug)]
pub struct Row {
    pub item: Item,
    pub cells: Vec<Cell>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    /// Aligned to the right.
    pub right: bool,
    pub tone: Tone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Bold,
    Dim,
    Good,
    Warn,
    Bad,
}

//! The keys that `top` knows.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    /// Escape.
    Back,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
}

/// The keys and what they do, for the help.
pub const HELP: [(&str, &str); 15] = [
    ("Up, Down", "select the row before, or the next one"),
    ("PageUp, PageDown", "move by a page"),
    ("Home, End", "move to the first row, or to the last one"),
    ("Tab, Shift-Tab", "move to the next list, or to the one before"),
    ("Enter", "open the tube, the failure group, the task or the schedule"),
    ("Left, Right", "in a tube: show the tasks in another state"),
    ("Esc", "go back; remove the filter"),
    ("k", "make the buried or delayed task, or the group, ready"),
    ("d", "delete the task; asks first"),
    ("p", "pause the tube, or resume it"),
    ("/", "show only the rows with a text"),
    ("r", "read the store anew"),
    ("?", "show this help"),
    ("q", "quit"),
    ("Ctrl-C", "quit"),
];

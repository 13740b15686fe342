//! The terminal: its mode while `top` has it, its keys, and its size.

use std::io::{self, IsTerminal, Stdout};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::draw::draw;
use super::key::Key;
use super::view::View;
use crate::failure::{CommandResult, Exit, Failure};
use crate::output::colours_on;

/// The terminal, in raw mode and with a screen of its own. Its mode is restored when this is dropped.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    colours: bool,
}

/// What the user did at the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    Key(Key),
    /// The terminal has another size: this many lines.
    Lines(u16),
}

impl Screen {
    /// Refuses what is not a terminal: a pipe or a file.
    pub fn check() -> CommandResult {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            return Ok(());
        }
        Err(Failure::usage("top needs a terminal: its input and its output must be one").hint(
            "`tubewell stats`, `tubewell list` and `tubewell events --follow` print to any output",
        ))
    }

    pub fn open() -> CommandResult<Screen> {
        enable_raw_mode().map_err(failed)?;
        let entered = execute!(io::stdout(), EnterAlternateScreen, Hide);
        let opened = entered.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match opened {
            Ok(terminal) => Ok(Screen { terminal, colours: colours_on(&io::stdout()) }),
            Err(error) => {
                leave();
                Err(failed(error))
            }
        }
    }

    pub fn lines(&self) -> u16 {
        self.terminal.size().map_or(24, |size| size.height)
    }

    /// Draws the view. Only what differs from the last view is written.
    pub fn draw(&mut self, view: &View) -> CommandResult {
        let colours = self.colours;
        self.terminal.draw(|frame| draw(view, colours, frame)).map(drop).map_err(failed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Restores the mode of the terminal, as well as it can be done.
fn leave() {
    let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

fn failed(error: io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("the terminal failed: {error}"))
}

/// Waits for the user.
pub fn typed() -> io::Result<Typed> {
    loop {
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                if let Some(key) = known(key) {
                    return Ok(Typed::Key(key));
                }
            }
            Event::Resize(_, lines) => return Ok(Typed::Lines(lines)),
            _ => {}
        }
    }
}

fn known(key: KeyEvent) -> Option<Key> {
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if with_control => Key::Interrupt,
        KeyCode::Char(letter) if !with_control => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Back,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

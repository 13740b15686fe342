//! Selections of tasks, for calls that change many of them.

use crate::{Error, Result, State};

/// Which tasks of a tube a call changes: [`delete_where`](crate::Tube::delete_where) and
/// [`kick_where`](crate::Tube::kick_where).
///
/// # Example: the ten oldest dead letters of one cause
/// ```
/// use tubewell::Select;
///
/// let timeouts = Select::new().group("timeout").limit(10);
/// # let _ = timeouts;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "a selection does nothing until it is used"]
pub struct Select {
    pub(crate) state: Option<State>,
    pub(crate) group: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) limit: Option<u64>,
}

impl Select {
    /// A selection without a condition. A call that deletes refuses it.
    pub fn new() -> Select {
        Select::default()
    }

    /// Tasks in this state. Default: any state, or buried if there is a
    /// [`group`](Select::group). A kick selects buried tasks only.
    pub fn state(mut self, state: State) -> Select {
        self.state = Some(state);
        self
    }

    /// Buried tasks of this failure group, those that were buried first first. Default: of any
    /// group, and of none.
    #[doc(alias = "dead letter")]
    pub fn group(mut self, name: impl Into<String>) -> Select {
        self.group = Some(name.into());
        self
    }

    /// Tasks with this [tag](crate::Put::tag), in the order of their ids; of a failure group, in
    /// the order of their burials. Default: with any tags, and with none.
    #[doc(alias = "label")]
    pub fn tag(mut self, tag: impl Into<String>) -> Select {
        self.tag = Some(tag.into());
        self
    }

    /// At most this many tasks. Default: without a limit.
    pub fn limit(mut self, tasks: u64) -> Select {
        self.limit = Some(tasks);
        self
    }

    /// The state of the selected tasks; `None` for tasks with a tag, in any state.
    pub(crate) fn wanted_state(&self) -> Option<State> {
        let is_any = self.tag.is_some() && self.group.is_none();
        self.state.or(Some(State::Buried).filter(|_| !is_any))
    }

    /// Refuses a selection that a delete does not accept.
    pub(crate) fn check_delete(&self) -> Result<()> {
        match (self.state, &self.group) {
            (None, None) if self.tag.is_none() => Err(Error::invalid(
                "a selection of tasks to delete needs a state, a failure group or a tag; truncate \
                 removes all tasks",
            )),
            (Some(state), Some(_)) if state != State::Buried => Err(Error::invalid(format!(
                "no {state} task is in a failure group, only buried tasks are; leave the state out"
            ))),
            _ => Ok(()),
        }
    }

    /// As a selection of buried tasks. Refuses one that a kick does not accept.
    pub(crate) fn for_kick(self) -> Result<Select> {
        self.check_kick()?;
        Ok(self.state(State::Buried))
    }

    fn check_kick(&self) -> Result<()> {
        match self.state {
            Some(state) if state != State::Buried => Err(Error::invalid(format!(
                "a {state} task cannot be kicked, only buried tasks can; leave the state out"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses what `for_kick` does not return.
    pub(crate) fn check_for_kick(&self) -> Result<()> {
        self.check_kick()?;
        match self.state {
            Some(_) => Ok(()),
            None => Err(Error::invalid("a kick selects buried tasks")),
        }
    }
}

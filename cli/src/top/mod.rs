//! `top`: a live view of a store.
//!
//! A model decides everything: `model` and `keys` take inputs in, `rows` and `show` say what is shown, `draw`
//! draws it. Here are the threads that bring the inputs: the terminal, the events of the store, and
//! the calls, which may take time while the keys must not.

mod draw;
mod key;
mod keys;
mod model;
mod rates;
mod reading;
mod rows;
mod screen;
mod show;
mod task_view;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use tubewell::{Filter, Store};

use crate::args::Top;
use crate::failure::{CommandResult, Exit, Failure};
use crate::follow::{Followed, Follower};
use crate::output::count;
use crate::progress::Progress;
use crate::{connection, follow, signals, store};
use model::{Action, Input, Model, Request};
use screen::{Screen, Typed};

/// How many events wait. One would do: what has changed is read, whatever the events say.
const EVENTS: usize = 16;

/// What the threads tell the loop.
enum Message {
    Input(Input),
    /// A signal asks the command to stop.
    Stop(u8),
    /// The store was closed.
    Closed,
    /// The terminal has failed.
    Failed(Failure),
}

/// Shows the store until the user quits. `source` is its file or its address.
pub fn run(store: &Store, source: &str, args: &Top) -> CommandResult {
    Screen::check()?;
    if let Some(tube) = &args.tube {
        store::tube(store, tube)?;
    }
    let (inbox, messages) = channel();
    let stop = inbox.clone();
    signals::forward(move |signal| stop.send(Message::Stop(signal)).is_ok())?;
    let permits = follow_events(Follower::new(store, Filter::new(), EVENTS)?, inbox.clone())?;
    let clock = Arc::new(Progress::hidden());
    let requests = answer(store.clone(), clock.clone(), inbox.clone())?;
    let mut screen = Screen::open()?;
    listen(inbox)?;
    let has_owner = connection::owner().is_some();
    let (model, first) = Model::new(source.to_owned(), args.tube.clone(), has_owner);
    let mut looped = Loop { model, clock, requests, permits, interval: args.interval };
    looped.run(first, &mut screen, &messages)
}

struct Loop {
    model: Model,
    clock: Arc<Progress>,
    requests: Sender<Request>,
    /// Each lets the thread of the events report one change.
    permits: SyncSender<()>,
    interval: Duration,
}

impl Loop {
    fn run(
        &mut self,
        first: Vec<Request>,
        screen: &mut Screen,
        messages: &Receiver<Message>,
    ) -> CommandResult {
        self.update(Input::Lines(screen.lines()));
        self.send(first);
        let mut next_tick = self.interval;
        let mut is_permitted = false;
        loop {
            screen.draw(&self.model.view())?;
            let now = self.clock.elapsed();
            let is_idle = is_permitted && !self.model.has_clock();
            let tick = Some(next_tick.saturating_sub(now)).filter(|_| !is_idle);
            let message = match tick.into_iter().chain(self.model.due_in(now)).min() {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => messages.recv_timeout(wait),
            };
            let input = match message {
                Ok(Message::Input(input)) => input,
                Ok(Message::Stop(signal)) => return Err(Failure::silent(Exit::Signal(signal))),
                Ok(Message::Closed) => {
                    return Err(Failure::new(Exit::Failed, "the store was closed"));
                }
                Ok(Message::Failed(failure)) => return Err(failure),
                Err(_) if self.clock.elapsed() < next_tick => Input::Due,
                Err(_) => {
                    // A full channel has a permit already.
                    let _ = self.permits.try_send(());
                    is_permitted = true;
                    next_tick = self.clock.elapsed().saturating_add(self.interval);
                    Input::Tick
                }
            };
            if matches!(input, Input::Changed) {
                is_permitted = false;
                next_tick = self.clock.elapsed().saturating_add(self.interval);
            }
            let requests = self.update(input);
            if requests.contains(&Request::Quit) {
                return Ok(());
            }
            self.send(requests);
        }
    }

    fn update(&mut self, input: Input) -> Vec<Request> {
        self.model.update(self.clock.elapsed(), input)
    }

    fn send(&self, requests: Vec<Request>) {
        for request in requests {
            // The thread lives as long as this end of the channel.
            let _ = self.requests.send(request);
        }
    }
}

/// Starts the thread that reports changes. It reports one for each permit, so that a busy store is read
/// no more often than permits are given.
fn follow_events(mut events: Follower, inbox: Sender<Message>) -> CommandResult<SyncSender<()>> {
    let (permits, permitted) = sync_channel(1);
    spawn("events", move || {
        loop {
            let message = match events.next(None) {
                Followed::Closed => Message::Closed,
                Followed::Interrupted => {
                    Message::Input(Input::Cut("the connection has ended".into()))
                }
                Followed::Broken(why) => Message::Input(Input::Cut(why)),
                Followed::Refused(error) => Message::Failed(error.into()),
                Followed::TimedOut => continue,
                Followed::Event(_) | Followed::Resumed => {
                    if permitted.recv().is_err() {
                        return;
                    }
                    // What these events say is in the reading that follows.
                    while events.try_next().is_some() {}
                    Message::Input(Input::Changed)
                }
            };
            let is_last = matches!(message, Message::Closed | Message::Failed(_));
            if inbox.send(message).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(permits)
}

/// Starts the thread that reads and changes the store.
fn answer(
    store: Store,
    clock: Arc<Progress>,
    inbox: Sender<Message>,
) -> CommandResult<Sender<Request>> {
    let (requests, received) = channel();
    spawn("calls", move || {
        for request in received {
            let input = match request {
                Request::Read(want) => match reading::read(&store, want, clock.elapsed()) {
                    Ok(reading) => Input::Read(Box::new(reading)),
                    Err(error) => Input::NotRead(error.to_string()),
                },
                Request::Act(action) => {
                    Input::Acted(act(&store, &action).map_err(|error| error.to_string()))
                }
                Request::Ask => {
                    // Also a refusal is an answer. The thread of the events learns of a broken connection.
                    let _ = follow::ask(&store);
                    Input::Answered
                }
                Request::Quit => return,
            };
            if inbox.send(Message::Input(input)).is_err() {
                return;
            }
        }
    })?;
    Ok(requests)
}

/// Starts the thread that waits for keys. It ends with the process: no system ends the wait for a key.
fn listen(inbox: Sender<Message>) -> CommandResult {
    spawn("keys", move || {
        loop {
            let message = match screen::typed() {
                Ok(Typed::Key(key)) => Message::Input(Input::Key(key)),
                Ok(Typed::Lines(lines)) => Message::Input(Input::Lines(lines)),
                Err(error) => Message::Failed(Failure::new(
                    Exit::Failed,
                    format!("cannot read the terminal: {error}"),
                )),
            };
            let is_last = matches!(message, Message::Failed(_));
            if inbox.send(message).is_err() || is_last {
                return;
            }
        }
    })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> CommandResult {
    let failed = |error| Failure::new(Exit::Failed, format!("cannot start a thread: {error}"));
    thread::Builder::new().name(name.into()).spawn(run).map(drop).map_err(failed)
}

/// Changes the store. Returns what was done.
fn act(store: &Store, action: &Action) -> tubewell::Result<String> {
    let done = action.verb("kicked", "deleted", "paused", "resumed");
    match action {
        Action::Kick { tube, id } => store::kick(&store.find_tube(tube)?, *id).map(|_| done),
        Action::KickGroup { tube, group } => {
            let kicked = store.find_tube(tube)?.admin().kick(Filter::new().group(group))?;
            Ok(format!("kicked {} of {tube}", count(kicked, "task")))
        }
        Action::KickAll { tube } => {
            let kicked = store.find_tube(tube)?.admin().kick(Filter::new())?;
            Ok(format!("kicked {} of {tube}", count(kicked, "task")))
        }
        Action::Delete { tube, id } => store.find_tube(tube)?.delete(*id).map(|_| done),
        Action::Pause { tube } => store.find_tube(tube)?.admin().pause().map(|()| done),
        Action::Resume { tube } => store.find_tube(tube)?.admin().unpause().map(|()| done),
    }
}

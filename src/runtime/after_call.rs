//! What follows a decided call under the same hold of the lock: the end of its edits, what it leaves to the
//! writer thread, and the calls in line that have space now.

use super::leadership::request_commit;
use crate::core::{Buffer, CarriedOut, Core, LineCall, Wait};

/// How many calls in line are carried out under one hold of the lock, so that other calls get it in between.
pub(super) const LINE_STEP: usize = 64;

/// A call has made its edits. One that could not read a row fails the store.
pub(super) fn end_call(core: &mut Core) {
    for of in Buffer::ALL {
        let buffer = &mut core.buffers[of];
        buffer.end_call();
        if let Some(error) = buffer.read_error.take() {
            core.fail_with(&error);
        }
    }
}

/// Leaves what a decided call waits for to the writer thread.
pub(super) fn leave_to_writer(core: &mut Core, wait: Option<&Wait>) {
    match wait {
        Some(Wait::Flush(buffer, batch)) => {
            let lead = request_commit(core, *buffer, batch);
            core.effects.call_writer |= lead;
            core.buffers[*buffer].has_leader &= !lead;
        }
        Some(wait) => core.ask_writer(wait),
        None => {}
    }
}

/// Carries out a step of the calls in line that have space now, and calls the futures. The writer thread goes on
/// with the rest.
pub(super) fn serve_line(core: &mut Core) {
    carry_out(core, Core::serve_capacity);
    core.effects.call_writer |= core.line_has_space();
}

pub(super) fn carry_out(core: &mut Core, next: fn(&mut Core) -> Option<LineCall<Core>>) {
    for _ in 0..LINE_STEP {
        let Some(call) = next(core) else { return };
        let CarriedOut { wait, slot, owned } = call(core);
        leave_to_writer(core, wait.as_ref());
        core.effects.after_unlock.deeds().line_slots.push((slot, owned));
        end_call(core);
    }
}

// Changes of many tasks: those that are marked, or all that match a filter, in steps that can be stopped. And exports.

import { STEP, call, get, listTasks, path, query } from './api.js';
import { number, plural } from './format.js';
import { confirm, runSteps } from './dialogs.js';
import { live } from './live.js';
import { STATES, html, inTurn, toast } from './ui.js';

/** How far tasks are counted before a question. */
const COUNTED = 20_000;
const AT_ONCE = 6;
/** A bury is a call for each task: the bar moves after so many of them. */
const BURIALS = 100;

const VERBS = {
  kick: { label: 'Kick', done: 'kicked' },
  bury: { label: 'Bury', done: 'buried' },
  delete: { label: 'Delete', done: 'deleted', isDanger: true },
  move: { label: 'Move', done: 'moved' },
  release: { label: 'Release', done: 'released' },
  revoke: { label: 'Revoke', done: 'revoked', isDanger: true },
};

/** The conditions that a call which changes many tasks knows. A bury has no such call. */
const CONDITIONS = {
  kick: ['state', 'tag', 'group'],
  delete: ['state', 'tag', 'group'],
  move: ['state', 'tag', 'group'],
  release: ['state', 'tag', 'owner'],
  revoke: ['state', 'tag', 'owner'],
};
/** Verbs that have a call for all tubes. */
const OF_ALL_TUBES = ['kick', 'delete'];

/** Whether a call can select the tasks. Otherwise they are listed, and changed by their ids. */
function canSelect(verb, { tube: _, ...conditions }) {
  const given = Object.keys(conditions).filter((name) => conditions[name] != null);
  return given.every((name) => CONDITIONS[verb]?.includes(name));
}

/** The tubes that have tasks in a state, now. */
async function tubesWith(state, signal) {
  const { tubes } = await get('v1/backlog', signal);
  return tubes.filter((tube) => countOf(tube, state) > 0).map(({ tube }) => tube);
}

/** How many tasks a tube has in a state, or in all of them, as the API counts them. */
function countOf({ tasks }, state) {
  const of = (one) => (one === 'done' ? tasks.kept : tasks[one]);
  return (state == null ? STATES : [state]).reduce((sum, one) => sum + of(one), 0);
}

/** A filter in words. */
export function describe({ tube, state, tag, group, sub_queue: subQueue, owner }) {
  const named = [['tag', tag], ['failure group', group], ['sub-queue', subQueue], ['owner', owner]];
  const conditions = named.filter(([, value]) => value != null).map(([name, value]) => `${name} “${value}”`);
  const where = tube == null ? 'in all tubes' : `in tube “${tube}”`;
  return [state ?? 'all states', where, ...conditions].join(', ');
}

/** How many tasks match, where the store counts them; null where they have to be listed. */
export function knownCount({ tube, ...filter }) {
  const others = Object.entries(filter).filter(([name, value]) => value != null && name !== 'state');
  if (others.length > 0) return null;
  const tubes = tube == null ? live.tubes : [live.byName.get(tube)].filter(Boolean);
  const states = filter.state == null ? STATES : [filter.state];
  return tubes.reduce((sum, tube) => states.reduce((part, state) => part + (tube.states[state] ?? 0), sum), 0);
}

/** Counts by pages, up to a limit. `isMore`: there are more. */
async function count(filter) {
  if (knownCount(filter) != null) {
    // What is shown may be a second old.
    const { tubes } = filter.tube == null ? await get('v1/backlog') : { tubes: [await get(path`v1/tubes/${filter.tube}`)] };
    return { count: tubes.reduce((sum, tube) => sum + countOf(tube, filter.state), 0), isMore: false };
  }
  let [found, after] = [0, null];
  do {
    const page = await listTasks({ ...filter, after, limit: STEP });
    found += page.tasks.length;
    after = page.next;
  } while (after != null && found < COUNTED);
  return { count: found, isMore: after != null };
}

/** Changes all tasks that match, after a question that has their number. Returns whether anything was done. */
export async function changeMatching(verb, filter, { to, known, note } = {}) {
  const { label, done, isDanger } = VERBS[verb];
  let counted;
  try {
    counted = known != null ? { count: known, isMore: false } : await count(filter);
  } catch (error) {
    toast(error.message, true);
    return false;
  }
  if (counted.count === 0) {
    toast(`No task matches: ${describe(filter)}.`);
    return false;
  }
  const tasks = counted.isMore ? `more than ${number(counted.count)} tasks` : plural(counted.count, 'task');
  const target = to == null ? '' : ` to “${to}”`;
  const agreed = await confirm({
    title: `${label} ${tasks}${target}?`,
    intro: html`<p>All that match: ${describe(filter)}.${note && ` ${note}`}</p>
      <p class="quiet">${verb === 'bury'
        ? 'One after the other, which can be stopped. A task that a worker takes in between is buried, too.'
        : `In steps of ${number(STEP)}, which can be stopped. A step that is done stays done.`}</p>`,
    submit: `${label} ${tasks}`,
    isDanger,
    run: async () => true,
  });
  if (!agreed) return false;
  // No more than were agreed to: a kicked task that fails at once would match again.
  const most = counted.isMore ? Infinity : counted.count;
  await runSteps({
    title: `${label} tasks`,
    total: most,
    done,
    step: (canSelect(verb, filter) ? stepsBySelection : stepsByIds)(verb, filter, { to, most }),
  });
  return true;
}

function stepsBySelection(verb, { tube, ...conditions }, { to, most }) {
  // Tasks keep their tag, so a step goes on where the one before has ended. Others no longer match.
  const goesOn = conditions.tag != null && verb !== 'delete';
  let left = tube != null ? [tube] : null;
  let after = null;
  return async (run) => {
    // Null is all tubes.
    left ??= OF_ALL_TUBES.includes(verb) ? [null] : (await tubesWith(conditions.state, run.signal)).filter((name) => name !== to);
    if (left.length === 0) return true;
    const limit = Math.min(STEP, most - run.count);
    const where = left[0] == null ? `v1/all/${verb}` : path`v1/tubes/${left[0]}/` + verb;
    const answer = await call('POST', where + query({ ...conditions, to, limit, after }), { signal: run.signal });
    run.count += answer.changed;
    after = answer.next;
    if (goesOn ? after == null : answer.changed < limit) {
      left.shift();
      after = null;
    }
    return left.length === 0 || run.count >= most;
  };
}

function stepsByIds(verb, filter, { to, most }) {
  let after = null;
  return async (run) => {
    const limit = Math.min(verb === 'bury' ? BURIALS : STEP, most - run.count);
    const page = await listTasks({ ...filter, after, limit }, run.signal);
    after = page.next;
    for (const [tube, tasks] of groupBy(page.tasks.filter((task) => task.tube !== to), (task) => task.tube)) {
      await changeIds(verb, tube, tasks.map((task) => task.id), { to, run });
    }
    return after == null || run.count >= most;
  };
}

/** Changes tasks of a tube, at most `STEP`, and adds to `run.count` how many were. Those that have gone meanwhile are left out. */
async function changeIds(verb, tube, ids, { to, run }) {
  if (verb !== 'bury') {
    const where = path`v1/tubes/${tube}/` + verb + query({ to });
    run.count += (await call('POST', where, { json: { ids }, signal: run.signal })).changed;
    return;
  }
  await inTurn(ids, AT_ONCE, async (id) => {
    try {
      await call('POST', path`v1/tasks/${id}/bury`, { signal: run.signal });
      run.count += 1;
    } catch (error) {
      if (error.status !== 404 && error.status !== 409) throw error;
    }
  }, run.signal);
}

/** Changes the tasks that are marked. */
export async function changeMarked(verb, tasks, { to } = {}) {
  const { label, done, isDanger } = VERBS[verb];
  const title = `${label} ${plural(tasks.length, 'marked task')}${to == null ? '' : ` to “${to}”`}`;
  if (isDanger || tasks.length > 100) {
    const agreed = await confirm({ title: `${title}?`, submit: title, isDanger, run: async () => true });
    if (!agreed) return false;
  }
  const parts = [...groupBy(tasks, (task) => task.tube)].flatMap(([tube, all]) => {
    const ids = all.map((task) => task.id);
    return Array.from({ length: Math.ceil(ids.length / STEP) }, (_, at) => [tube, ids.slice(at * STEP, (at + 1) * STEP)]);
  });
  const run = { count: 0 };
  try {
    for (const [tube, ids] of parts) await changeIds(verb, tube, ids, { to, run });
    const others = tasks.length - run.count;
    const left = others > 0 ? ` ${plural(others, 'task')} could not be: they are in another state, or gone.` : '';
    toast(`${plural(run.count, 'task')} ${done}.${left}`);
  } catch (error) {
    toast(`${run.count > 0 ? `${plural(run.count, 'task')} ${done}, then: ` : ''}${error.message}`, true);
  }
  return true;
}

export function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (groups.has(key)) groups.get(key).push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

/** Writes tasks as JSON lines into a file of the browser, with their bodies. `tasks`: the marked ones, or null for all that match. */
export async function exportTasks(filter, tasks) {
  const parts = [];
  let [after, isFirst] = [null, true];
  const nextPage = async (signal) => {
    if (tasks != null) return tasks;
    const answer = await listTasks({ ...filter, after }, signal);
    after = answer.next;
    return answer.tasks;
  };
  await runSteps({
    title: 'Export tasks',
    total: tasks?.length ?? knownCount(filter),
    done: 'exported',
    async step(run) {
      if (isFirst || after != null) {
        isFirst = false;
        parts.push(await linesOf(await nextPage(run.signal), run));
        return false;
      }
      if (run.count > 0) download(parts, `${filter.tube ?? 'tasks'}.jsonl`, 'application/jsonl');
      return true;
    },
  });
}

/** The tasks as lines of JSON. */
async function linesOf(tasks, run) {
  const lines = new Array(tasks.length).fill('');
  await inTurn(tasks.entries(), AT_ONCE, async ([at, task]) => {
    try {
      lines[at] = `${JSON.stringify(await get(path`v1/tasks/${task.id}`, run.signal))}\n`;
      run.count += 1;
    } catch (error) {
      // It has ended since it was listed.
      if (error.status !== 404) throw error;
    }
  }, run.signal);
  return new Blob([lines.join('')]);
}

/** Gives a file to the browser. */
export function download(parts, name, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

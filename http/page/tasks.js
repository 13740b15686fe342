// A list of tasks by pages, with marks, and what can be done with them. And the forms of tasks and tubes.

import { call, get, listTasks, path, query } from './api.js';
import { changeMarked, changeMatching, exportTasks } from './bulk.js';
import { askForm, confirm } from './dialogs.js';
import { bytes, duration, number, optionValue, plural } from './format.js';
import { live, onOtherBody } from './live.js';
import { Action, Empty, Progress, State, Tags, Trouble, When, attempt, html, inTurn, taskLink, toast, tubeLink, useEffect,
  useLoad, useRef, useState } from './ui.js';

const PREVIEW_MAX = 16 << 10;
const PREVIEWS = 300;
/** Rows stay where they are for this time after a pointer has moved over them, in ms. */
const POINTED = 2500;
/** The beginnings of bodies, and of which tasks they are being read, or have changed since. */
const previews = new Map();
const reading = new Map();
const stale = new Set();
onOtherBody((id) => {
  if (id == null) for (const kept of [previews, reading, stale]) kept.clear();
  else if (previews.has(id) || reading.has(id)) stale.add(id);
});

/** Which verbs a list of tasks in a state has. */
const VERBS = {
  all: ['kick', 'delete', 'move'],
  ready: ['bury', 'delete', 'move'],
  taken: ['release', 'revoke'],
  delayed: ['bury', 'delete', 'move'],
  blocked: ['bury', 'delete'],
  buried: ['kick', 'delete', 'move'],
  done: ['delete'],
};

const BUTTONS = {
  kick: { label: 'Kick', keys: 'K', hint: 'make buried tasks ready' },
  bury: { label: 'Bury', keys: 'B', hint: 'set tasks aside until they are kicked' },
  delete: { label: 'Delete', keys: 'D', kind: 'danger-quiet', hint: 'delete tasks for good' },
  move: { label: 'Move', keys: 'M', hint: 'move tasks to another tube' },
  release: { label: 'Release', keys: 'L', hint: 'make taken tasks ready, with the attempt counted' },
  revoke: { label: 'Revoke', keys: 'V', kind: 'danger-quiet', hint: 'take tasks away from their workers' },
};

export async function askTube(title, without) {
  let chosen = null;
  const names = live.tubes.map((tube) => tube.tube).filter((name) => name !== without);
  await askForm({
    title,
    fields: [{ name: 'to', label: 'To tube', list: names, isWide: true }],
    submit: 'Continue',
    run: async ({ to }) => {
      if (!live.byName.has(to)) throw new Error(`there is no tube “${to}”`);
      chosen = to;
    },
  });
  return chosen;
}

/** What a task waits for, or what became of it. */
function Status({ task }) {
  switch (task.state) {
    case 'taken':
      return html`<span><span class="mono">${task.owner ?? 'unknown owner'}</span>
        ${task.held != null && html` <span class="quiet">for ${duration(task.held)}</span>`}
        ${task.reclaimed_in !== undefined
          ? html` <strong class="late">overdue</strong>`
          : task.due_in != null && html` <span class="quiet">expires in ${duration(task.due_in)}</span>`}
        ${task.progress && html`<${Progress} progress=${task.progress} />`}</span>`;
    case 'delayed':
      return html`<span>due in ${duration(task.due_in)}${task.failure && html` <span class="quiet">after: ${task.failure.message || task.failure.group}</span>`}</span>`;
    case 'blocked':
      return html`<span>waits for ${plural(task.open_parents, 'task')}</span>`;
    case 'buried':
      return html`<span class="failure">${task.group && html`<strong>${task.group}</strong> `}${task.failure?.message ?? ''}</span>`;
    case 'done':
      return html`<span class="quiet">ended <${When} at=${task.ended_at} /></span>`;
    default:
      return task.failure ? html`<span class="quiet">last failure: ${task.failure.message || task.failure.group}</span>` : null;
  }
}

export function attemptsOf(task) {
  return task.max_attempts == null ? number(task.attempts) : `${task.attempts} of ${task.max_attempts}`;
}

/** The beginning of the bodies of a page, read a few at a time, and again after they have changed. */
function usePreviews(page, isShown) {
  const [, draw] = useState(0);
  useEffect(() => {
    if (!isShown || page == null) return undefined;
    const controller = new AbortController();
    const isWanted = ({ id, size }) => (!previews.has(id) || stale.has(id)) && size <= PREVIEW_MAX && size > 0;
    const wanted = page.tasks.filter(isWanted);
    const one = async (task) => {
      reading.set(task.id, controller);
      stale.delete(task.id);
      try {
        const { data, data_base64: encoded } = await get(path`v1/tasks/${task.id}`, controller.signal);
        // Not that of another owner.
        if (reading.get(task.id) !== controller) return;
        if (previews.size >= PREVIEWS) previews.delete(previews.keys().next().value);
        previews.set(task.id, data != null ? data.slice(0, 200) : `base64 ${encoded.slice(0, 60)}`);
      } catch {
        // It has ended meanwhile, or the page says what is wrong. What was read before is old, still.
        if (previews.has(task.id)) stale.add(task.id);
      } finally {
        if (reading.get(task.id) === controller) reading.delete(task.id);
      }
    };
    let count = 0;
    inTurn(wanted.slice(0, 100), 2, async (task) => {
      await one(task);
      if ((count += 1) % 10 === 0) draw((old) => old + 1);
    }, controller.signal).then(() => controller.signal.aborted || draw((old) => old + 1));
    return () => controller.abort();
  }, [isShown, page]);
  return (id) => (isShown ? previews.get(id) : null);
}

/**
 * A list of tasks. `filter` is what the API is asked for, and `pick(condition)` narrows it. Another filter is another
 * list: the caller gives it another `key`.
 */
export function TaskList({ filter, isStale, pick, hasBodies, isNewestFirst, total, showTube, label }) {
  const [cursors, turn] = useState([null]);
  const [marks, setMarks] = useState(new Map());
  const held = useRef(0);
  const after = cursors.at(-1);
  const loaded = useLoad((signal) => listTasks({ ...filter, newest_first: isNewestFirst, after }, signal),
    [after], isStale, held);
  const tasks = loaded.data?.tasks ?? [];
  const preview = usePreviews(loaded.data, hasBodies);
  const change = (edit) => {
    const next = new Map(marks);
    edit(next);
    setMarks(next);
  };
  const toggle = (task) => change((next) => next.delete(task.id) || next.set(task.id, task));
  const isAll = tasks.length > 0 && tasks.every((task) => marks.has(task.id));
  const toggleAll = () => change((next) => tasks.forEach((task) => (isAll ? next.delete(task.id) : next.set(task.id, task))));
  const next = loaded.data?.next;
  const more = () => next != null && turn([...cursors, next]);
  const back = () => cursors.length > 1 && turn(cursors.slice(0, -1));

  const targets = () => {
    if (marks.size > 0) return [...marks.values()];
    const row = document.activeElement?.closest?.('[data-row]');
    const focused = row && tasks.find((task) => String(task.id) === row.dataset.row);
    return focused ? [focused] : null;
  };
  const refusal = (verb, chosen) => {
    if (chosen || filter.state != null || verb === 'kick') return null;
    return `Mark tasks, or choose a state: to ${verb} all that match, the call names their state.`;
  };
  const act = async (verb) => {
    const chosen = targets();
    const why = refusal(verb, chosen);
    if (why) {
      toast(why, true);
      return;
    }
    const to = verb === 'move' ? await askTube(chosen ? `Move ${plural(chosen.length, 'task')}` : 'Move all that match', filter.tube) : null;
    if (verb === 'move' && to == null) return;
    const isKickOfAny = verb === 'kick' && filter.state == null;
    const matching = isKickOfAny ? { ...filter, state: 'buried' } : filter;
    const isDone = chosen ? await changeMarked(verb, chosen, { to }) : await changeMatching(verb, matching, { to });
    if (!isDone) return;
    change((left) => left.clear());
    loaded.reload();
  };
  const verbs = VERBS[filter.state ?? 'all'];
  const from = (cursors.length - 1) * 100;
  return html`
    <div class="tools" role="toolbar" aria-label="actions">
      <span class="chosen" aria-live="polite">${marks.size > 0
        ? html`<strong>${plural(marks.size, 'task')}</strong> marked <button type="button" class="link" onClick=${() => change((left) => left.clear())}>clear</button>`
        : html`<span class="quiet">all that match</span>`}</span>
      ${verbs.map((verb) => {
        const { label: text, ...about } = BUTTONS[verb];
        return html`<${Action} key=${verb} ...${about} onClick=${() => act(verb)}>${text}<//>`;
      })}
      <${Action} keys="E" changes=${false} hint="download as JSON lines" onClick=${() => exportTasks(filter, targets())}>Export<//>
      <span class="pages number">
        ${tasks.length > 0 && html`<span>${number(from + 1)}–${number(from + tasks.length)}${total != null ? ` of ${number(Math.max(total, from + tasks.length))}` : ''}</span>`}
        <button type="button" class="button" data-key="p" disabled=${cursors.length === 1} title="previous page (key p)" onClick=${back}>Previous</button>
        <button type="button" class="button" data-key="n" disabled=${next == null} title="next page (key n)" onClick=${more}>Next</button>
      </span>
    </div>
    <${Trouble} error=${loaded.error} />
    ${loaded.data?.damaged > 0 && html`<p class="trouble">${plural(loaded.data.damaged, 'task')} left out: the records are damaged.</p>`}
    ${tasks.length === 0
      ? html`<${Empty} isLoading=${loaded.isLoading}>No task matches.<//>`
      : html`<div class="scroll" onMouseMove=${() => (held.current = performance.now() + POINTED)} onMouseLeave=${() => (held.current = 0)}>
        <table class="tasks" aria-label=${label} aria-busy=${loaded.isLoading}>
        <thead><tr>
          <th class="mark"><input type="checkbox" checked=${isAll} data-key="X" aria-label="mark all tasks of this page" onChange=${toggleAll} /></th>
          <th>task</th>${showTube && html`<th>tube</th>`}<th class="wide">content</th><th class="wide">status</th>
          <th class="number">attempts</th><th class="number">priority</th><th class="number">age</th>
        </tr></thead>
        <tbody>${tasks.map((task) => html`<tr key=${task.id} data-row=${task.id} tabindex="-1" class=${marks.has(task.id) ? 'is-marked' : ''}>
          <td class="mark"><input type="checkbox" checked=${marks.has(task.id)} aria-label=${`mark task ${task.id}`} onChange=${() => toggle(task)} /></td>
          <th scope="row"><a data-open href=${taskLink(task.id)} class="number">${task.id}</a> <${State} state=${task.state} /></th>
          ${showTube && html`<td><a href=${tubeLink(task.tube)}>${task.tube}</a></td>`}
          <td class="content">${task.key && html`<span class="key" title="key">${task.key}</span>`}
            ${task.sub_queue && html`<button type="button" class="sub" title="show this sub-queue" onClick=${() => pick?.({ sub_queue: task.sub_queue })}>${task.sub_queue}</button>`}
            <${Tags} tags=${task.tags} onTag=${pick && ((tag) => pick({ tag }))} />
            <span class="body">${preview(task.id) ?? html`<span class="quiet">${bytes(task.size)}</span>`}</span></td>
          <td class="status"><${Status} task=${task} /></td>
          <td class="number" data-label="attempts">${attemptsOf(task)}</td>
          <td class="number" data-label="priority">${number(task.priority)}</td>
          <td class="number" data-label="age" title=${task.put_at}>${duration(task.age)}</td>
        </tr>`)}</tbody>
      </table></div>`}`;
}

// Forms.

const asText = (value) => (value == null ? '' : String(value));

const time = (name, label, hint = 'seconds, or 10m, 2h, 1d') => ({ name, label, hint });

/** The fields of a form that are given, as the API has them. `texts` are never numbers. */
function given(values, texts) {
  const object = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === '' || value === false) continue;
    object[name] = texts.includes(name) || typeof value === 'boolean' ? value : optionValue(value);
  }
  return object;
}

export function tagsOf(text) {
  return text.split(/[\s,]+/).filter(Boolean);
}

const PUT_FIELDS = [
  { name: 'data', label: 'Body', type: 'area', hint: 'text, or JSON; put byte for byte' },
  { name: 'priority', label: 'Priority', type: 'number', hint: 'the smallest is taken first' },
  time('delay', 'Delay'),
  { name: 'tags', label: 'Tags', hint: 'separated by commas' },
  { name: 'key', label: 'Key', hint: 'unique in the store' },
  { name: 'sub_queue', label: 'Sub-queue', hint: '' },
  { name: 'max_attempts', label: 'Maximum attempts', type: 'number', hint: '' },
  time('ttr', 'ttr', 'how long a worker may hold it'),
  time('ttl', 'ttl', 'how long it lives'),
];

/** What a new task has of another one: not its key, which is in use, and no times. */
const copied = (task) => ({ data: task.data, priority: task.priority, tags: task.tags.join(', '), sub_queue: task.sub_queue,
  max_attempts: task.max_attempts, ttr: task.ttr });

/** Puts a task into a tube: an empty one, or another one like `model`. */
export async function putTask(tube, model) {
  const values = model ? copied(model) : {};
  const isText = model?.data_base64 == null;
  const fields = PUT_FIELDS.filter(({ name }) => isText || name !== 'data');
  const receipt = await askForm({
    title: model ? `Put task ${model.id} again` : `Put a task into “${tube}”`,
    intro: model && `A new task. This one stays as it is.${isText ? '' : ' Its body is no text, and is copied.'}`,
    fields: fields.map((field) => ({ ...field, value: asText(values[field.name]) })),
    submit: 'Put',
    run: async ({ tags, data, ...others }) => {
      const body = isText ? { data } : { data_base64: model.data_base64 };
      const task = { ...body, ...given(others, ['key', 'sub_queue']), tags: tagsOf(tags) };
      return call('POST', path`v1/tubes/${tube}/tasks`, { json: task });
    },
  });
  if (receipt) toast(`Task ${receipt.id} put: ${receipt.state}.`);
}

export async function editTask(task) {
  const isText = task.data != null;
  const before = { priority: String(task.priority), delay: '', tags: (task.tags ?? []).join(', '), data: task.data ?? '' };
  const done = await askForm({
    title: `Edit task ${task.id}`,
    intro: 'Only what you change is sent.',
    fields: [
      ...(isText ? [{ name: 'data', label: 'Body', type: 'area', value: before.data }] : []),
      { name: 'priority', label: 'Priority', type: 'number', value: before.priority, hint: 'the smallest is taken first' },
      { name: 'delay', label: 'Delay from now', value: '', hint: '0 makes a delayed task ready' },
      { name: 'tags', label: 'Tags', value: before.tags, hint: 'separated by commas', isWide: true },
    ],
    submit: 'Save',
    run: async (values) => {
      const changed = Object.entries(values).filter(([name, value]) => value !== before[name]);
      const json = Object.fromEntries(changed.map(([name, value]) =>
        [name, name === 'tags' ? tagsOf(value) : name === 'data' ? value : optionValue(value)]));
      if (changed.length > 0) await call('PATCH', path`v1/tasks/${task.id}`, { json });
      return changed.length;
    },
  });
  if (done) toast(`Task ${task.id} changed.`);
  return done;
}

// Tubes.

const OPTION_HINTS = {
  durability: 'flush, write, relaxed; empty is that of the store',
  capacity: 'tasks; 0 is unlimited',
  ttl: 'how long tasks live',
  ttr: 'how long a worker may hold a task',
  priority: 'of tasks that are put without one',
  max_runtime: 'however often a claim is renewed',
  max_attempts: 'then a task is buried',
  backoff: 'none, 10s, or 1s,factor=2,cap=1h',
  reclaim_delay: 'how long an overdue claim is left to its worker',
  keep_done: 'such as all, 1d, 1000',
  keep_buried: 'such as 30d; empty is all',
  max_taken: 'tasks taken at a time',
  rate: 'takes in a time, such as 10/s',
  history: 'entries kept of each task',
  metrics: 'days whose numbers are kept',
};
const NOT_OPTIONS = new Set(['tube', 'driver', 'usable', 'temporary', 'paused', 'resumes_in', 'total', 'kept', 'tasks', 'calls']);

export const optionsOf = (tube) => Object.entries(tube).filter(([name]) => !NOT_OPTIONS.has(name));

export async function alterTube(tube) {
  const before = Object.fromEntries(optionsOf(tube).map(([name, value]) => [name, asText(value)]));
  const done = await askForm({
    title: `Options of “${tube.tube}”`,
    intro: 'Times are seconds, or 10m, 2h, 1d; empty is none. Only what you change is sent.',
    fields: Object.entries(before).map(([name, value]) => ({ name, label: name, value, hint: OPTION_HINTS[name] })),
    submit: 'Save',
    run: async (values) => {
      const changed = Object.entries(values).filter(([name, value]) => value !== before[name]);
      const json = Object.fromEntries(changed.map(([name, value]) => [name, optionValue(value)]));
      if (changed.length > 0) await call('PATCH', path`v1/tubes/${tube.tube}`, { json });
    },
  });
  if (done) toast(`Options of “${tube.tube}” saved.`);
  return done;
}

export async function createTube() {
  let made = null;
  await askForm({
    title: 'Create a tube',
    intro: 'Empty fields are the defaults; all can be changed later, but for the driver.',
    fields: [
      { name: 'name', label: 'Name', isWide: true },
      { name: 'driver', label: 'Driver', hint: 'fifottl, if empty' },
      time('ttr', 'ttr', 'how long a worker may hold a task'),
      { name: 'max_attempts', label: 'Maximum attempts', type: 'number', hint: 'then a task is buried' },
      { name: 'backoff', label: 'Backoff', hint: 'none, 10s, or 1s,factor=2,cap=1h' },
      { name: 'keep_done', label: 'Keep done tasks', hint: 'such as all, 1d, 1000' },
      { name: 'history', label: 'History', type: 'number', hint: 'entries kept of each task' },
      { name: 'metrics', label: 'Metrics', type: 'number', hint: 'days whose numbers are kept' },
    ],
    submit: 'Create',
    run: async ({ name, ...values }) => {
      if (name.trim() === '') throw new Error('the tube needs a name');
      if (live.byName.has(name)) throw new Error(`the tube “${name}” exists`);
      await call('PUT', path`v1/tubes/${name}`, { json: given(values, ['driver']) });
      made = name;
    },
  });
  if (made) toast(`Tube “${made}” created.`);
  return made;
}

/** Pauses a tube, or one of its sub-queues, for a time that is asked for, or resumes it. */
export async function pauseOrResume({ tube, paused, sub_queue: subQueue }) {
  const what = subQueue == null ? `tube “${tube}”` : `sub-queue “${subQueue}” of “${tube}”`;
  if (paused) {
    const where = path`v1/tubes/${tube}/resume` + query({ sub_queue: subQueue });
    return attempt(() => call('POST', where), `${capital(what)} resumed.`);
  }
  return askForm({
    title: `Pause ${what}`,
    intro: 'Takes get no task of it while it is paused. Puts, and tasks that are taken, go on.',
    fields: [{ name: 'for', label: 'For', hint: 'such as 10m; empty is until you resume it', isWide: true }],
    submit: 'Pause',
    run: async (values) => {
      await call('POST', path`v1/tubes/${tube}/pause` + query({ sub_queue: subQueue, for: values.for.trim() }));
      toast(`${capital(what)} paused.`);
    },
  });
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

export async function dropTube(tube) {
  return confirm({
    title: `Drop “${tube.tube}” with ${plural(tube.tasks.total + tube.tasks.kept, 'task')}?`,
    intro: 'The tube and all its tasks are deleted for good.',
    submit: 'Drop the tube',
    isDanger: true,
    run: () => call('DELETE', path`v1/tubes/${tube.tube}`),
  });
}

export async function truncateTube(tube) {
  const result = await confirm({
    title: `Delete all ${plural(tube.tasks.total + tube.tasks.kept, 'task')} of “${tube.tube}”?`,
    intro: 'In one step, which cannot be stopped. The tube and its options stay.',
    submit: 'Delete all tasks',
    isDanger: true,
    run: () => call('POST', path`v1/tubes/${tube.tube}/truncate`),
  });
  if (result) toast(`${plural(result.changed ?? 0, 'task')} deleted.`);
}

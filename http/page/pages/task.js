// One task: what it is, its body and result, its attempts, and the tasks around it.

import { call, get, getOr, path } from '../api.js';
import { bytes, bytesOf, duration, hexDump, moment, number, prettyJson, secondsSince } from '../format.js';
import { live } from '../live.js';
import { askForm, confirm } from '../dialogs.js';
import { askTube, attemptsOf, editTask, putTask } from '../tasks.js';
import { Action, Empty, Facts, Progress, State, Tags, Trouble, When, attempt, go, html, isOfTask, taskLink, tubeLink,
  useEffect, useLoad, useMemo, useState, useTick } from '../ui.js';

const SHOWN = 256 << 10;
const NODES = 12;
const STEPS = 200;

async function load(id, signal) {
  const task = await get(path`v1/tasks/${id}`, signal);
  const [history, steps, relations] = await Promise.all([
    getOr({ entries: [] }, path`v1/tasks/${id}/history`, signal),
    getOr({ steps: [], left_out: 0 }, path`v1/tasks/${id}/steps?limit=${STEPS}`, signal),
    getOr({ parents: [], children: [] }, path`v1/tasks/${id}/relations`, signal),
  ]);
  return { task, entries: history.entries, steps, relations, readAt: Date.now() };
}

/** Bytes as indented JSON, as text or in hex, whichever is chosen; JSON if it is. */
function Content({ object, name, title }) {
  const text = object[name] ?? null;
  const [chosen, choose] = useState(null);
  // The page is drawn each second, and the content stays the same.
  const content = useMemo(() => bytesOf(object, name), [text, object[`${name}_base64`]]);
  const json = useMemo(() => (text != null && text.length <= SHOWN ? prettyJson(text) : null), [text]);
  const kinds = [...(json != null ? ['JSON'] : []), ...(text != null ? ['text'] : []), 'hex'];
  const kind = kinds.includes(chosen) ? chosen : kinds[0];
  const shown = useMemo(() => {
    if (content == null) return null;
    return kind === 'JSON' ? json : kind === 'text' ? text.slice(0, SHOWN) : hexDump(content.subarray(0, 16 << 10));
  }, [kind, content, json, text]);
  if (content == null) return null;
  const isCut = kind === 'hex' ? content.length > 16 << 10 : kind === 'text' && text.length > SHOWN;
  return html`<section class="card" aria-label=${title}>
    <h2>${title} <span class="quiet number">${bytes(content.length)}</span>
      <span class="choices" role="group" aria-label="shown as">${kinds.map((one) => html`<button key=${one} type="button"
        aria-pressed=${one === kind} onClick=${() => choose(one)}>${one}</button>`)}</span></h2>
    ${content.length === 0 ? html`<p class="empty">empty</p>` : html`<pre class="code" tabindex="0">${shown}</pre>`}
    ${isCut && html`<p class="quiet">The beginning only. An export has all of it.</p>`}
  </section>`;
}

/** The attempts, as the history tells them: from a take to what ended it. */
function attemptsIn(entries) {
  const attempts = [];
  for (const entry of entries) {
    if (entry.what === 'take') attempts.push({ begin: entry, end: null });
    const open = attempts.at(-1);
    const ends = ['ack', 'fail', 'release', 'bury', 'ttr', 'lost', 'snooze', 'revoke', 'advance'];
    if (open && open.end == null && ends.includes(entry.what)) open.end = entry;
  }
  return attempts;
}

const seconds = (from, to) => (new Date(to) - new Date(from)) / 1000;

function Attempts({ entries }) {
  const attempts = attemptsIn(entries);
  if (attempts.length === 0) return null;
  return html`<section class="card" aria-label="attempts"><h2>Attempts</h2><ol class="attempts">
    ${attempts.map(({ begin, end }, at) => html`<li key=${begin.number} class=${end && !['ack', 'snooze', 'advance'].includes(end.what) ? 'is-failed' : ''}>
      <span class="number">${at + 1}</span>
      <span><strong>${end ? end.what : 'running'}</strong> <span class="quiet">${end ? `after ${duration(seconds(begin.at, end.at))}` : `for ${duration(Math.max(0, secondsSince(begin.at)))}`}</span>
        ${begin.owner && html` <span class="mono quiet">${begin.owner}</span>`}
        ${end?.text && html`<pre class="said">${end.text}</pre>`}</span>
      <span class="quiet"><${When} at=${begin.at} /></span></li>`)}
  </ol></section>`;
}

function History({ entries }) {
  return html`<section class="card" aria-label="history"><h2>History</h2>
    ${entries.length === 0
      ? html`<${Empty}>No entry. A tube keeps histories with its option history.<//>`
      : html`<ol class="history">${[...entries].reverse().map((entry) => html`<li key=${entry.number} class="is-${entry.state}">
          <${When} at=${entry.at} /><${State} state=${entry.state}>${entry.what}<//>
          <span>${entry.owner && html`<span class="mono quiet">${entry.owner}</span> `}${entry.text}</span></li>`)}</ol>`}
  </section>`;
}

function Steps({ steps: { steps, left_out: more } }) {
  if (steps.length === 0) return null;
  return html`<section class="card" aria-label="steps"><h2>Steps <span class="quiet number">${number(steps.length + more)}</span></h2>
    <ol class="history">${steps.map((step) => html`<li key=${step.name}><${State} state="done">${step.name}<//>
      <code class="step">${(step.value ?? `base64 ${step.value_base64}`).slice(0, 300)}</code></li>`)}</ol>
    ${more > 0 && html`<p class="quiet">and ${number(more)} more</p>`}</section>`;
}

/** The tasks that it waits for, itself, and the tasks that wait for it. */
function Graph({ task, relations: { parents, children, parents_left_out: moreParents = 0, children_left_out: moreChildren = 0 } }) {
  if (parents.length === 0 && children.length === 0) return null;
  const columns = [[parents, moreParents], [[task], 0], [children, moreChildren]];
  const rows = Math.max(...columns.map(([tasks, more]) => Math.min(tasks.length, NODES) + (tasks.length > NODES || more > 0 ? 1 : 0)));
  const [row, width, gap] = [34, 168, 56];
  const height = rows * row + 8;
  const middle = (at, count) => height / 2 + (at - (count - 1) / 2) * row;
  const place = (column, at, count) => ({ x: column * (width + gap), y: middle(at, count) });
  const shown = columns.map(([tasks, more]) => {
    const left = tasks.length - NODES + more;
    return [...tasks.slice(0, NODES), ...(left > 0 ? [{ left }] : [])];
  });
  const curve = (a, b) => `M${a.x} ${a.y}C${a.x + gap / 2} ${a.y} ${b.x - gap / 2} ${b.y} ${b.x} ${b.y}`;
  const own = place(1, 0, 1);
  const edges = [
    ...shown[0].map((_, at) => curve({ x: width, y: place(0, at, shown[0].length).y }, own)),
    ...shown[2].map((_, at) => curve({ x: own.x + width, y: own.y }, place(2, at, shown[2].length))),
  ];
  const node = (one, column, at, count) => {
    const { x, y } = place(column, at, count);
    if (one.left) return html`<text x=${x + 10} y=${y + 4} class="quiet">and ${number(one.left)} more</text>`;
    const inside = html`<rect x=${x} y=${y - 13} width=${width} height="26" rx="5" class="node ${column === 1 ? 'is-own' : ''} stroke-${one.state}" />
      <text x=${x + 10} y=${y + 4}>${one.id} <tspan class="text-${one.state}">${one.state}</tspan></text><title>${one.key ?? one.tube}</title>`;
    return column === 1 ? html`<g>${inside}</g>` : html`<a href=${taskLink(one.id)} aria-label=${`task ${one.id}, ${one.state}`}>${inside}</a>`;
  };
  return html`<section class="card" aria-label="dependencies"><h2>Waits for <span class="quiet">→ this task → needed by</span></h2>
    <div class="scroll"><svg class="graph" width=${3 * width + 2 * gap + 2} height=${height} viewBox=${`-1 0 ${3 * width + 2 * gap + 2} ${height}`}
      role="group" aria-label=${`${parents.length} parents and ${children.length} children`}>
      ${edges.map((edge) => html`<path d=${edge} class="edge" />`)}
      ${shown.map((tasks, column) => tasks.map((one, at) => node(one, column, at, tasks.length)))}
    </svg></div></section>`;
}

function facts(task, age) {
  return [
    ['tube', html`<a href=${tubeLink(task.tube)}>${task.tube}</a>`],
    ['key', task.key && html`<span class="key">${task.key}</span>`],
    ['tags', task.tags.length > 0 && html`<${Tags} tags=${task.tags} onTag=${(tag) => go(tubeLink(task.tube, { tag }))} />`],
    ['sub-queue', task.sub_queue && html`<a class="sub" href=${tubeLink(task.tube, { sub_queue: task.sub_queue })}>${task.sub_queue}</a>`],
    ['priority', number(task.priority)],
    ['put', html`<${When} at=${task.put_at} /> <span class="quiet">${duration(task.age + age)} ago</span>`],
    ['not before', task.not_before && moment(task.not_before)],
    ['attempts', html`${attemptsOf(task)}${task.attempts_left != null && html` <span class="quiet">${number(task.attempts_left)} left</span>`}`],
    ['takes', number(task.takes)],
    ['owner', task.owner && html`<span class="mono">${task.owner}</span>`],
    ['held for', task.held != null && duration(task.held + age)],
    ['progress', task.progress && html`<${Progress} progress=${task.progress} />`],
    [task.state === 'taken' ? 'claim expires in' : 'ready in', task.due_in != null && duration(Math.max(0, task.due_in - age))],
    ['claim', task.reclaimed_in !== undefined && html`<strong class="late">overdue</strong>`],
    ['parents', task.parents && html`${number(task.parents.done)} of ${number(task.parents.total)} done, ${number(task.parents.open)} open${task.parents.failed > 0 && `, ${number(task.parents.failed)} failed`}`],
    ['ttr', task.ttr != null && duration(task.ttr)],
    ['maximum run time', task.max_runtime != null && duration(task.max_runtime)],
    ['ttl left', task.ttl_left != null && duration(Math.max(0, task.ttl_left - age))],
    ['ended', task.ended_at && html`<${When} at=${task.ended_at} />`],
    ['buried by', task.buried_by],
    ['run of schedule', task.spawned_by && html`${task.spawned_by.schedule}, run ${number(task.spawned_by.run)}`],
  ];
}

export function Task({ id }) {
  useTick();
  const [isGone, setGone] = useState(false);
  const { data, error, isLoading, reload } = useLoad((signal) => load(id, signal), [id], isOfTask(Number(id)));
  useEffect(() => setGone(error?.status === 404 && data != null), [error]);
  if (!data) {
    return html`<header class="head"><h1 tabindex="-1">Task ${id}</h1></header>
      ${error?.status === 404 ? html`<${Empty}>${error.message}<//>` : html`<${Trouble} error=${error} /><${Empty} isLoading=${isLoading}>Nothing to show.<//>`}`;
  }
  const { task, entries, steps, relations, readAt } = data;
  const age = (Date.now() - readAt) / 1000;
  const { state } = task;
  const change = async (verb, done) => {
    if (await attempt(() => call('POST', path`v1/tasks/${id}/` + verb), done)) reload();
  };
  /** The kick of the API is for buried tasks. */
  const makeReady = async () => {
    if (state === 'buried') return change('kick', `Task ${id} is ready.`);
    const done = await attempt(() => call('PATCH', path`v1/tasks/${id}`, { json: { delay: 0 } }), `Task ${id} is ready.`);
    return done && reload();
  };
  const bury = () => askForm({
    title: `Bury task ${id}`,
    fields: [{ name: 'message', label: 'Why', isWide: true, hint: 'kept as the failure of the task' }],
    submit: 'Bury',
    run: ({ message }) => call('POST', path`v1/tasks/${id}/bury`, message === '' ? {} : { text: message }),
  }).then((done) => done && reload());
  const note = () => askForm({
    title: `Log a note to task ${id}`,
    fields: [{ name: 'text', label: 'Note', type: 'area', hint: 'an entry of the history of the task' }],
    submit: 'Log',
    run: ({ text }) => call('POST', path`v1/tasks/${id}/log`, { text }),
  }).then((done) => done && reload());
  const remove = () => confirm({
    title: `Delete task ${id}?`,
    submit: 'Delete',
    isDanger: true,
    run: () => call('DELETE', path`v1/tasks/${id}`),
  }).then((done) => {
    if (done) go(tubeLink(task.tube));
  });
  const move = async () => {
    const to = await askTube(`Move task ${id}`, task.tube);
    if (to && (await attempt(() => call('POST', path`v1/tasks/${id}/move?to=${to}`), `Moved to “${to}”.`))) reload();
  };
  const isOpen = !['done', 'taken', 'recurring'].includes(state);
  const only = (states) => ({ isDisabled: isGone || !states.includes(state), why: isGone ? 'The task is gone.' : `The task is ${state}.` });
  const failure = task.failure;
  return html`
    <header class="head">
      <nav class="crumbs" aria-label="place"><a href="#/">Tubes</a> <a href=${tubeLink(task.tube)} data-key="u">${task.tube}</a></nav>
      <h1 tabindex="-1" class="number">Task ${task.id}</h1><span class="big-state"><${State} state=${isGone ? 'done' : state}>${isGone ? 'gone' : state}<//></span>
      <${Action} keys="K" hint="make it ready" ...${only(['buried', 'delayed'])} onClick=${makeReady}>Kick<//>
      <${Action} keys="e" isDisabled=${isGone || state === 'done'} why="The task has ended." onClick=${async () => (await editTask(task)) && reload()}>Edit<//>
      <${Action} keys="B" ...${only(['ready', 'delayed', 'blocked'])} onClick=${bury}>Bury<//>
      <${Action} keys="M" isDisabled=${isGone || !isOpen} why=${`The task is ${state}.`} onClick=${move}>Move<//>
      <${Action} keys="l" isDisabled=${isGone} onClick=${note}>Log a note<//>
      <${Action} keys="a" hint="a new task like this one" onClick=${() => putTask(task.tube, task)}>Put again<//>
      ${state === 'taken' && html`<${Action} keys="L" hint="make it ready, with the attempt counted" onClick=${() => change('release', `Task ${id} is ready.`)}>Release<//>
        <${Action} keys="V" kind="danger-quiet" hint="take it away from its worker" onClick=${() => change('revoke', `Task ${id} was taken from its worker.`)}>Revoke<//>`}
      <${Action} keys="C" kind="danger-quiet" ...${only(['ready', 'delayed', 'blocked', 'buried'])} hint="remove a task that has not begun"
        onClick=${() => change('cancel', `Task ${id} was cancelled.`)}>Cancel<//>
      <${Action} keys="D" kind="danger-quiet" isDisabled=${isGone} onClick=${remove}>Delete<//>
    </header>
    ${isGone ? html`<p class="trouble">The task has ended since it was shown, and nothing of it is kept.</p>` : html`<${Trouble} error=${error} />`}
    ${failure && html`<section class="card last-failure" aria-label="last failure"><h2>Last failure
      <span class="quiet">${[failure.kind, `attempt ${failure.attempt}`, failure.owner, `${duration(failure.ago + age)} ago`].filter(Boolean).join(' · ')}</span></h2>
      <p><strong>${failure.group}</strong></p>${failure.message && html`<pre class="said" tabindex="0">${failure.message}</pre>`}</section>`}
    <div class="beside is-task">
      <div class="main-column">
        <${Content} object=${task} name="data" title="Body" />
        <${Content} object=${task} name="result" title="Result" />
        <${Graph} task=${task} relations=${relations} />
        <${Steps} steps=${steps} />
        <${Attempts} entries=${entries} />
      </div>
      <div class="side">
        <section class="card" aria-label="facts"><h2>Facts</h2><${Facts} facts=${facts(task, age)} /></section>
        <${History} entries=${entries} />
      </div>
    </div>`;
}

// All tubes: how many tasks they have in each state, how fast they go, and what stands still.

import { duration, number, plural, rate, share, short } from '../format.js';
import { failures, hourOf, live, oldestReady, ratesOf, seenSeconds, seriesOf } from '../live.js';
import { createTube, pauseOrResume, putTask } from '../tasks.js';
import { Action, Empty, Pages, STATES, Spark, Stack, State, Trouble, go, html, tubeLink, useEffect, useLive, useState, useTick } from '../ui.js';

const ROWS = 100;
/** They fill a screen. The others are drawn after them. */
const FIRST_ROWS = 20;
const LATER = 100;

/** Failed attempts and all: since the page was opened if there were any, otherwise since the store was. */
export function attemptsOf(tube) {
  const hour = hourOf(tube.tube);
  if (hour && hour[1] + hour[2] > 0) {
    // Parts of the counts are spread over slots of time.
    const [acked, failed] = [Math.round(hour[1]), Math.round(hour[2])];
    return { failed, all: acked + failed, since: 'the page was opened, an hour at most' };
  }
  if (!tube.calls) return null;
  const failed = failures(tube.calls);
  return { failed, all: failed + (tube.calls.ack ?? 0), since: 'the store was opened' };
}

/** The share of failed attempts; -1 if there was none. */
function failingShare(attempts) {
  return attempts?.all ? attempts.failed / attempts.all : -1;
}

const COLUMNS = [
  { name: 'tube', label: 'tube', of: (tube) => tube.tube },
  { name: 'tasks', label: 'tasks', of: (tube) => tube.tasks.total, isNumber: true },
  ...STATES.map((state) => ({
    name: state, label: state, of: (tube) => tube.states[state], isNumber: true, isState: true,
  })),
  { name: 'puts', label: 'puts/s', of: (tube) => ratesOf(tube.tube)[0], isNumber: true },
  { name: 'acks', label: 'acks/s', of: (tube) => ratesOf(tube.tube)[1], isNumber: true },
  { name: 'failing', label: 'failing', of: (tube) => failingShare(attemptsOf(tube)), isNumber: true },
  { name: 'oldest', label: 'oldest', of: (tube) => oldestReady(tube) ?? -1, isNumber: true },
];

function sorted(tubes, { by, isDown }) {
  const { of } = COLUMNS.find((column) => column.name === by);
  const keyed = tubes.map((tube) => [of(tube), tube]);
  keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (isDown ? -1 : 1));
  return keyed.map(([, tube]) => tube);
}

function Sum({ state, label, value, note }) {
  return html`<div class="sum"><dt>${state ? html`<${State} state=${state}>${label}<//>` : label}</dt>
    <dd class="number">${value}</dd>${note && html`<dd class="quiet">${note}</dd>`}</div>`;
}

function Sums({ tubes }) {
  // Sums of the first ones are no sums of all.
  if (!live.isLoaded && tubes.length > 0) return html`<dl class="sums" aria-label="all tubes"><${Sum} label="tubes" value="…" note="the first ones; the others are being read" /></dl>`;
  const sum = (of) => tubes.reduce((before, tube) => before + (of(tube) ?? 0), 0);
  const rates = tubes.map((tube) => ratesOf(tube.tube));
  const total = (row) => rates.reduce((before, some) => before + some[row], 0);
  const oldest = tubes.reduce((most, tube) => Math.max(most, oldestReady(tube) ?? -1), -1);
  const paused = tubes.filter((tube) => tube.paused).length;
  return html`<dl class="sums" aria-label="all tubes">
    <${Sum} state="ready" label="ready" value=${short(sum((tube) => tube.states.ready))} note=${oldest >= 0 && `oldest ${duration(oldest)}`} />
    <${Sum} state="taken" label="taken" value=${short(sum((tube) => tube.states.taken))} />
    <${Sum} state="delayed" label="delayed" value=${short(sum((tube) => tube.states.delayed))} />
    <${Sum} state="buried" label="buried" value=${short(sum((tube) => tube.states.buried))} />
    <${Sum} label="puts/s" value=${rate(total(0))} />
    <${Sum} label="acks/s" value=${rate(total(1))} />
    <${Sum} label="failures/s" value=${rate(total(2))} />
    <${Sum} label="tubes" value=${number(tubes.length)} note=${paused > 0 && `${number(paused)} paused`} />
  </dl>`;
}

/** States that take no column while no tube has a task in them. */
const SELDOM = ['blocked', 'done'];

function Row({ tube, states }) {
  const span = seenSeconds();
  const [puts, acks] = ratesOf(tube.tube);
  const oldest = oldestReady(tube);
  const attempts = attemptsOf(tube);
  const failing = failingShare(attempts);
  const count = (state) => {
    const value = tube.states[state] ?? 0;
    const tone = state === 'buried' && value > 0 ? 'bad' : value === 0 ? 'zero' : '';
    return html`<td class="number ${tone}" data-label=${state}>${value > 0
      ? html`<a href=${tubeLink(tube.tube, { state })}>${short(value)}</a>` : '0'}</td>`;
  };
  return html`<tr data-row=${tube.tube} tabindex="-1" class=${tube.paused ? 'is-paused' : ''}>
    <th scope="row"><a data-open href=${tubeLink(tube.tube)}>${tube.tube}</a>
      ${tube.paused && html` <span class="badge">paused${tube.resumes_in != null ? ` for ${duration(tube.resumes_in)}` : ''}</span>`}
      ${!tube.usable && html` <span class="badge bad">no driver</span>`}</th>
    <td class="bar-cell"><${Stack} tasks=${tube.states} /></td>
    ${states.map(count)}
    <td class="number ${puts ? '' : 'zero'}" data-label="puts/s">${rate(puts)}</td>
    <td class="number ${acks ? '' : 'zero'}" data-label="acks/s">${rate(acks)}</td>
    <td class="number ${failing > 0.05 ? 'bad' : failing > 0 ? '' : 'zero'}" data-label="failing"
      title=${attempts && `${plural(attempts.failed, 'failed attempt')} of ${number(attempts.all)} since ${attempts.since}`}>${share(attempts?.failed, attempts?.all)}</td>
    <td class="number ${oldest == null ? 'zero' : ''}" data-label="oldest ready">${duration(oldest)}</td>
    <td class="spark-cell"><${Spark} series=${seriesOf(tube.tube, span, span / 60)} label=${`acks and failures of ${tube.tube} in the last ${duration(span)}`} /></td>
    <td class="row-actions">
      <${Action} keys="z" kind="small" hint=${tube.paused ? 'takes get tasks again' : 'takes get no task'} aria-label=${`${tube.paused ? 'resume' : 'pause'} ${tube.tube}`} onClick=${() => pauseOrResume(tube)}>${tube.paused ? 'Resume' : 'Pause'}<//>
      <${Action} keys="a" kind="small" aria-label=${`put a task into ${tube.tube}`} onClick=${() => putTask(tube.tube)}>Put<//>
    </td>
  </tr>`;
}

export function Tubes() {
  useLive();
  useTick();
  const [text, setText] = useState('');
  const [order, setOrder] = useState({ by: 'tube', isDown: false });
  const [first, setFirst] = useState(0);
  const [isDrawn, setDrawn] = useState(false);
  const wanted = text.trim().toLowerCase();
  const found = live.tubes.filter((tube) => tube.tube.toLowerCase().includes(wanted));
  const from = first < found.length ? first : 0;
  const rows = sorted(found, order).slice(from, from + (isDrawn ? ROWS : FIRST_ROWS));
  const hasRows = rows.length > 0;
  useEffect(() => {
    if (!hasRows) return undefined;
    const later = setTimeout(() => setDrawn(true), LATER);
    return () => clearTimeout(later);
  }, [hasRows]);
  const states = STATES.filter((state) => !SELDOM.includes(state) || live.tubes.some((tube) => tube.states[state] > 0));
  const columns = COLUMNS.filter((column) => !column.isState || states.includes(column.name));
  const sort = (column) => setOrder({ by: column.name, isDown: order.by === column.name ? !order.isDown : Boolean(column.isNumber) });
  const make = async () => {
    const name = await createTube();
    if (name) go(tubeLink(name));
  };
  return html`
    <header class="head"><h1 tabindex="-1">Tubes</h1>
      <input type="search" data-filter placeholder="Filter by name" aria-label="filter tubes by name" value=${text}
        onInput=${(event) => { setText(event.target.value); setFirst(0); }} />
      <${Action} keys="a" kind="primary" onClick=${make}>Create a tube<//>
    </header>
    <${Trouble} error=${live.error} />
    <${Sums} tubes=${live.tubes} />
    ${found.length === 0
      ? html`<${Empty} isLoading=${!live.isLoaded}>${live.tubes.length ? 'No tube has this in its name.' : 'There is no tube yet. Create one, or put a task with a client.'}<//>`
      : html`<div class="scroll"><table class="tubes" aria-label="tubes">
        <thead><tr>${columns.map((column) => html`<th key=${column.name} class=${column.isNumber && column.name !== 'tasks' ? 'number' : ''}
          aria-sort=${order.by === column.name ? (order.isDown ? 'descending' : 'ascending') : undefined}>
          <button type="button" class="sort" onClick=${() => sort(column)}>${column.isState ? html`<${State} state=${column.name} />` : column.label}</button></th>`)}
          <th>last ${duration(seenSeconds())}</th><th><span class="hidden">actions</span></th></tr></thead>
        <tbody>${rows.map((tube) => html`<${Row} key=${tube.tube} tube=${tube} states=${states} />`)}</tbody>
      </table></div>
      ${live.isLoaded && html`<${Pages} from=${from} rows=${rows.length} most=${ROWS} all=${found.length} show=${setFirst} />`}`}`;
}

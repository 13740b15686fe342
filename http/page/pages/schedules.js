// Schedules: when they run next, what they have put, and changes of them.

import { call, get, getOr, path } from '../api.js';
import { groupBy } from '../bulk.js';
import { askForm, confirm } from '../dialogs.js';
import { duration, number, optionValue, plural, secondsSince } from '../format.js';
import { live } from '../live.js';
import { tagsOf } from '../tasks.js';
import { Action, Empty, Pages, Trouble, When, attempt, html, isAny, taskLink, toast, tubeLink, useLive, useLoad, useState, useTick } from '../ui.js';

/** How many rows a page has, and how many schedules a call returns, or some more. */
const ROWS = 500;
const LISTED = 10_000;

/** So many schedules, or a few more. Where the list of all tubes ends, those of the others are read tube by tube. */
async function load(wanted, signal) {
  const { schedules, more, damaged = 0 } = await getOr({ schedules: [] }, 'v1/schedules', signal);
  if (!more) return { schedules, damaged, isMore: false, cut: [] };
  const byTube = groupBy(schedules, (schedule) => schedule.tube);
  const found = { damaged, isMore: false, cut: [] };
  let count = schedules.length;
  for (const { tube, states } of live.tubes) {
    const listed = byTube.get(tube)?.length ?? 0;
    if (states.recurring <= listed) continue;
    if (count >= wanted) {
      found.isMore = true;
      break;
    }
    const answer = await get(path`v1/tubes/${tube}/schedules`, signal);
    if (listed === 0) found.damaged += answer.damaged;
    if (answer.more) found.cut.push(tube);
    byTube.set(tube, answer.schedules);
    count += answer.schedules.length - listed;
  }
  return { ...found, schedules: [...byTube.values()].flat() };
}

const ruleOf = (schedule) => (schedule.every != null ? `every ${duration(schedule.every)}` : schedule.cron);

const FIELDS = [
  { name: 'every', label: 'Every', hint: 'seconds, or 10m, 1d' },
  { name: 'cron', label: 'or cron', hint: 'minute hour day month weekday', isMono: true },
  { name: 'zone', label: 'Time zone of cron', hint: 'such as Europe/Berlin; UTC if empty' },
  { name: 'times', label: 'Times', type: 'number', hint: 'after how many runs it ends' },
  { name: 'missed', label: 'Missed runs', hint: 'how many are put later: 1, all, skip' },
  { name: 'within', label: 'Within', hint: 'how late a run may be' },
  { name: 'overlap', label: 'Overlap', hint: 'allow, or skip while the last run is not over' },
  { name: 'priority', label: 'Priority', type: 'number', hint: 'of its tasks' },
  { name: 'tags', label: 'Tags', hint: 'of its tasks, separated by commas' },
];
const TEXTS = ['cron', 'zone', 'missed', 'overlap'];

/** What of a form is sent: what differs from before. */
function changed(values, before) {
  const given = Object.entries(values).filter(([name, value]) => value !== (before[name] ?? ''));
  return Object.fromEntries(given.map(([name, value]) => {
    if (name === 'tags') return [name, tagsOf(value)];
    if (name === 'data') return [name, value];
    return [name, TEXTS.includes(name) && value !== '' ? value : optionValue(value)];
  }));
}

async function edit(schedule) {
  const text = (name) => (name === 'tags' ? (schedule.tags ?? []).join(', ') : schedule[name] == null ? '' : String(schedule[name]));
  const before = Object.fromEntries(FIELDS.map(({ name }) => [name, text(name)]));
  return askForm({
    title: `Edit schedule “${schedule.schedule}”`,
    intro: 'Only what you change is sent.',
    fields: [...FIELDS.map((field) => ({ ...field, value: before[field.name] })),
      { name: 'data', label: 'New body of its tasks', type: 'area', hint: 'empty leaves it as it is' }],
    submit: 'Save',
    run: (values) => call('PATCH', path`v1/schedules/${schedule.schedule}`, { json: changed(values, before) }),
  });
}

async function create() {
  return askForm({
    title: 'Create a schedule',
    fields: [
      { name: 'tube', label: 'Tube', list: live.tubes.map((tube) => tube.tube) },
      { name: 'key', label: 'Key', hint: 'unique in the store' },
      ...FIELDS,
      { name: 'data', label: 'Body of its tasks', type: 'area' },
    ],
    submit: 'Create',
    run: ({ tube, key, data, ...values }) =>
      call('PUT', path`v1/tubes/${tube}/schedules/${key}`, { json: { data, ...changed(values, {}) } }),
  });
}

function Row({ schedule, reload }) {
  const key = schedule.schedule;
  const left = -secondsSince(schedule.next);
  const run = async () => (await attempt(() => call('POST', path`v1/schedules/${key}/run`), ({ id }) => `Task ${id} put.`)) && reload();
  const remove = async () => {
    const done = await confirm({
      title: `Remove schedule “${key}”?`,
      intro: 'The tasks that it has put stay.',
      submit: 'Remove',
      isDanger: true,
      run: () => call('DELETE', path`v1/schedules/${key}`),
    });
    if (done) reload();
  };
  return html`<tr data-row=${key} tabindex="-1">
    <th scope="row">${key}${schedule.stopped && html` <span class="badge bad" title=${schedule.stopped}>stopped</span>`}</th>
    <td data-label="tube"><a data-open href=${tubeLink(schedule.tube)}>${schedule.tube}</a></td>
    <td data-label="runs"><span class=${schedule.cron ? 'mono' : ''}>${ruleOf(schedule)}</span>${schedule.zone && html` <span class="quiet">${schedule.zone}</span>`}</td>
    <td data-label="next">${schedule.stopped ? html`<span class="bad">${schedule.stopped}</span>` : html`<${When} at=${schedule.next} /> <span class="quiet">${left > 0 ? `in ${duration(left)}` : 'now'}</span>`}</td>
    <td class="number" data-label="last">${schedule.last == null ? html`<span class="quiet">–</span>` : html`<a href=${taskLink(schedule.last)}>${schedule.last}</a>`}</td>
    <td class="number" data-label="runs">${number(schedule.runs)}${schedule.times != null && html`<span class="quiet"> of ${number(schedule.times)}</span>`}</td>
    <td class="number ${schedule.skipped ? '' : 'zero'}" data-label="skipped">${number(schedule.skipped)}</td>
    <td class="quiet" data-label="rules">${[`missed: ${schedule.missed}`, schedule.overlap !== 'allow' && `overlap: ${schedule.overlap}`].filter(Boolean).join(', ')}</td>
    <td class="row-actions">
      <${Action} keys="R" kind="small" aria-label=${`run now: ${key}`} onClick=${run}>Run now<//>
      <${Action} keys="e" kind="small" aria-label=${`edit ${key}`} onClick=${async () => (await edit(schedule)) && reload()}>Edit<//>
      <${Action} keys="D" kind="small danger-quiet" aria-label=${`remove ${key}`} onClick=${remove}>Remove<//></td>
  </tr>`;
}

export function Schedules() {
  useTick();
  const { isLoaded } = useLive();
  const [wanted, setWanted] = useState(LISTED);
  const { data, error, isLoading, reload } = useLoad((signal) => load(wanted, signal), [wanted, isLoaded], isAny);
  const [text, setText] = useState('');
  const [first, setFirst] = useState(0);
  const searched = text.trim().toLowerCase();
  const found = (data?.schedules ?? []).filter((one) => `${one.schedule} ${one.tube}`.toLowerCase().includes(searched));
  found.sort((a, b) => (a.next < b.next ? -1 : 1));
  const from = first < found.length ? first : 0;
  const rows = found.slice(from, from + ROWS);
  const all = live.tubes.reduce((sum, tube) => sum + tube.states.recurring, 0);
  const make = async () => {
    if (!(await create())) return;
    toast('Schedule created.');
    reload();
  };
  return html`
    <header class="head"><h1 tabindex="-1">Schedules</h1><span class="quiet">${plural(found.length, 'schedule')}</span>
      <input type="search" data-filter placeholder="Filter by key or tube" aria-label="filter by key or tube" value=${text} onInput=${(event) => { setText(event.target.value); setFirst(0); }} />
      <${Action} keys="a" kind="primary" onClick=${make}>Create a schedule<//></header>
    <${Trouble} error=${error} />
    ${data?.damaged > 0 && html`<p class="trouble">${plural(data.damaged, 'schedule')} left out: the records are damaged.</p>`}
    ${data?.isMore && html`<p class="quiet">The first ${number(data.schedules.length)} of ${plural(all, 'schedule')} have been read.
      <button type="button" class="button small" disabled=${isLoading} onClick=${() => setWanted(data.schedules.length + LISTED)}>Read more</button></p>`}
    ${data?.cut.length > 0 && html`<p class="quiet">The server lists the first ${number(LISTED)} schedules of a tube, and has more of ${data.cut.join(', ')}.</p>`}
    ${found.length === 0
      ? html`<${Empty} isLoading=${isLoading && !data}>${searched ? 'No schedule matches.' : 'There is no schedule. One puts tasks at an interval, or at the moments of a cron expression.'}<//>`
      : html`<div class="scroll"><table class="schedules" aria-label="schedules">
        <thead><tr><th>schedule</th><th>tube</th><th>runs at</th><th>next</th><th class="number">last task</th><th class="number">runs</th>
          <th class="number">skipped</th><th>rules</th><th><span class="hidden">actions</span></th></tr></thead>
        <tbody>${rows.map((schedule) => html`<${Row} key=${schedule.schedule} schedule=${schedule} reload=${reload} />`)}</tbody>
      </table></div>
      <${Pages} from=${from} rows=${rows.length} most=${ROWS} all=${found.length} show=${setFirst} />`}`;
}

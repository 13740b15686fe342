// One tube: its rates, its days, and its tasks by state.

import { get, getOr, path } from '../api.js';
import { changeMatching } from '../bulk.js';
import { Chart, Columns } from '../chart.js';
import { duration, number, plural, rate, share } from '../format.js';
import { live, oldestReady, ratesOf, seriesOf } from '../live.js';
import { TaskList, alterTube, dropTube, optionsOf, pauseOrResume, putTask, truncateTube } from '../tasks.js';
import { Action, Empty, Facts, STATES, State, go, html, isOfTube, tubeLink, useEffect, useLive, useLoad, useMemo,
  useState, useTick } from '../ui.js';
import { attemptsOf } from './tubes.js';

const RATE_LINES = [
  { label: 'puts', tone: 'tone-put' },
  { label: 'acks', tone: 'tone-ack', isArea: true },
  { label: 'failures', tone: 'tone-fail', dash: [5, 3] },
];
const DAY_LINES = [
  { label: 'p50', tone: 'tone-ack' },
  { label: 'p90', tone: 'tone-put', dash: [6, 3] },
  { label: 'p99', tone: 'tone-fail', dash: [2, 3] },
];
const CONDITIONS = [['tag', 'tag'], ['group', 'failure group'], ['sub_queue', 'sub-queue'], ['owner', 'owner']];

function Rates({ name, theme }) {
  const [minutes, setMinutes] = useState(10);
  useTick(minutes > 10 ? 10_000 : 1000);
  const slot = Math.floor(Date.now() / (minutes > 10 ? 10_000 : 1000));
  const data = useMemo(() => seriesOf(name, minutes * 60, minutes > 10 ? 30 : 5), [name, minutes, slot, live.tubes]);
  const [puts, acks, failed] = ratesOf(name);
  const label = `rates of ${name}: now ${rate(puts)} puts, ${rate(acks)} acks and ${rate(failed)} failures a second`;
  return html`<section class="card" aria-label="rates">
    <h2>Rates a second<span class="choices" role="group" aria-label="length of the chart">
      ${[10, 60].map((length) => html`<button key=${length} type="button" aria-pressed=${minutes === length} onClick=${() => setMinutes(length)}>${length === 60 ? '1 h' : '10 min'}</button>`)}</span></h2>
    <${Chart} data=${data} lines=${RATE_LINES} label=${label} theme=${theme} />
  </section>`;
}

function Days({ name, theme }) {
  const [which, choose] = useState('wait');
  const { data } = useLoad((signal) => getOr({ days: [] }, path`v1/tubes/${name}/days` + '?last=30', signal), [name], isOfTube(name));
  const days = [...(data?.days ?? [])].sort((a, b) => (a.date < b.date ? -1 : 1));
  const key = days.map((day) => day.date).join();
  const lines = useMemo(() => [days.map((day) => Date.parse(day.date) / 1000),
    ...['p50', 'p90', 'p99'].map((name) => days.map((day) => (day[which].count > 0 ? day[which][name] : null)))], [key, which, data]);
  if (days.length === 0) return data && html`<section class="card" aria-label="days"><h2>Days</h2><${Empty}>No day has been counted yet.<//></section>`;
  const last = days.at(-1);
  return html`<section class="card" aria-label="days">
    <h2>${which === 'wait' ? 'From ready to taken' : 'From taken to finished'}, by day<span class="choices" role="group" aria-label="distribution">
      ${[['wait', 'waits'], ['run', 'runs']].map(([key, text]) => html`<button key=${key} type="button" aria-pressed=${which === key} onClick=${() => choose(key)}>${text}</button>`)}</span></h2>
    ${days.length > 1 && html`<${Chart} data=${lines} lines=${DAY_LINES} isTime=${false} unit="time" theme=${theme} label=${`percentiles of ${which}s by day`} />`}
    <${Facts} facts=${[
      [last.date, html`${number(last.puts)} puts, ${number(last.acks)} acks, ${number(last.failures)} failures`],
      ['p50, p90, p99', `${duration(last[which].p50)}, ${duration(last[which].p90)}, ${duration(last[which].p99)}`],
      ['longest', duration(last[which].max)],
    ]} />
    ${last[which].bins?.length > 0 && html`<${Columns} bins=${last[which].bins} label=${`${which}s on ${last.date}`} />`}
  </section>`;
}

/** What depends on the options, which are not among the numbers of all tubes. Options have no events. */
function Settled({ name, theme }) {
  const { data: tube } = useLoad((signal) => get(path`v1/tubes/${name}`, signal), [name], (change) => change.tubes == null);
  if (!tube) return null;
  return html`${tube.metrics > 0 && html`<${Days} name=${name} theme=${theme} />`}
    <${Options} tube=${tube} />`;
}

function Options({ tube }) {
  const isSet = ([, value]) => value != null && value !== 0 && value !== 'none' && value !== false && value !== '';
  const shown = optionsOf(tube).filter(isSet);
  const text = (name, value) => (typeof value === 'number' && /^(ttl|ttr|max_runtime|sub_queue_cooldown)$/.test(name) ? duration(value) : String(value));
  return html`<section class="card" aria-label="options"><h2>Options
    <${Action} keys="e" kind="small" hint="change the options" onClick=${() => alterTube(tube)}>Edit<//></h2>
    <${Facts} facts=${[['driver', tube.driver], ['temporary', tube.temporary && 'yes'], ...shown.map(([name, value]) => [name.replaceAll('_', ' '), text(name, value)])]} />
  </section>`;
}

/** The sub-queue that is shown: whether its takes are paused, and what pauses and resumes them. Pauses have no events. */
function SubQueue({ tube, name }) {
  const { data, reload } = useLoad((signal) => getOr({ paused: [] }, 'v1/limits', signal), [tube, name], (change) => change.tubes == null);
  if (!data) return null;
  const found = data.paused.find((one) => one.tube === tube && one.name === name);
  const change = async () => (await pauseOrResume({ tube, paused: found != null, sub_queue: name })) && reload();
  return html`${found && html`<span class="badge">paused${found.resumes_in != null ? ` for ${duration(found.resumes_in)}` : ''}</span>`}
    <${Action} keys="Z" kind="small" onClick=${change}>${found ? 'Resume' : 'Pause'} this sub-queue<//>`;
}

function Search({ pick }) {
  const [by, setBy] = useState('tag');
  const [value, setValue] = useState('');
  const send = (event) => {
    event.preventDefault();
    if (value.trim() === '') return;
    pick({ [by]: value.trim() });
    setValue('');
  };
  return html`<form class="search" role="search" aria-label="tasks of the tube" onSubmit=${send}>
    <select aria-label="search by" value=${by} onChange=${(event) => setBy(event.target.value)}>
      ${CONDITIONS.map(([name, label]) => html`<option key=${name} value=${name}>${label}</option>`)}</select>
    <input type="search" data-filter aria-label="search tasks" placeholder="exactly" value=${value} onInput=${(event) => setValue(event.target.value)} />
    <button type="submit" class="button">Filter</button></form>`;
}

export function Tube({ name, query, theme }) {
  useLive();
  const [hasBodies, setBodies] = useState(() => localStorage.getItem('tubewell-bodies') !== 'no');
  useEffect(() => localStorage.setItem('tubewell-bodies', hasBodies ? 'yes' : 'no'), [hasBodies]);
  const tube = live.byName.get(name);
  if (!tube) {
    return html`<header class="head"><h1 tabindex="-1">${name}</h1></header>
      <${Empty} isLoading=${!live.isLoaded}>There is no tube “${name}”. <a href="#/">All tubes</a><//>`;
  }
  const { newest_first: newest, ...filter } = Object.fromEntries(query);
  const show = (change) => go(tubeLink(name, { ...Object.fromEntries(query), ...change }));
  const conditions = CONDITIONS.filter(([key]) => filter[key] != null);
  const count = (state) => (state == null ? tube.tasks.total + tube.tasks.kept : tube.states[state]);
  const drop = async () => {
    if (await dropTube(tube)) go('#/');
  };
  const [puts, acks, failed] = ratesOf(name);
  const attempts = attemptsOf(tube);
  return html`
    <header class="head">
      <nav class="crumbs" aria-label="place"><a href="#/" data-key="u">Tubes</a></nav>
      <h1 tabindex="-1">${name}</h1>
      ${tube.paused && html`<span class="badge">paused${tube.resumes_in != null ? ` for ${duration(tube.resumes_in)}` : ''}</span>`}
      <${Action} keys="a" kind="primary" onClick=${() => putTask(name)}>Put a task<//>
      <${Action} keys="z" onClick=${() => pauseOrResume(tube)}>${tube.paused ? 'Resume' : 'Pause'}<//>
      <${Action} isDisabled=${tube.states.buried === 0} why="The tube has no buried task."
        onClick=${() => changeMatching('kick', { tube: name, state: 'buried' })}>Kick all buried<//>
      <${Action} kind="danger-quiet" onClick=${() => truncateTube(tube)}>Truncate<//>
      <${Action} kind="danger-quiet" onClick=${drop}>Drop<//>
    </header>
    <dl class="sums">
      <div class="sum"><dt>oldest ready</dt><dd class="number">${duration(oldestReady(tube))}</dd></div>
      <div class="sum"><dt>puts/s</dt><dd class="number">${rate(puts)}</dd></div>
      <div class="sum"><dt>acks/s</dt><dd class="number">${rate(acks)}</dd></div>
      <div class="sum"><dt>failures/s</dt><dd class="number">${rate(failed)}</dd></div>
      <div class="sum" title=${attempts && `since ${attempts.since}`}><dt>failing</dt><dd class="number">${share(attempts?.failed, attempts?.all)}</dd></div>
      <div class="sum" title="takes that wait for a task: idle workers"><dt>waiting takes</dt><dd class="number">${number(tube.waiting_takes)}</dd></div>
    </dl>
    <div class="beside">
      <div class="side">
        <${Rates} name=${name} theme=${theme} />
        <${Settled} name=${name} theme=${theme} />
      </div>
      <section class="card list" aria-label="tasks">
        <div class="tabs" role="group" aria-label="state of the tasks">
          ${[null, ...STATES].map((state, at) => html`<button key=${state} type="button" data-key=${at + 1}
            aria-pressed=${(filter.state ?? null) === state} onClick=${() => show({ state })}>
            ${state == null ? 'all' : html`<${State} state=${state} />`} <span class="number quiet">${number(count(state))}</span></button>`)}
        </div>
        <div class="filters">
          <${Search} pick=${show} />
          ${conditions.map(([key, label]) => html`<button key=${key} type="button" class="chip" title="remove this condition" onClick=${() => show({ [key]: null })}>
            ${label}: <strong>${filter[key]}</strong> <span aria-hidden="true">×</span></button>`)}
          ${filter.sub_queue != null && html`<${SubQueue} key=${filter.sub_queue} tube=${name} name=${filter.sub_queue} />`}
          <span class="switches">
            <label><input type="checkbox" checked=${newest != null} onChange=${(event) => show({ newest_first: event.target.checked ? 'true' : null })} /> newest first</label>
            <label><input type="checkbox" checked=${hasBodies} onChange=${(event) => setBodies(event.target.checked)} /> bodies</label>
          </span>
        </div>
        <${TaskList} key=${query.toString()} filter=${{ tube: name, ...filter }} isNewestFirst=${newest != null} pick=${show}
          isStale=${isOfTube(name)} hasBodies=${hasBodies} total=${conditions.length === 0 ? count(filter.state) : null}
          label=${`${filter.state ?? 'all'} tasks of ${name}, ${plural(count(filter.state), 'task')}`} />
      </section>
    </div>`;
}

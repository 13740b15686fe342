// The store: its file and journal, how long flushes take, its limits, its clock.

import { Problem, call, getFile, getOr, getText, path, readEvents, token } from '../api.js';
import { download } from '../bulk.js';
import { Columns } from '../chart.js';
import { askForm, runSteps } from '../dialogs.js';
import { bytes, duration, number, optionValue, plural } from '../format.js';
import { isReadOnly, live } from '../live.js';
import { pauseOrResume } from '../tasks.js';
import { Action, Empty, Facts, Trouble, When, attempt, html, isAny, tubeLink, useLoad, useTick } from '../ui.js';

/** The largest backup that is loaded with a token. */
const BACKUP_MAX = 2 ** 30;
const FINDINGS = 100;
/** Of a file with so many bytes, and so many for each task, most may be free. */
const LARGE = 32 << 20;
const LARGE_TASK = 64 << 10;

/** A tube has 2.5 kB of the metrics' text. */
const TUBES = 1000;

/** The samples of the text that Prometheus reads, without those of tubes. */
export function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split('\n')) {
    const found = /^([a-z_]+)(?:\{([^}]*)\})? (\S+)$/.exec(line);
    if (!found || /(^|,)tube="/.test(found[2] ?? '')) continue;
    const labels = Object.fromEntries([...(found[2] ?? '').matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
    const all = samples.get(found[1]) ?? [];
    samples.set(found[1], all);
    all.push({ labels, value: Number(found[3]) });
  }
  return samples;
}

/** A histogram as bins, with its count and mean. */
function histogram(samples, name) {
  const buckets = samples.get(`${name}_bucket`) ?? [];
  let [from, before] = [0, 0];
  const bins = buckets.map(({ labels, value }) => {
    const to = labels.le === '+Inf' ? null : Number(labels.le);
    const bin = { from, to, count: value - before };
    [from, before] = [to, value];
    return bin;
  });
  const count = samples.get(`${name}_count`)?.[0].value ?? 0;
  return { bins, count, mean: count ? samples.get(`${name}_sum`)[0].value / count : null };
}

/** The upper bound of the bin that has this share of all. */
function quantile({ bins, count }, part) {
  let sum = 0;
  for (const bin of bins) {
    sum += bin.count;
    if (sum >= count * part) return bin.to;
  }
  return null;
}

async function load(signal) {
  const isLarge = live.tubes.length > TUBES;
  const [store, limits, tags, metrics] = await Promise.all([
    getOr(null, 'v1/store', signal),
    getOr({ limits: [], paused: [] }, 'v1/limits', signal),
    getOr({ tags: [] }, 'v1/tags?limit=20', signal),
    isLarge ? '' : getText('metrics', signal),
  ]);
  return { store, limits, tags: tags.tags, samples: parseMetrics(metrics), isLarge };
}

function Latency({ title, samples, name, label }) {
  const found = histogram(samples, name);
  const up = (part) => {
    const bound = quantile(found, part);
    return bound == null ? '–' : `≤ ${duration(bound)}`;
  };
  return html`<section class="card" aria-label=${label}><h2>${title} <span class="quiet number">${number(found.count)} since the store was opened</span></h2>
    ${found.count === 0 ? html`<${Empty}>None yet.<//>` : html`<${Columns} bins=${found.bins} label=${label} />
      <${Facts} facts=${[['mean', duration(found.mean)], ['half', up(0.5)], ['99 of 100', up(0.99)]]} />`}</section>`;
}

async function setLimit(limit) {
  return askForm({
    title: limit ? `Limit “${limit.name}”` : 'Create a shared limit',
    fields: [
      ...(limit ? [] : [{ name: 'name', label: 'Name', hint: 'which tubes name in shared_limits' }]),
      { name: 'most', label: 'Tasks taken at a time, at most', type: 'number', value: limit ? String(limit.most) : '' },
    ],
    submit: 'Save',
    run: ({ name, most }) => call('PUT', path`v1/limits/${limit?.name ?? name}`, { json: { most: optionValue(most) } }),
  });
}

function Limits({ limits, paused, reload }) {
  const remove = (name) => attempt(() => call('DELETE', path`v1/limits/${name}`), `Limit “${name}” removed.`).then(reload);
  return html`<section class="card" aria-label="limits"><h2>Shared limits
    <${Action} keys="a" kind="small" onClick=${async () => (await setLimit()) && reload()}>Create<//></h2>
    ${limits.length === 0 ? html`<${Empty}>There is none.<//>` : html`<table class="plain"><thead><tr><th>limit</th><th class="number">taken</th><th class="number">most</th><th><span class="hidden">actions</span></th></tr></thead><tbody>
      ${limits.map((limit) => html`<tr key=${limit.name} data-row=${limit.name} tabindex="-1"><th scope="row">${limit.name}</th>
        <td class="number ${limit.taken >= limit.most ? 'bad' : ''}">${number(limit.taken)}</td><td class="number">${number(limit.most)}</td>
        <td class="row-actions"><${Action} keys="e" kind="small" onClick=${async () => (await setLimit(limit)) && reload()}>Edit<//>
          <${Action} keys="D" kind="small danger-quiet" onClick=${() => remove(limit.name)}>Remove<//></td></tr>`)}</tbody></table>`}
    ${paused.length > 0 && html`<h3>Paused sub-queues</h3><ul class="plain">${paused.map(({ tube, name, resumes_in: left }) => html`<li key=${`${tube}/${name}`}>
      <${Action} kind="small" aria-label=${`resume ${tube} / ${name}`} onClick=${() => pauseOrResume({ tube, paused: true, sub_queue: name }).then(reload)}>Resume<//>
      <a href=${tubeLink(tube, { sub_queue: name })}>${tube} / ${name}</a> <span class="quiet">${left == null ? 'until it is resumed' : `for ${duration(left)}`}</span></li>`)}</ul>`}
  </section>`;
}

/** Checks the store, and shows what is found. The server makes one check or backup at a time. */
function verify() {
  return runSteps({
    title: 'Verify the store',
    done: 'tasks checked',
    async step(run) {
      await readEvents('v1/store/verify', {
        method: 'POST',
        signal: run.signal,
        taken(kind, _id, text) {
          const told = JSON.parse(text);
          if (kind === 'failed') throw new Problem(told.status, told.kind, told.detail ?? told.title);
          if (kind === 'progress') [run.count, run.total] = [told.checked, told.of];
          if (kind === 'done') run.result = html`<${Findings} findings=${told.findings} />`;
          run.draw();
        },
      });
      if (run.result == null) throw new Error('The check has ended without a result.');
      return true;
    },
  });
}

function Findings({ findings }) {
  if (findings.length === 0) return html`<p>No damage was found.</p>`;
  return html`<p class="trouble">${plural(findings.length, 'finding')}. Keep the file, and take a backup or an export before you repair it.</p>
    <ol class="findings">${findings.slice(0, FINDINGS).map((finding) => html`<li key=${finding}>${finding}</li>`)}</ol>
    ${findings.length > FINDINGS && html`<p class="quiet">${number(findings.length - FINDINGS)} more are left out.</p>`}`;
}

/** Downloads a backup with the token: the browser holds it before it is saved. */
function loadBackup() {
  const parts = [];
  return runSteps({
    title: 'Download a backup',
    done: 'loaded',
    show: bytes,
    async step(run) {
      parts.push(...(await getFile('v1/store/backup', {
        signal: run.signal,
        told(count, all) {
          if (Math.max(count, all ?? 0) > BACKUP_MAX) {
            throw new Error(`The backup has ${all == null ? `more than ${bytes(BACKUP_MAX)}` : bytes(all)}. With a token, the page loads ${bytes(BACKUP_MAX)} at most: use tubewell backup, or another client of GET /v1/store/backup.`);
          }
          [run.count, run.total] = [count, all];
          run.draw();
        },
      })));
      download(parts, `${new Date().toISOString().slice(0, 10)}.tubewell`, 'application/octet-stream');
      return true;
    },
  });
}

function Care({ size }) {
  const about = 'a copy of the store in the state of one moment';
  const isLink = !isReadOnly() && token.get() == null;
  return html`<section class="card" aria-label="check and backup"><h2>Check and backup</h2>
    <p class="care"><${Action} hint="check every page, record and count of the store" onClick=${verify}>Verify<//>
      ${isLink
        ? html`<a class="button" href="v1/store/backup" download title=${about}>Download a backup</a>`
        : html`<${Action} hint=${about} onClick=${loadBackup}>Download a backup<//>`}</p>
    <p class="quiet">Both read the whole file${size != null && ` of ${bytes(size)}`}, and the server makes one of them at a time. A backup is a file that is a store; the server copies it
      into its folder for temporary files before it is sent.${!isLink && ` With a token, the page loads ${bytes(BACKUP_MAX)} at most.`}</p></section>`;
}

/** How much of the file is free is not known: whether it is large for so few tasks. */
function CompactHint({ size }) {
  const tasks = live.tubes.reduce((sum, tube) => sum + tube.tasks.total + tube.tasks.kept, 0);
  if (!live.isLoaded || size == null || size < LARGE || size < tasks * LARGE_TASK) return null;
  return html`<p class="hint"><strong>compact may help.</strong> The file has ${bytes(size)} for ${plural(tasks, 'task')}${tasks > 0 && `: ${bytes(Math.round(size / tasks))} each`}.
    If their bodies, and the application's own tables, are smaller, the rest is free space. The store uses it again; <code>tubewell compact</code>, with the program stopped, returns it to the disk.</p>`;
}

export function Store() {
  useTick(5000);
  const { data, error, isLoading, reload } = useLoad(load, [], isAny);
  const head = html`<header class="head"><h1 tabindex="-1">Store</h1></header><${Trouble} error=${error} />`;
  if (!data) return html`${head}<${Empty} isLoading=${isLoading}>Nothing to show.<//>`;
  const { store, samples, limits, tags, isLarge } = data;
  const value = (name, part) => (samples.get(name) ?? []).find(({ labels }) => part == null || labels.part === part)?.value;
  const info = samples.get('tubewell_info')?.[0].labels;
  const hasFailed = value('tubewell_storage_failed') === 1;
  const clock = store?.clock;
  const size = value('tubewell_store_bytes', 'file');
  return html`${head}
    ${hasFailed && html`<p class="trouble" role="alert">The storage has failed: changes are refused until it works again.</p>`}
    ${isLarge && html`<p class="quiet">The store has more than ${number(TUBES)} tubes: latencies and sizes are left out here; GET /metrics has them.</p>`}
    <div class="cards">
      <section class="card" aria-label="store"><h2>Store</h2><${Facts} facts=${[
        ['tubewell', store?.version ?? info?.version],
        ['durability', store?.durability],
        ['changes over HTTP', store ? (store.read_only ? 'refused: read-only' : 'allowed') : null],
        ['next id', store && number(store.next_id)],
        ['tubes', number(live.tubes.length)],
        ['storage', hasFailed ? html`<strong class="bad">failed</strong>` : samples.size > 0 && 'works'],
      ]} /></section>
      <${Latency} title="Flushes" samples=${samples} name="tubewell_flush_seconds" label="time of a commit to the journal, with its flush" />
      <${Latency} title="Checkpoints" samples=${samples} name="tubewell_checkpoint_seconds" label="time of a commit to the database" />
      <section class="card" aria-label="file and disk"><h2>File and disk</h2><${Facts} facts=${[
        ['file', size != null && bytes(size)],
        ['journal in use', value('tubewell_store_bytes', 'journal') != null && bytes(value('tubewell_store_bytes', 'journal'))],
        ['disk reserve', value('tubewell_disk_reserve_bytes') != null && bytes(value('tubewell_disk_reserve_bytes'))],
        ['free above it', value('tubewell_disk_headroom_bytes') != null && bytes(value('tubewell_disk_headroom_bytes'))],
        ['journal waits', store ? html`<span class=${store.counters.journal_waits ? 'bad' : ''}>${number(store.counters.journal_waits)}</span>` : number(value('tubewell_journal_waits_total'))],
      ]} /><${CompactHint} size=${size} /></section>
      <${Care} size=${size} />
      <section class="card" aria-label="counters"><h2>Counters <span class="quiet">since the store was opened</span></h2><${Facts} facts=${[
        ['commits', number(store?.counters.commits ?? value('tubewell_commits_total'))],
        ['rows', number(store?.counters.rows ?? value('tubewell_rows_total'))],
        ['flushes', number(store?.counters.flushes ?? value('tubewell_flushes_total'))],
        ['writes', number(store?.counters.writes ?? value('tubewell_writes_total'))],
        ['written', bytes(store?.counters.bytes_written ?? value('tubewell_written_bytes_total'))],
        ['reads', number(store?.counters.reads ?? value('tubewell_reads_total'))],
      ]} /></section>
      <section class="card" aria-label="clock"><h2>Clock</h2>${clock
        ? html`<${Facts} facts=${[
            ['time of the store', html`<${When} at=${store.now} />`],
            ['wall clock', clock.untrusted != null ? html`<strong class="bad">not trusted: ${duration(clock.untrusted)} ahead</strong>` : 'trusted'],
            ['set back at the open', clock.set_back != null && html`<strong class="bad">by ${duration(clock.set_back)}</strong>`],
          ]} />`
        : html`<${Empty}>The server does not tell.<//>`}</section>
      <${Limits} limits=${limits.limits} paused=${limits.paused} reload=${reload} />
      ${tags.length > 0 && html`<section class="card" aria-label="tags"><h2>Tags <span class="quiet">of most tasks</span></h2>
        <ul class="plain">${tags.map(({ tag, tasks }) => html`<li key=${tag}><span class="tag">${tag}</span> <span class="number quiet">${number(tasks)}</span></li>`)}</ul></section>`}
    </div>`;
}

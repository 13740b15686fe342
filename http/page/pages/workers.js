// Who works on what: taken tasks by their owner, for how long, and how far they are.

import { listTasks } from '../api.js';
import { changeMarked, changeMatching, groupBy } from '../bulk.js';
import { duration, number, plural } from '../format.js';
import { live } from '../live.js';
import { Action, Empty, Progress, Trouble, html, isAny, taskLink, tubeLink, useLive, useLoad, useState, useTick } from '../ui.js';

const SHOWN = 1000;
const UNKNOWN = 'unknown owner';

/** The taken tasks, of those tubes that have some. */
async function load(signal) {
  const tasks = [];
  let isMore = false;
  for (const { tube, states } of live.tubes) {
    if (states.taken === 0 || isMore) continue;
    let after = null;
    do {
      const page = await listTasks({ tube, state: 'taken', after }, signal);
      tasks.push(...page.tasks);
      after = page.next;
      isMore = tasks.length >= SHOWN;
    } while (after != null && !isMore);
  }
  return { tasks, isMore, readAt: Date.now() };
}

/** For how long a task has been held, in seconds; null if nobody has told. */
function heldFor(task, readAt) {
  if (task.held != null) return task.held + (Date.now() - readAt) / 1000;
  const seen = live.takenAt.get(task.id);
  return seen == null ? null : (Date.now() - seen) / 1000;
}

function Row({ task, readAt, reload }) {
  const held = heldFor(task, readAt);
  const left = task.due_in == null ? null : task.due_in - (Date.now() - readAt) / 1000;
  const isOverdue = task.reclaimed_in !== undefined;
  const revoke = async () => (await changeMarked('revoke', [task])) && reload();
  return html`<tr data-row=${task.id} tabindex="-1">
    <th scope="row"><a data-open class="number" href=${taskLink(task.id)}>${task.id}</a></th>
    <td data-label="tube"><a href=${tubeLink(task.tube)}>${task.tube}</a></td>
    <td class="content">${task.key && html`<span class="key">${task.key}</span>`}${task.sub_queue && html`<span class="sub">${task.sub_queue}</span>`}</td>
    <td class="number" data-label="held for">${held == null ? html`<span class="quiet" title="taken before this page was opened">–</span>` : duration(held)}</td>
    <td class="number" data-label="claim">${isOverdue ? html`<strong class="late">overdue</strong>` : left == null ? html`<span class="quiet">no end</span>` : duration(Math.max(0, left))}</td>
    <td class="number" data-label="attempt">${number(task.attempts)}${task.max_attempts != null && ` of ${number(task.max_attempts)}`}</td>
    <td class="progress-cell"><${Progress} progress=${task.progress} /></td>
    <td class="row-actions"><${Action} keys="V" kind="small danger-quiet" aria-label=${`revoke task ${task.id}`} onClick=${revoke}>Revoke<//></td>
  </tr>`;
}

function Owner({ owner, tasks, readAt, reload }) {
  const overdue = tasks.filter((task) => task.reclaimed_in !== undefined).length;
  // Also those that are not shown: behind the last row, or because of the filter of the page.
  const revokeAll = async () => {
    const note = 'They are ready again, and the next call of the worker for them is refused.';
    if (await changeMatching('revoke', { state: 'taken', owner }, { note })) reload();
  };
  return html`<tbody>
    <tr class="group-head"><th colspan="7" scope="rowgroup"><span class="mono">${owner ?? UNKNOWN}</span>
      <span class="quiet number">${plural(tasks.length, 'task')}</span>
      ${overdue > 0 && html` <strong class="late">${number(overdue)} overdue</strong>`}</th>
      <td class="row-actions"><${Action} kind="small danger-quiet" isDisabled=${owner == null} why="Their owner has no name." aria-label=${`revoke all tasks of ${owner ?? UNKNOWN}`} onClick=${revokeAll}>Revoke all<//></td></tr>
    ${tasks.map((task) => html`<${Row} key=${task.id} task=${task} readAt=${readAt} reload=${reload} />`)}
  </tbody>`;
}

export function Workers() {
  useTick();
  const { isLoaded } = useLive();
  const { data, error, isLoading, reload } = useLoad(load, [isLoaded], isAny);
  const [text, setText] = useState('');
  const wanted = text.trim().toLowerCase();
  const tasks = (data?.tasks ?? []).filter((task) => wanted === '' || `${task.owner} ${task.tube} ${task.key ?? ''}`.toLowerCase().includes(wanted));
  const owners = [...groupBy(tasks, (task) => task.owner ?? null)].sort(([a], [b]) => ((a ?? '') < (b ?? '') ? -1 : 1));
  const all = live.tubes.reduce((sum, tube) => sum + tube.states.taken, 0);
  return html`
    <header class="head"><h1 tabindex="-1">Workers</h1>
      <span class="quiet">${plural(owners.length, 'owner')}, ${plural(data && !data.isMore ? data.tasks.length : all, 'taken task')}</span>
      <input type="search" data-filter placeholder="Filter by owner, tube or key" aria-label="filter by owner, tube or key" value=${text} onInput=${(event) => setText(event.target.value)} />
    </header>
    <${Trouble} error=${error} />
    ${owners.length === 0
      ? html`<${Empty} isLoading=${!isLoaded || (isLoading && !data)}>${wanted ? 'No taken task matches.' : 'No task is taken: nobody works.'}<//>`
      : html`<div class="scroll"><table class="workers" aria-label="taken tasks by owner">
        <thead><tr><th>task</th><th>tube</th><th class="wide">key</th><th class="number">held for</th><th class="number">claim ends in</th>
          <th class="number">attempt</th><th class="wide">progress</th><th><span class="hidden">actions</span></th></tr></thead>
        ${owners.map(([owner, taken]) => html`<${Owner} key=${owner} owner=${owner} tasks=${taken} readAt=${data.readAt} reload=${reload} />`)}
      </table></div>`}
    ${data?.isMore && html`<p class="quiet">The first ${number(data.tasks.length)} of ${number(all)} taken tasks.</p>`}`;
}

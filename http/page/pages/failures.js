// Why tasks are buried: failure groups over all tubes, with how many, since when, and a sample.

import { get, listTasks } from '../api.js';
import { changeMatching, groupBy } from '../bulk.js';
import { number, plural } from '../format.js';
import { live } from '../live.js';
import { TaskList } from '../tasks.js';
import { Action, Empty, Trouble, When, go, html, inTurn, isAny, taskLink, tubeLink, useLoad } from '../ui.js';

const SHOWN = 200;
const SAMPLED = 100;
const TUBES = 4;

/** The first and the last task of each group, in the tubes that have most of it. */
async function sample(groups, signal) {
  await inTurn(groups.slice(0, SAMPLED), 4, async (group) => {
    for (const { tube } of group.tubes.slice(0, TUBES)) {
      const filter = { tube, state: 'buried', group: group.name, limit: 1 };
      const [first, last] = await Promise.all([false, true].map((newest) => listTasks({ ...filter, newest_first: newest }, signal)));
      const at = (task) => task.ended_at ?? '';
      // Tasks may have been kicked since the groups were read.
      for (const task of first.tasks) if (group.first == null || at(task) < at(group.first)) group.first = task;
      for (const task of last.tasks) if (group.last == null || at(task) > at(group.last)) group.last = task;
    }
  }, signal);
}

async function load(signal) {
  const { groups } = await get('v1/groups', signal);
  const byName = [...groupBy(groups, (group) => group.name)].map(([name, tubes]) => ({
    name,
    tubes: tubes.sort((a, b) => b.count - a.count),
    count: tubes.reduce((sum, { count }) => sum + count, 0),
  }));
  byName.sort((a, b) => b.count - a.count);
  await sample(byName, signal);
  return byName;
}

function Group({ group, reload }) {
  const filter = { state: 'buried', group: group.name };
  const act = async (verb) => {
    if (await changeMatching(verb, filter, { known: group.count })) reload();
  };
  const message = group.last?.failure?.message;
  return html`<tr data-row=${group.name} tabindex="-1">
    <th scope="row"><a data-open href=${`#/failures?${new URLSearchParams({ group: group.name })}`}>${group.name}</a>
      <div class="in-tubes">${group.tubes.slice(0, 6).map(({ tube, count }) => html`<a key=${tube} href=${tubeLink(tube, filter)}>${tube}
        ${group.tubes.length > 1 && html` <span class="number">${number(count)}</span>`}</a> `)}
        ${group.tubes.length > 6 && html`<span class="quiet">and ${number(group.tubes.length - 6)} more</span>`}</div></th>
    <td class="number bad" data-label="tasks"><strong>${number(group.count)}</strong></td>
    <td class="message">${message ? html`<span>${message.slice(0, 600)}</span>` : html`<span class="quiet">no message</span>`}
      ${group.last && html` <a class="quiet number" href=${taskLink(group.last.id)}>task ${group.last.id}</a>`}</td>
    <td data-label="first"><${When} at=${group.first?.ended_at} /></td>
    <td data-label="last"><${When} at=${group.last?.ended_at} /></td>
    <td class="row-actions">
      <${Action} keys="K" kind="small" aria-label=${`kick ${group.name}`} onClick=${() => act('kick')}>Kick<//>
      <${Action} keys="D" kind="small danger-quiet" aria-label=${`delete ${group.name}`} onClick=${() => act('delete')}>Delete<//></td>
  </tr>`;
}

export function Failures({ query }) {
  const name = query.get('group');
  return name == null ? html`<${Groups} />` : html`<${OneGroup} key=${name} name=${name} />`;
}

function Groups() {
  const { data, error, isLoading, reload } = useLoad(load, [], isAny);
  const buried = live.tubes.reduce((sum, tube) => sum + tube.states.buried, 0);
  const grouped = (data ?? []).reduce((sum, group) => sum + group.count, 0);
  const act = async (verb) => {
    if (await changeMatching(verb, { state: 'buried' })) reload();
  };
  const isDisabled = buried === 0;
  return html`
    <header class="head"><h1 tabindex="-1">Failures</h1>
      <span class="quiet">${plural(buried, 'buried task')}${data && `, ${plural(data.length, 'cause')}`}</span>
      <span class="grow" />
      <${Action} isDisabled=${isDisabled} why="No task is buried." onClick=${() => act('kick')}>Kick all<//>
      <${Action} kind="danger-quiet" isDisabled=${isDisabled} why="No task is buried." onClick=${() => act('delete')}>Delete all<//>
    </header>
    <${Trouble} error=${error} />
    ${!data?.length
      ? html`<${Empty} isLoading=${isLoading && !data}>${buried > 0 ? 'The buried tasks have no failure group.' : 'No task is buried.'}<//>`
      : html`<div class="scroll"><table class="groups" aria-label="buried tasks by cause">
        <thead><tr><th>cause and tubes</th><th class="number">tasks</th><th class="wide">last message</th><th>first</th><th>last</th><th><span class="hidden">actions</span></th></tr></thead>
        <tbody>${data.slice(0, SHOWN).map((group) => html`<${Group} key=${group.name} group=${group} reload=${reload} />`)}</tbody>
      </table></div>`}
    ${data?.length > SHOWN && html`<p class="quiet">${plural(data.length - SHOWN, 'smaller cause')} left out.</p>`}
    ${data && buried > grouped && html`<p class="quiet">${plural(buried - grouped, 'buried task')} without a failure group.</p>`}`;
}

function OneGroup({ name }) {
  return html`
    <header class="head"><nav class="crumbs" aria-label="place"><a href="#/failures" data-key="u">Failures</a></nav>
      <h1 tabindex="-1">${name}</h1></header>
    <section class="card list" aria-label="tasks"><${TaskList} filter=${{ state: 'buried', group: name }} isStale=${isAny} showTube=${true} hasBodies=${true}
      pick=${(change) => change.sub_queue == null && change.tag == null && go('#/failures')} label=${`buried tasks of ${name}`} /></section>`;
}

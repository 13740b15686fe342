// The dashboard: its frame, its pages by the address behind #, and what the whole page knows.

import { html, render, useEffect, useRef, useState } from './vendor/preact.js';
import { firstAnswered, get, path, token } from './api.js';
import { Dialogs } from './dialogs.js';
import { showKeys, useKeys } from './keys.js';
import { isReadOnly, live, reconnect, refresh, start } from './live.js';
import { Toasts, go, taskLink, toast, useLive, useTick } from './ui.js';
import { Failures } from './pages/failures.js';
import { Schedules } from './pages/schedules.js';
import { Store } from './pages/store.js';
import { Task } from './pages/task.js';
import { Tube } from './pages/tube.js';
import { Tubes } from './pages/tubes.js';
import { Workers } from './pages/workers.js';
import { duration, short } from './format.js';

const PAGES = [
  { pattern: /^\/?$/, page: Tubes, title: () => 'Tubes', place: '' },
  { pattern: /^\/tubes\/([^/]+)$/, page: Tube, name: 'name', title: (name) => name, place: '' },
  { pattern: /^\/failures$/, page: Failures, title: () => 'Failures', place: 'failures' },
  { pattern: /^\/tasks\/(\d+)$/, page: Task, name: 'id', title: (id) => `Task ${id}`, place: '' },
  { pattern: /^\/workers$/, page: Workers, title: () => 'Workers', place: 'workers' },
  { pattern: /^\/schedules$/, page: Schedules, title: () => 'Schedules', place: 'schedules' },
  { pattern: /^\/store$/, page: Store, title: () => 'Store', place: 'store' },
];

function currentPage() {
  const [where, query] = location.hash.slice(1).split('?', 2);
  for (const page of PAGES) {
    const found = page.pattern.exec(where);
    if (found) {
      const argument = found[1] == null ? null : decodeURIComponent(found[1]);
      return { ...page, argument, query: new URLSearchParams(query) };
    }
  }
  return { page: Unknown, title: () => 'Unknown', query: new URLSearchParams(), argument: null };
}

function Unknown() {
  return html`<header class="head"><h1 tabindex="-1">No such page</h1></header><p class="empty"><a href="#/">All tubes</a></p>`;
}

// Dark or light.

const THEME = 'tubewell-theme';
const THEMES = ['system', 'dark', 'light'];

function useTheme() {
  const [theme, set] = useState(() => localStorage.getItem(THEME) ?? 'system');
  const [isDark, setDark] = useState(() => matchMedia('(prefers-color-scheme: dark)').matches);
  useEffect(() => {
    const system = matchMedia('(prefers-color-scheme: dark)');
    const listen = () => setDark(system.matches);
    system.addEventListener('change', listen);
    return () => system.removeEventListener('change', listen);
  }, []);
  const shown = theme === 'system' ? (isDark ? 'dark' : 'light') : theme;
  document.documentElement.dataset.theme = shown;
  const next = () => {
    set((old) => {
      const chosen = THEMES[(THEMES.indexOf(old) + 1) % THEMES.length];
      localStorage.setItem(THEME, chosen);
      toast(`Colours: ${chosen}.`);
      return chosen;
    });
  };
  return [shown, theme, next];
}

// The frame.

function Navigation({ place }) {
  const sum = (state) => live.tubes.reduce((before, tube) => before + tube.states[state], 0);
  const [buried, taken] = [sum('buried'), sum('taken')];
  const link = (where, label, count, isBad) => html`<a href=${`#/${where}`} aria-current=${place === where ? 'page' : undefined}>${label}
    ${live.isLoaded && count > 0 && html` <span class="count number ${isBad ? 'bad' : ''}">${short(count)}</span>`}</a>`;
  return html`<nav class="pages-nav" aria-label="pages">
    ${link('', 'Tubes', live.tubes.length)}${link('failures', 'Failures', buried, true)}${link('workers', 'Workers', taken)}
    ${link('schedules', 'Schedules', sum('recurring'))}${link('store', 'Store')}
  </nav>`;
}

async function find(text) {
  const wanted = text.trim();
  if (wanted === '') return;
  try {
    const task = await get(/^\d+$/.test(wanted) ? path`v1/tasks/${wanted}` : path`v1/keys/${wanted}`);
    go(taskLink(task.id));
  } catch (error) {
    // A key may have digits only: those of no task, or those that are no id, such as 00123.
    if (/^\d+$/.test(wanted) && (error.status === 404 || error.status === 400)) {
      try {
        go(taskLink((await get(path`v1/keys/${wanted}`)).id));
        return;
      } catch {
        // The first reason says more.
      }
    }
    toast(error.message, true);
  }
}

function Find() {
  const [text, set] = useState('');
  const send = (event) => {
    event.preventDefault();
    find(text);
  };
  return html`<form class="find" role="search" aria-label="find a task" onSubmit=${send}>
    <input id="find" type="search" placeholder="Find: id or key" aria-label="find a task by its id or key" value=${text}
      onInput=${(event) => set(event.target.value)} /></form>`;
}

function Status() {
  useTick();
  if (live.status === 'lost') {
    const left = Math.max(0, (live.retryAt - Date.now()) / 1000);
    return html`<p class="lost" role="alert"><strong>The owner is gone.</strong> Reconnecting${left > 0.5 ? ` in ${duration(Math.ceil(left))}` : '…'}
      <span class="quiet">${live.why}. What is shown is from before.</span>
      <button type="button" class="button small" onClick=${reconnect}>Try now</button></p>`;
  }
  return null;
}

function Pulse() {
  const texts = { live: 'live', connecting: 'connecting', lost: 'reconnecting', hidden: 'paused' };
  return html`<span class="pulse is-${live.status}" role="status" aria-live="polite">${texts[live.status]}</span>`;
}

function App() {
  useLive();
  const [current, set] = useState(currentPage);
  const [shown, theme, nextTheme] = useTheme();
  const main = useRef(null);
  useKeys({ theme: nextTheme, refresh });
  useEffect(() => {
    const listen = () => set(currentPage());
    window.addEventListener('hashchange', listen);
    return () => window.removeEventListener('hashchange', listen);
  }, []);
  const where = `${current.place}/${current.argument ?? ''}/${current.query.get('group') ?? ''}`;
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${current.title(current.argument)} · tubewell`;
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    window.scrollTo(0, 0);
    main.current?.querySelector('h1')?.focus({ preventScroll: true });
  }, [where]);
  const { page: Page, name, argument, query } = current;
  const named = name ? { [name]: argument } : {};
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to the content</a>
    <header class="frame">
      <a class="brand" href="#/"><svg viewBox="0 0 16 16" aria-hidden="true"><rect x="4.5" y="0.5" width="7" height="15" rx="3.5" class="well" /><rect x="6.4" y="6" width="3.2" height="7.6" rx="1.6" class="water" /></svg>
        <span>tubewell</span></a>
      <${Navigation} place=${current.place} />
      <div class="frame-end">
        <${Find} />
        <${Pulse} />
        ${isReadOnly() && html`<span class="badge" title="The server refuses changes.">read-only</span>`}
        <span class="frame-buttons">
        ${token.get() && html`<button type="button" class="button small" onClick=${() => { token.forget(); location.reload(); }}>Forget token</button>`}
        <button type="button" class="button small" aria-label=${`colours: ${theme}; change`} title="dark or light (key c)" onClick=${nextTheme}>◐</button>
        <button type="button" class="button small" aria-label="keys" title="keys (key ?)" onClick=${showKeys}>?</button></span>
      </div>
    </header>
    <${Status} />
    <main id="main" ref=${main} tabindex="-1"><${Page} key=${where} ...${named} query=${query} theme=${shown} /></main>
    <${Dialogs} /><${Toasts} />`;
}

await firstAnswered;
const place = document.querySelector('#app');
place.textContent = '';
render(html`<${App} />`, place);
start();

// The keyboard: everything that a pointer does. Rows, links and buttons are found by their attributes in the page.

import { html, useEffect } from './vendor/preact.js';
import { showNote } from './dialogs.js';

const PAGES = { t: '#/', f: '#/failures', w: '#/workers', s: '#/schedules', o: '#/store' };

const HELP = [
  ['Everywhere', [
    ['?', 'this list'],
    ['g t, g f, g w, g s, g o', 'tubes, failures, workers, schedules, store'],
    ['i', 'find a task by its id or key'],
    ['/', 'the filter of the page'],
    ['r', 'read anew'],
    ['u', 'up: from a task to its tube, from a tube to all'],
    ['c', 'dark, light, or as the system says'],
    ['Esc', 'leave a field, close a dialog'],
  ]],
  ['Lists', [
    ['j, k', 'next and previous row (also the arrow keys)'],
    ['Home, End', 'first and last row'],
    ['Enter', 'open the row'],
    ['x', 'mark the row'],
    ['X', 'mark all rows of the page, or none'],
    ['n, p', 'next and previous page'],
    ['1 … 7', 'tasks of all states, ready, taken, …'],
  ]],
  ['Actions', [
    ['a', 'add: put a task (on a task, the same again), create a tube or a schedule'],
    ['z, Z', 'pause or resume the tube (of the row), the sub-queue that is shown'],
    ['K', 'kick'],
    ['B', 'bury'],
    ['D', 'delete'],
    ['M', 'move to another tube'],
    ['V, L', 'revoke, release'],
    ['C', 'cancel'],
    ['E', 'export'],
    ['e', 'edit'],
    ['l', 'log a note'],
    ['R', 'run the schedule now'],
  ]],
];

export function showKeys() {
  const column = ([title, keys]) => html`<section><h3>${title}</h3><dl class="keys">
    ${keys.map(([key, what]) => html`<div><dt>${key.split(', ').map((one, at) => html`${at > 0 && ', '}<kbd>${one}</kbd>`)}</dt><dd>${what}</dd></div>`)}
  </dl></section>`;
  return showNote('Keys', html`<div class="key-columns">${HELP.map(column)}</div>
    <p class="quiet">Actions change the marked rows if there are any, otherwise the focused row, otherwise all that match,
      after a question.</p>`);
}

const main = () => document.querySelector('main');
const rows = () => [...main().querySelectorAll('[data-row]')];
const focusedRow = () => document.activeElement?.closest?.('[data-row]');

function moveBy(step) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.indexOf(focusedRow());
  focusRow(all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + step))]);
}

function focusRow(row) {
  row?.focus();
  row?.scrollIntoView({ block: 'nearest' });
}

/** Clicks what has this key: in the focused row, or else anywhere in the page. */
function press(key) {
  const of = (place) => place?.querySelector(`[data-key="${CSS.escape(key)}"]:not([disabled])`);
  const found = of(focusedRow()) ?? of(main());
  found?.click();
  return found != null;
}

let isGoing = false;

function pressed(event, { theme, refresh }) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (document.querySelector('dialog[open]')) return false;
  const isField = event.target.closest('input:not([type=checkbox]), textarea, select');
  if (isField) {
    if (event.key !== 'Escape') return false;
    isField.blur();
    return true;
  }
  if (isGoing) {
    isGoing = false;
    if (PAGES[event.key] == null) return false;
    location.hash = PAGES[event.key];
    return true;
  }
  switch (event.key) {
    case 'g':
      isGoing = true;
      setTimeout(() => (isGoing = false), 1500);
      return true;
    case '?':
      showKeys();
      return true;
    case 'c':
      theme();
      return true;
    case 'r':
      refresh();
      return true;
    case 'i':
      document.querySelector('#find')?.focus();
      return true;
    case '/':
      main().querySelector('[data-filter]')?.focus();
      return true;
    case 'j':
    case 'ArrowDown':
      if (event.key === 'ArrowDown' && !focusedRow()) return false;
      moveBy(1);
      return true;
    case 'k':
    case 'ArrowUp':
      if (event.key === 'ArrowUp' && !focusedRow()) return false;
      moveBy(-1);
      return true;
    case 'Home':
      if (!focusedRow()) return false;
      focusRow(rows()[0]);
      return true;
    case 'End':
      if (!focusedRow()) return false;
      focusRow(rows().at(-1));
      return true;
    case 'Enter':
      if (event.target !== focusedRow()) return false;
      event.target.querySelector('[data-open]')?.click();
      return true;
    case 'x':
      focusedRow()?.querySelector('input[type=checkbox]')?.click();
      return true;
    default:
      return event.key.length === 1 && event.key !== ' ' && press(event.key);
  }
}

/** Listens to the keyboard. `theme` and `refresh` are what `c` and `r` do. */
export function useKeys(does) {
  useEffect(() => {
    const listen = (event) => pressed(event, does) && event.preventDefault();
    document.addEventListener('keydown', listen);
    return () => document.removeEventListener('keydown', listen);
  }, []);
}

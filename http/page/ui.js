// What the pages are made of: small components, and how they load what they show.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from './vendor/preact.js';
import { moment, number } from './format.js';
import { isReadOnly, live, onLive, watch } from './live.js';

export { html, useEffect, useLayoutEffect, useMemo, useRef, useState };

export const STATES = ['ready', 'taken', 'delayed', 'blocked', 'buried', 'done'];

/** What a disabled action says. */
export const READ_ONLY = 'The server is read-only: it refuses changes.';

// Links.

export const tubeLink = (name, filter) => {
  const given = Object.entries(filter ?? {}).filter(([, value]) => value != null && value !== '');
  const query = given.length ? `?${new URLSearchParams(given)}` : '';
  return `#/tubes/${encodeURIComponent(name)}${query}`;
};
export const taskLink = (id) => `#/tasks/${id}`;

export function go(where) {
  location.hash = where;
}

// Loading.

/** Draws a component anew after each change of what is live. */
export function useLive() {
  const [, draw] = useState(0);
  // Before anything can change: an effect comes after the drawing.
  useLayoutEffect(() => onLive(() => draw((count) => count + 1)), []);
  return live;
}

/** Draws a component anew each second, or so, while the page is seen: for ages and rates. Nothing is read. */
export function useTick(every = 1000) {
  const [, draw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || draw((count) => count + 1), every);
    return () => clearInterval(timer);
  }, [every]);
}

/**
 * Loads what a component shows, again when `isStale` says so of a change, at most once a second and for at most a tenth
 * of the time, and not before `held.current`, a time of `performance.now`, unless this page has made the change. What was
 * loaded before stays until the next answer.
 */
export function useLoad(load, dependencies, isStale, held) {
  const [state, set] = useState({ data: null, error: null, isLoading: true });
  const control = useRef(null);
  useEffect(() => {
    const controller = new AbortController();
    let [timer, isLoading, isWanted, earliest] = [null, false, false, 0];
    const now = async () => {
      clearTimeout(timer);
      timer = null;
      if (isLoading) {
        isWanted = true;
        return;
      }
      isLoading = true;
      const began = performance.now();
      try {
        const data = await load(controller.signal);
        if (!controller.signal.aborted) set({ data, error: null, isLoading: false });
      } catch (error) {
        const failed = (old) => ({ ...old, error, isLoading: false });
        if (!controller.signal.aborted && error.name !== 'AbortError') set(failed);
      }
      isLoading = false;
      earliest = performance.now() + Math.max(1000, 10 * (performance.now() - began));
      if (isWanted) later();
    };
    const later = () => {
      isWanted = false;
      timer ??= setTimeout(() => {
        timer = null;
        if (performance.now() < (held?.current ?? 0)) later();
        else now();
      }, Math.max(0, earliest - performance.now(), (held?.current ?? 0) - performance.now()));
    };
    control.current = now;
    set((old) => ({ ...old, isLoading: true }));
    now();
    const end = watch((change) => {
      if (!isStale?.(change)) return;
      if (change.isOwn) now();
      else later();
    });
    return () => {
      end();
      clearTimeout(timer);
      controller.abort();
    };
  }, dependencies);
  return { ...state, reload: () => control.current?.() };
}

/** Whether a change is about a tube. */
export const isOfTube = (name) => (change) => change.tubes == null || change.tubes.has(name);
/** Whether a change is about a task. */
export const isOfTask = (id) => (change) => change.ids == null || change.ids.has(id);
export const isAny = () => true;

/** The first rows of work that is done a few at a time. */
export async function inTurn(items, atOnce, work, signal) {
  const left = [...items];
  const worker = async () => {
    while (left.length && !signal?.aborted) await work(left.shift());
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

// Messages.

let tellToast = () => {};
let toastNumber = 0;

/** Says that something was done, or why not. */
export function toast(text, isError = false) {
  tellToast({ text, isError, number: (toastNumber += 1) });
}

/** Makes a call, and says how it went. Returns whether it was done. */
export async function attempt(work, done) {
  try {
    const result = await work();
    if (done) toast(typeof done === 'function' ? done(result) : done);
    return true;
  } catch (error) {
    toast(error.message, true);
    return false;
  }
}

export function Toasts() {
  const [toasts, set] = useState([]);
  useEffect(() => {
    tellToast = (toast) => {
      set((old) => [...old.slice(-3), toast]);
      const remove = () => set((old) => old.filter((other) => other !== toast));
      setTimeout(remove, toast.isError ? 15_000 : 5000);
    };
  }, []);
  const shown = (isError) =>
    toasts
      .filter((toast) => toast.isError === isError)
      .map((toast) => html`<p key=${toast.number} class="toast ${isError ? 'is-error' : ''}">${toast.text}</p>`);
  return html`<div class="toasts">
    <div role="status" aria-live="polite">${shown(false)}</div>
    <div role="alert">${shown(true)}</div>
  </div>`;
}

// Elements.

export function Action({ onClick, children, hint, keys, kind = '', isDisabled, why, changes = true, ...more }) {
  const refusal = changes && isReadOnly() ? READ_ONLY : isDisabled ? (why ?? '') : null;
  const title = refusal ?? (keys ? `${hint ?? ''} (key ${keys})`.trim() : hint);
  const click = () => (refusal == null ? onClick() : refusal && toast(refusal, true));
  return html`<button type="button" class="button ${kind}" title=${title} onClick=${click}
    aria-disabled=${refusal != null} data-key=${keys} ...${more}>${children}</button>`;
}

const SHAPES = {
  ready: 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11z',
  taken: 'M4 2.5L13.5 8L4 13.5z',
  delayed: 'M8 2a6 6 0 1 0 0 12a6 6 0 1 0 0-12zM8 3.8a4.2 4.2 0 1 1 0 8.4a4.2 4.2 0 1 1 0-8.4zM7.2 5h1.6v2.7l2 1.4-.9 1.3-2.7-1.9z',
  blocked: 'M3 3h3.6v10H3zM9.4 3H13v10H9.4z',
  buried: 'M4.3 2.5L8 6.2l3.7-3.7 1.8 1.8L9.8 8l3.7 3.7-1.8 1.8L8 9.8l-3.7 3.7-1.8-1.8L6.2 8 2.5 4.3z',
  done: 'M6.3 13.2L1.8 8.7l1.8-1.8 2.7 2.7 6.1-6.4 1.8 1.8z',
  recurring: 'M8 2a6 6 0 0 1 5.2 3l1.4-1v4.4h-4.3l1.4-1.2A4 4 0 1 0 11.4 10l1.7 1A6 6 0 1 1 8 2z',
};

/** The state of a task: a shape and a colour, beside its name. */
export function State({ state, children }) {
  return html`<span class="state state-${state}">
    <svg viewBox="0 0 16 16" aria-hidden="true"><path fill-rule="evenodd" d=${SHAPES[state] ?? SHAPES.ready} /></svg>
    ${children ?? state}</span>`;
}

/** The tasks of a tube by state, as one bar. */
export function Stack({ tasks }) {
  const all = STATES.map((state) => [state, tasks[state] ?? 0]).filter(([, count]) => count > 0);
  const label = all.map(([state, count]) => `${number(count)} ${state}`).join(', ');
  const sum = all.reduce((before, [, count]) => before + count, 0);
  return html`<span class="stack" role="img" aria-label=${label || 'no tasks'} title=${label || 'no tasks'}>
    ${all.map(([state, count]) => html`<i key=${state} class="fill-${state}" style=${{ flexGrow: Math.max(count / sum, 0.02) }} />`)}
  </span>`;
}

/** An hour of two series: an area of acks, and a line of failures. */
export function Spark({ series, label }) {
  const [, , acks, failed] = series;
  const most = Math.max(...acks, ...failed, 1e-9);
  const width = 120;
  const at = (value, index, count) => `${((index * width) / (count - 1)).toFixed(1)} ${(21 - (19 * value) / most).toFixed(1)}`;
  const line = (values) => values.map((value, index) => at(value, index, values.length)).join('L');
  const isEmpty = !acks.some((value) => value > 0) && !failed.some((value) => value > 0);
  return html`<svg class="spark" viewBox="0 0 120 22" preserveAspectRatio="none" role="img" aria-label=${label}>
    <title>${label}</title>
    <path class="spark-base" d="M0 21.5H120" />
    ${!isEmpty && html`<path class="spark-area" d=${`M0 21L${line(acks)}L120 21z`} />
      <path class="spark-acks" d=${`M${line(acks)}`} />`}
    ${failed.some((value) => value > 0) && html`<path class="spark-failed" d=${`M${line(failed)}`} />`}
  </svg>`;
}

/** Which of all rows are shown, and the way to the others; nothing if one page has `all` of them. */
export function Pages({ from, rows, most, all, show }) {
  if (all <= most) return null;
  return html`<p class="pages number"><span>${number(from + 1)}–${number(from + rows)} of ${number(all)}</span>
    <button type="button" class="button" data-key="p" disabled=${from === 0} onClick=${() => show(from - most)}>Previous</button>
    <button type="button" class="button" data-key="n" disabled=${from + most >= all} onClick=${() => show(from + most)}>Next</button></p>`;
}

export function When({ at }) {
  if (at == null) return html`<span class="quiet">–</span>`;
  return html`<time dateTime=${at} title=${at}>${moment(at)}</time>`;
}

export function Bar({ part, label }) {
  const percent = Math.max(0, Math.min(100, 100 * part));
  return html`<span class="bar" role="progressbar" aria-valuenow=${Math.round(percent)} aria-valuemin="0"
    aria-valuemax="100" aria-label=${label}><i style=${{ width: `${percent}%` }} /></span>`;
}

/** What a worker has said about its progress. */
export function Progress({ progress }) {
  if (!progress) return html`<span class="quiet">–</span>`;
  const { done, total, text } = progress;
  const numbers = total ? `${number(done)} of ${number(total)}` : done ? number(done) : '';
  return html`<span class="progress">
    ${total > 0 && html`<${Bar} part=${done / total} label="progress" />`}
    <span>${[numbers, text].filter(Boolean).join(' · ')}</span></span>`;
}

export function Trouble({ error }) {
  // The bar at the top says it.
  if (!error || (error.status === 0 && live.status !== 'live')) return null;
  return html`<p class="trouble" role="alert">${error.message}</p>`;
}

/** What is shown while nothing has been loaded, or there is nothing. */
export function Empty({ isLoading, children }) {
  return html`<p class="empty">${isLoading ? 'Loading…' : children}</p>`;
}

export function Facts({ facts }) {
  const given = facts.filter(([, value]) => value != null && value !== '' && value !== false);
  return html`<dl class="facts">${given.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

export function Tags({ tags, onTag }) {
  if (!tags?.length) return null;
  return tags.map((tag) =>
    onTag
      ? html`<button type="button" class="tag" key=${tag} title="show the tasks with this tag" onClick=${() => onTag(tag)}>${tag}</button>`
      : html`<span class="tag" key=${tag}>${tag}</span>`,
  );
}

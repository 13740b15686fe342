// Dialogs: a form that makes a call, a question, and work in steps with a bar and a stop.

import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor/preact.js';
import { number } from './format.js';
import { token } from './api.js';
import { Bar } from './ui.js';

let show = () => {};

/** Opens a dialog. The promise has what it was closed with; undefined if it was given up. */
function open(content, props) {
  return new Promise((close) => show({ content, props, close }));
}

/** Shows the dialog that is open. */
export function Dialogs() {
  const [dialogs, set] = useState([]);
  // Before the first call may ask for a token.
  useLayoutEffect(() => {
    show = (dialog) => set((old) => [...old, dialog]);
    token.ask = (wasWrong) => open(TokenForm, { wasWrong, mustAnswer: true });
  }, []);
  return dialogs.map((dialog, at) => {
    const close = (result) => {
      set((old) => old.filter((other) => other !== dialog));
      dialog.close(result);
    };
    return html`<${Modal} key=${at} dialog=${dialog} close=${close} />`;
  });
}

function Modal({ dialog: { content, props }, close }) {
  const frame = useRef(null);
  const before = useRef(document.activeElement);
  useEffect(() => {
    const opened = frame.current;
    opened.showModal();
    return () => {
      // While it is open, nothing else takes the focus.
      opened.close();
      if (before.current?.isConnected) before.current.focus({ preventScroll: true });
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    if (!props.mustAnswer) close();
  };
  return html`<dialog ref=${frame} class=${props.isWide ? 'is-wide' : ''} aria-labelledby="dialog-title" onCancel=${cancel}>
    <${content} ...${props} close=${close} />
  </dialog>`;
}

/**
 * Asks for values, and makes a call with them. `fields` are `{name, label, type, value, hint, options, isWide}`, where
 * the type is `text`, `number`, `area`, `select` or `check`. A refused call leaves the form open, with the reason.
 */
export function askForm(form) {
  return open(Form, form);
}

/** Asks before something is done that cannot be undone. */
export function confirm(question) {
  return open(Form, { fields: [], ...question });
}

function Form({ title, intro, fields, submit, isDanger, run, close }) {
  const [values, set] = useState(() => Object.fromEntries(fields.map((field) => [field.name, field.value ?? ''])));
  const [error, fail] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    if (isBusy) return;
    setBusy(true);
    try {
      close((await run(values)) ?? true);
    } catch (refusal) {
      fail(refusal.message);
      setBusy(false);
    }
  };
  const change = (name) => (event) => {
    const { type, checked, value } = event.target;
    set((old) => ({ ...old, [name]: type === 'checkbox' ? checked : value }));
  };
  return html`<form onSubmit=${send} onKeyDown=${(event) => event.ctrlKey && event.key === 'Enter' && send(event)}>
    <h2 id="dialog-title">${title}</h2>
    ${intro && html`<div class="intro">${intro}</div>`}
    ${fields.length > 0 && html`<div class="fields">
      ${fields.map((field, at) => html`<${Field} key=${field.name} field=${field} value=${values[field.name]}
        change=${change(field.name)} isFirst=${at === 0} />`)}
    </div>`}
    ${error && html`<p class="trouble" role="alert">${error}</p>`}
    <div class="dialog-ends">
      <button type="button" class="button" onClick=${() => close()}>Cancel</button>
      <button type="submit" class="button ${isDanger ? 'danger' : 'primary'}" disabled=${isBusy}
        autofocus=${fields.length === 0}>${submit}</button>
    </div>
  </form>`;
}

function Field({ field: { name, label, type = 'text', hint, options, isWide, isMono, list }, value, change, isFirst }) {
  const id = `field-${name}`;
  const common = { id, name, autofocus: isFirst, 'aria-describedby': hint ? `${id}-hint` : undefined };
  const input =
    type === 'area'
      ? html`<textarea ...${common} rows="7" spellcheck=${false} onInput=${change} value=${value} class="mono" />`
      : type === 'select'
        ? html`<select ...${common} onChange=${change} value=${value}>
            ${options.map(([key, text]) => html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`)}</select>`
        : type === 'check'
          ? html`<input ...${common} type="checkbox" checked=${value === true} onChange=${change} />`
          : html`<input ...${common} type="text" inputmode=${type === 'number' ? 'numeric' : undefined} value=${value}
              autocomplete="off" spellcheck=${false} list=${list ? `${id}-list` : undefined} onInput=${change} class=${isMono ? 'mono' : ''} />
            ${list && html`<datalist id=${`${id}-list`}>${list.map((item) => html`<option key=${item} value=${item} />`)}</datalist>`}`;
  return html`<div class="field ${isWide || type === 'area' ? 'is-wide' : ''} ${type === 'check' ? 'is-check' : ''}">
    <label for=${id}>${label}</label>${input}
    ${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}
  </div>`;
}

function TokenForm({ wasWrong, close }) {
  const [value, set] = useState('');
  const send = (event) => {
    event.preventDefault();
    if (value.trim()) close(value.trim());
  };
  return html`<form onSubmit=${send}>
    <h2 id="dialog-title">Token</h2>
    <div class="intro">${wasWrong ? 'The server does not accept this token. ' : 'This server needs a token. '}
      It is kept in this tab until the tab is closed.</div>
    <div class="fields"><div class="field is-wide">
      <label for="field-token">Token of the server</label>
      <input id="field-token" type="password" autocomplete="current-password" value=${value} autofocus
        onInput=${(event) => set(event.target.value)} />
    </div></div>
    <div class="dialog-ends"><button type="submit" class="button primary">Open the dashboard</button></div>
  </form>`;
}

/**
 * Does work in steps, and shows how far it is. `step` is called with an object whose `count` it raises, and which has
 * `signal`, until it returns true. A long step calls `draw` of the object, and may set its `total`, and its `result`, which is
 * shown at the end. `show` writes a count. Returns the count and whether it was stopped.
 */
export function runSteps(work) {
  return open(Steps, { ...work, mustAnswer: true });
}

function Steps({ title, total, step, done, show = number, close }) {
  const state = useRef(null);
  const [, draw] = useState(0);
  const [end, finish] = useState(null);
  useEffect(() => {
    const controller = new AbortController();
    const run = { count: 0, signal: controller.signal, stop: () => controller.abort(), draw: () => draw((count) => count + 1) };
    state.current = run;
    run.draw();
    (async () => {
      try {
        while (!controller.signal.aborted && !(await step(run))) run.draw();
        finish({ isStopped: controller.signal.aborted });
      } catch (error) {
        finish(error.name === 'AbortError' ? { isStopped: true } : { error });
      }
    })();
    return () => controller.abort();
  }, []);
  const run = state.current ?? { count: 0 };
  const all = run.total ?? total;
  const isKnown = all != null && Number.isFinite(all);
  const part = end && !end.error && !end.isStopped ? 1 : isKnown && all > 0 ? run.count / all : 0;
  const shown = `${show(run.count)}${isKnown ? ` of ${show(all)}` : ''}`;
  const status = end?.error ? end.error.message : end?.isStopped ? 'Stopped.' : end ? 'Finished.' : 'Working…';
  return html`<div class="steps">
    <h2 id="dialog-title">${title}</h2>
    <${Bar} part=${part} label=${title} />
    <p class="number" data-steps=${end ? 'ended' : 'running'}><strong>${shown}</strong> ${done}</p>
    <p role="status" aria-live="polite" class=${end?.error ? 'trouble' : ''}>${status}</p>
    ${end && run.result}
    <div class="dialog-ends">
      ${end
        ? html`<button key="close" type="button" class="button primary" autofocus ref=${(button) => button?.focus()}
            onClick=${() => close({ ...run, ...end })}>Close</button>`
        : html`<button key="stop" type="button" class="button danger" autofocus onClick=${() => run.stop?.()}>Stop</button>`}
    </div>
  </div>`;
}

/** Shows content that is only read. */
export function showNote(title, content) {
  return open(Note, { title, content, isWide: true });
}

function Note({ title, content, close }) {
  return html`<div><h2 id="dialog-title">${title}</h2>${content}
    <div class="dialog-ends"><button type="button" class="button primary" autofocus onClick=${() => close()}>Close</button></div></div>`;
}

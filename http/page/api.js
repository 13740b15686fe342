// Calls of the HTTP API: the token, errors, and the stream of events.

const TOKEN = 'tubewell-token';
const ROWS = 100;
const EMPTY_PAGES = 50;
/** The largest number of tasks that one call changes or returns. */
export const STEP = 1000;

/** A refusal of the server, with its own words, or a server that cannot be reached. */
export class Problem extends Error {
  constructor(status, kind, detail) {
    super(detail);
    this.status = status;
    this.kind = kind;
  }
}

/** The server needs a token. `ask` is set by the page: it returns a promise of the token. */
export const token = {
  ask: null,
  pending: null,
  get() {
    return sessionStorage.getItem(TOKEN);
  },
  forget() {
    sessionStorage.removeItem(TOKEN);
  },
  /** One question, however many calls wait for its answer. */
  async request(wasWrong) {
    this.pending ??= this.ask(wasWrong).then((given) => {
      sessionStorage.setItem(TOKEN, given);
      this.pending = null;
    });
    await this.pending;
  },
};

/** Told after each call that may have changed something. */
export const afterChange = { tell: () => {} };

function headersWith(more) {
  const given = token.get();
  return { ...(given ? { Authorization: `Bearer ${given}` } : {}), ...more };
}

async function send(path, init) {
  for (;;) {
    const used = token.get();
    const answer = await reach(path, { ...init, headers: headersWith(init.headers) });
    if (answer.status !== 401) return answer;
    // Another call may have been given the token meanwhile.
    if (token.get() === used) await token.request(used != null);
  }
}

/** Without it, the server refuses a change of a page. */
const fromPage = (method) => (method === 'GET' ? {} : { 'Tubewell-Page': '1' });

async function reach(path, init) {
  try {
    return await fetch(path, { cache: 'no-store', ...init });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, 'unreachable', 'the server cannot be reached');
  }
}

/**
 * Ids are numbers below 2^53 in practice. A number that JavaScript would round stays the text that it is, where the
 * browser tells it.
 */
function parse(text) {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_name, value, context) => {
    const isRounded = typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value);
    return isRounded && /^\d+$/.test(context?.source ?? '') ? context.source : value;
  });
}

async function problemOf(answer) {
  const text = await answer.text();
  try {
    const { kind, detail, title } = JSON.parse(text);
    return new Problem(answer.status, kind, detail ?? title);
  } catch {
    return new Problem(answer.status, 'unknown', text.slice(0, 200) || `the server answered with status ${answer.status}`);
  }
}

/** A path of the API, from names that may have any character. Relative, so that a proxy may add a prefix. */
export function path(strings, ...names) {
  return strings.reduce((made, part, at) => made + encodeURIComponent(names[at - 1]) + part);
}

export function query(options) {
  const given = Object.entries(options ?? {}).filter(([, value]) => value != null && value !== '' && value !== false);
  return given.length ? `?${new URLSearchParams(given)}` : '';
}

/** Makes one call, and returns the value of its answer; null if it has no content. */
export async function call(method, where, { json, text, signal } = {}) {
  const headers = fromPage(method);
  let body;
  if (json !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(json);
  } else if (text !== undefined) {
    headers['Content-Type'] = 'text/plain';
    body = text;
  }
  const answer = await send(where, { method, headers, body, signal });
  if (!answer.ok) throw await problemOf(answer);
  if (method !== 'GET') afterChange.tell();
  const content = await answer.text();
  return content === '' ? null : parse(content);
}

export const get = (where, signal) => call('GET', where, { signal });

export async function getText(where, signal) {
  const answer = await send(where, { method: 'GET', signal });
  if (!answer.ok) throw await problemOf(answer);
  return answer.text();
}

const FIRST = 'v1/backlog?limit=100';
const EARLY = 100;
const DRAWING = 50;
/** The first tubes, which are asked for before the scripts that show them are there. Null instead of a refusal. */
let early = /^#?\/?$/.test(location.hash) ? askEarly() : null;

async function askEarly() {
  try {
    const answer = await reach(FIRST, { headers: headersWith() });
    return answer.ok ? await answer.text() : null;
  } catch {
    return null;
  }
}

/** Until the first tubes are there, but not for long: to draw a page without them first costs as much as their rows. */
export const firstAnswered = Promise.race([early, new Promise((done) => setTimeout(done, EARLY))]);

async function firstTubes() {
  const text = await early;
  early = null;
  return text ? parse(text) : get(FIRST);
}

/** What waits in the tubes. In a store of many, these are megabytes: `first` is told the first of them before. */
export async function listTubes(first) {
  if (first == null) return (await get('v1/backlog')).tubes;
  const page = await firstTubes();
  if (page.next == null) return page.tubes;
  first(page.tubes);
  // The server and the browser may share the cores: the first rows come before the other tubes.
  await new Promise((drawn) => setTimeout(drawn, DRAWING));
  const { tubes } = await get(`v1/backlog${query({ after: page.next })}`);
  return [...page.tubes, ...tubes];
}

/** A page of tasks, of one tube or of all. A page over many tubes may be empty, with others behind it. */
export async function listTasks({ tube, ...filter }, signal) {
  const where = tube == null ? 'v1/tasks' : path`v1/tubes/${tube}/tasks`;
  let page = await get(where + query({ limit: ROWS, ...filter }), signal);
  for (let empty = 0; page.tasks.length === 0 && page.next != null && empty < EMPTY_PAGES; empty++) {
    page = await get(where + query({ limit: ROWS, ...filter, after: page.next }), signal);
  }
  return page;
}

/** The answer of a call, or `fallback` where the server is older than the call. */
export async function getOr(fallback, where, signal) {
  try {
    return await get(where, signal);
  } catch (error) {
    if (error.kind === 'unknown_call') return fallback;
    throw error;
  }
}

/**
 * Reads server-sent events until the stream ends. `EventSource` cannot send a token. `taken` is called for each event
 * with its name, id and data, and `chunk`, after each piece of the stream, may return a promise: nothing more is read
 * until it is kept, and what the server cannot send it drops and counts.
 */
export async function readEvents(where, { method = 'GET', last, signal, opened, taken, chunk }) {
  const headers = { Accept: 'text/event-stream', ...fromPage(method), ...(last == null ? {} : { 'Last-Event-ID': last }) };
  const answer = await send(where, { method, headers, signal });
  if (!answer.ok) throw await problemOf(answer);
  opened?.();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const messages = rest.split('\n\n');
    rest = messages.pop();
    for (const message of messages) {
      const fields = {};
      for (const line of message.split('\n')) {
        const colon = line.indexOf(':');
        if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
      }
      if (fields.data) taken(fields.event ?? 'message', fields.id, fields.data);
    }
    await chunk?.();
  }
}

/** A part of a file has so many bytes at least before it is given to the browser. */
const PART = 16 << 20;

/**
 * Reads a file, which a link could not bring along with a token. `told` is called with the bytes that are there and those of all,
 * or null, and may throw. Returns the parts of the file.
 */
export async function getFile(where, { signal, told }) {
  const answer = await send(where, { method: 'GET', headers: {}, signal });
  if (!answer.ok) throw await problemOf(answer);
  const length = answer.headers.get('Content-Length');
  const [parts, all] = [[], length == null ? null : Number(length)];
  let [chunks, size, count] = [[], 0, 0];
  const reader = answer.body.getReader();
  try {
    for (told(0, all);;) {
      const { done, value } = await reader.read();
      if (!done) {
        chunks.push(value);
        [size, count] = [size + value.length, count + value.length];
      }
      if (done || size > PART) {
        // The browser may keep it on the disk.
        parts.push(new Blob(chunks));
        [chunks, size] = [[], 0];
      }
      if (done) return parts;
      told(count, all);
    }
  } catch (error) {
    reader.cancel().catch(() => {});
    throw error;
  }
}

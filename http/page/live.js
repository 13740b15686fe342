// What happens in the store, as it happens: the stream of events, the tubes and their numbers, and an hour of rates.
//
// An event marks its tube as changed. Marked tubes are read anew at most once a second, and more seldom where a reading
// takes long; without events each half a minute. A hidden page closes its stream and does nothing.

import { afterChange, getOr, listTubes, readEvents } from './api.js';

const REFRESH = 1000;
/** Pauses, options and limits have no events: others' changes of them are seen after this time. */
const WITHOUT_EVENTS = 30_000;
/** The share of the time that readings may take: a tenth. */
const COST = 10;
/** The server sends a comment every 15 s. */
const SILENCE = 40_000;
const HIDDEN = 10_000;
/** How many events are read before the next refresh. Further ones wait at the server, which drops and counts them. */
const BURST = 500;
const KINDS =
  'put,replace,take,ack,release,revoke,progress,fail,snooze,lost,bury,kick,delete,ttl,ttr,delay,block,unblock,' +
  'resolve,forget,schedule,spawn,advance,move,update,checkpoint,log,step';
/** A checkpoint replaces the body of a taken task; an advance may. */
const CHANGES_BODY = new Set(['replace', 'update', 'checkpoint', 'advance']);

export const live = {
  /** `connecting`, `live`, `lost` (trying again at `retryAt`) or `hidden`. */
  status: 'connecting',
  why: null,
  retryAt: 0,
  tubes: [],
  byName: new Map(),
  /** What `GET v1/store` has; null before it was read, and of a server without that call. */
  store: null,
  /** Whether `tubes` are all tubes. Before, they are none, or the first ones of many. */
  isLoaded: false,
  error: null,
  /** When tasks were taken, as far as this page has seen it. */
  takenAt: new Map(),
};

const changed = new Set();
const watchers = new Set();

const forgetters = new Set();

/** Calls back with the id of a task whose body may have changed, and with null if those of all tasks may have. */
export function onOtherBody(callback) {
  forgetters.add(callback);
}

function forgetBodies(id) {
  for (const callback of forgetters) callback(id);
}

/** Calls back after each change of `live`. Returns what ends that. */
export function onLive(callback) {
  changed.add(callback);
  return () => changed.delete(callback);
}

/**
 * Calls back with what has changed, at most once a second: `tubes` and `ids`, sets, or null if anything may have, and
 * `isOwn` if this page has changed something.
 * Returns what ends that.
 */
export function watch(callback) {
  watchers.add(callback);
  return () => watchers.delete(callback);
}

export function isReadOnly() {
  return live.store?.read_only === true;
}

function tell() {
  for (const callback of changed) callback();
}

// Rates of an hour, for tubes in which something happened.

const SLOT = 5;
const SLOTS = 720;
const HISTORIES = 500;
const histories = new Map();

/** The counters of the three series. */
const SERIES = [(calls) => calls.put, (calls) => calls.ack, failures];

/**
 * Failed attempts, each once: those that workers have reported, and those whose time has elapsed. `lost` has none
 * further: in a tube with `reclaim_delay` it counts overdue claims, which may still be acked and otherwise are among `ttr`,
 * and at an open the attempts of the run before.
 */
export function failures(calls) {
  return (calls.fail ?? 0) + (calls.ttr ?? 0);
}

/** How often something happened in each slot of five seconds of the last hour. */
class History {
  constructor(now) {
    this.slot = Math.floor(now / SLOT);
    this.rows = SERIES.map(() => new Float32Array(SLOTS));
  }

  advance(now) {
    const slot = Math.floor(now / SLOT);
    for (let at = Math.max(this.slot + 1, slot - SLOTS + 1); at <= slot; at++) {
      for (const row of this.rows) row[at % SLOTS] = 0;
    }
    this.slot = Math.max(this.slot, slot);
  }

  /** Spreads counts over the time in which they came. */
  add(from, to, counts) {
    this.advance(to);
    const begin = Math.max(from, (this.slot - SLOTS + 1) * SLOT, to - SLOTS * SLOT + SLOT);
    const length = Math.max(to - begin, 1e-3);
    for (let at = Math.floor(begin / SLOT); at <= this.slot; at++) {
      const part = Math.min(to, (at + 1) * SLOT) - Math.max(begin, at * SLOT);
      if (part <= 0 && length > 1e-3) continue;
      const weight = Math.max(part, 0) / length;
      counts.forEach((count, row) => {
        this.rows[row][at % SLOTS] += count * weight;
      });
    }
  }

  /** The sum of the last slots, the current one among them. */
  sum(row, slots) {
    let sum = 0;
    for (let at = this.slot - slots + 1; at <= this.slot; at++) sum += this.rows[row][at % SLOTS];
    return sum;
  }
}

const nowSeconds = () => Date.now() / 1000;

function record(before, tube, from, to) {
  if (!before?.calls || !tube.calls) return;
  const counts = SERIES.map((of) => {
    const [old, now] = [of(before.calls), of(tube.calls)];
    // Counters begin anew with the store.
    return now >= old ? now - old : now;
  });
  if (!counts.some((count) => count > 0)) return;
  let history = histories.get(tube.tube);
  if (!history) {
    if (histories.size >= HISTORIES) histories.delete(histories.keys().next().value);
    history = new History(to);
  }
  // The least lately used one is the first.
  histories.delete(tube.tube);
  histories.set(tube.tube, history);
  history.add(from, to, counts);
}

const RATE_SLOTS = 3;

/** Puts, acks and failures a second, over the last ten to fifteen seconds. */
export function ratesOf(name) {
  const history = histories.get(name);
  if (!history) return [0, 0, 0];
  const now = nowSeconds();
  history.advance(now);
  const time = (RATE_SLOTS - 1) * SLOT + (now % SLOT);
  return SERIES.map((_, row) => history.sum(row, RATE_SLOTS) / time);
}

/** Puts, acks and failures since the page was opened, of an hour at most; null if there were none. */
export function hourOf(name) {
  const history = histories.get(name);
  if (!history) return null;
  history.advance(nowSeconds());
  return SERIES.map((_, row) => history.sum(row, SLOTS));
}

const openedAt = nowSeconds();

/** Of which length small charts are, in seconds: what the page has seen, up to an hour. */
export function seenSeconds() {
  const seen = nowSeconds() - openedAt;
  return seen < 300 ? 300 : seen < 900 ? 900 : 3600;
}

/** Times, and a list of rates a second for each series. `seconds` is the length, `step` that of each point. */
export function seriesOf(name, seconds, step) {
  const slots = step / SLOT;
  const history = histories.get(name);
  const now = Math.floor(nowSeconds() / SLOT);
  const count = Math.floor(seconds / step);
  const end = Math.floor(now / slots);
  const times = Array.from({ length: count }, (_, at) => (end - count + at) * slots * SLOT);
  if (!history) return [times, ...SERIES.map(() => times.map(() => 0))];
  history.advance(nowSeconds());
  const rows = SERIES.map((_, row) =>
    times.map((time) => {
      let sum = 0;
      for (let at = 0; at < slots; at++) {
        const slot = time / SLOT + at;
        if (slot > history.slot - SLOTS) sum += history.rows[row][slot % SLOTS];
      }
      return sum / step;
    }),
  );
  return [times, ...rows];
}

// Readings.

let tubesChanged = new Set();
let idsChanged = new Set();
let allChanged = true;
/** Whether this page itself has changed something. */
let isOwn = false;
let timer = null;
let isReading = false;
/** Grows with each connection: another owner may serve the store then. */
let owner = 0;
let earliest = 0;
let readAt = 0;
let wake = null;

/** Reads everything anew, now. */
export function refresh() {
  allChanged = true;
  earliest = 0;
  clearTimeout(timer);
  timer = null;
  schedule();
}

function schedule() {
  if (timer != null || isReading || live.status !== 'live') return;
  timer = setTimeout(read, Math.max(0, earliest - performance.now()));
}

async function read() {
  const change = { ...(allChanged ? { tubes: null, ids: null } : { tubes: tubesChanged, ids: idsChanged }), isOwn };
  [tubesChanged, idsChanged, allChanged, isOwn] = [new Set(), new Set(), false, false];
  const began = performance.now();
  const asked = owner;
  isReading = true;
  try {
    const needsStore = change.tubes == null && live.store == null;
    const [tubes, store] = await Promise.all([
      listTubes(live.isLoaded ? null : showFirst),
      needsStore ? getOr(null, 'v1/store') : live.store,
    ]);
    if (owner === asked) live.store = store;
    const now = nowSeconds();
    for (const tube of live.isLoaded ? tubes : []) record(live.byName.get(tube.tube), tube, readAt, now);
    readAt = now;
    keep(tubes, now);
    live.isLoaded = true;
    live.error = null;
  } catch (error) {
    live.error = error;
    allChanged = true;
  }
  const took = performance.now() - began;
  earliest = performance.now() + Math.max(REFRESH, took * COST);
  [timer, isReading] = [null, false];
  wake?.();
  tell();
  for (const callback of watchers) callback(change);
  if (allChanged || tubesChanged.size > 0) schedule();
}

function keep(tubes, now) {
  // `done` of the API counts what has left the tube; the tasks in the state done are those that are kept.
  live.tubes = tubes.map((tube) => ({ ...tube, states: { ...tube.tasks, done: tube.tasks.kept }, readAt: now }));
  live.byName = new Map(live.tubes.map((tube) => [tube.tube, tube]));
}

/** Shows the first of many tubes while the others are read. */
function showFirst(tubes) {
  keep(tubes, nowSeconds());
  tell();
}

/** For how long the oldest ready task of a tube has been ready, in seconds; null if none is. */
export function oldestReady(tube) {
  if (!tube.states.ready) return null;
  return tube.oldest_ready == null ? null : tube.oldest_ready + Math.max(0, nowSeconds() - tube.readAt);
}

// The stream.

let stream = null;
let last = null;
let attempts = 0;
let retry = null;

/** Anything may have changed, without an event. */
function missAll() {
  allChanged = true;
  forgetBodies(null);
}

function take(name, id, text) {
  if (id != null) last = id;
  if (name === 'gap') {
    missAll();
    return;
  }
  const event = JSON.parse(text);
  if (CHANGES_BODY.has(event.kind)) forgetBodies(event.id);
  tubesChanged.add(event.tube);
  if (idsChanged.size < 10_000) idsChanged.add(event.id);
  if (event.missed > 0) missAll();
  if (event.kind === 'take') {
    if (live.takenAt.size >= 10_000) live.takenAt.delete(live.takenAt.keys().next().value);
    live.takenAt.set(event.id, Date.now());
  } else if (event.state !== 'taken') {
    live.takenAt.delete(event.id);
  }
}

/** Connects, and connects again when the stream has ended, until the page is hidden. */
async function connect() {
  clearTimeout(retry);
  const controller = new AbortController();
  stream = controller;
  let silence = null;
  let burst = 0;
  const alive = () => {
    clearTimeout(silence);
    silence = setTimeout(() => controller.abort(), SILENCE);
  };
  try {
    await readEvents(`v1/events?kinds=${KINDS}`, {
      last,
      signal: controller.signal,
      opened() {
        attempts = 0;
        missAll();
        owner += 1;
        live.store = null;
        set('live');
        alive();
        // What the reading at the start has missed is read after it.
        if (!isReading) refresh();
      },
      taken(name, id, text) {
        burst += 1;
        take(name, id, text);
      },
      async chunk() {
        alive();
        if (allChanged || tubesChanged.size > 0) schedule();
        if (burst < BURST) return;
        burst = 0;
        // Until the next reading.
        await new Promise((done) => {
          wake = done;
          setTimeout(done, REFRESH);
        });
      },
    });
    live.why = 'the server has ended the stream of events';
  } catch (error) {
    live.why = error.name === 'AbortError' ? 'no sign of life came from the server' : error.message;
  }
  clearTimeout(silence);
  if (stream !== controller) return;
  attempts += 1;
  const wait = Math.min(10_000, 250 * 2 ** Math.min(attempts, 6)) * (0.75 + Math.random() / 2);
  live.retryAt = Date.now() + wait;
  set('lost');
  retry = setTimeout(connect, wait);
}

function set(status) {
  live.status = status;
  tell();
}

/** Tries to connect at once. */
export function reconnect() {
  stream?.abort();
  stream = null;
  connect();
}

let hide = null;

/** Begins. A hidden page lets go of its connection, of which a browser has six for a server. */
export function start() {
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hide);
    if (document.hidden) {
      hide = setTimeout(() => {
        const old = stream;
        stream = null;
        old?.abort();
        clearTimeout(retry);
        live.status = 'hidden';
      }, HIDDEN);
    } else if (live.status === 'hidden') {
      set('connecting');
      connect();
    }
  });
  // Changes of this page itself.
  afterChange.tell = () => {
    [allChanged, isOwn] = [true, true];
    schedule();
  };
  setInterval(() => {
    if (document.hidden) return;
    allChanged = true;
    schedule();
  }, WITHOUT_EVENTS);
  window.addEventListener('online', () => live.status === 'lost' && reconnect());
  // Not behind the stream: the page is drawn sooner.
  read();
  connect();
}

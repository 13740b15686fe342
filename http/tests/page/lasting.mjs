// Pages that stay open: while their owner is replaced, and for a day.

import assert from 'node:assert/strict';

import { PAGES, ask, faults, newPage, open, row, url } from './helpers.mjs';

const fact = (page, name) => page.locator('.facts > div', { has: page.getByText(name, { exact: true }) }).locator('dd');

/** What each page shows of the first owner, of the next one, and after changes that the next one has made. */
const SHOWN = [
  ['', 'Tubes', (page, text) => row(page, 'jobs').locator('td[data-label=ready]').getByText(text, { exact: true }), ['5', '44', '47']],
  ['#/tubes/jobs', 'jobs', (page, text) => page.locator('.tabs button', { hasText: 'ready' }).getByText(text, { exact: true }), ['5', '44', '47']],
  ['#/failures', 'Failures', (page, text) => page.getByText(`${text} buried tasks`), ['7', '9', '8']],
  ['#/tasks/4', 'Task 4', (page, text) => page.locator('.big-state', { hasText: text }), ['ready', 'buried', 'ready']],
  ['#/workers', 'Workers', (page, text) => page.getByText(`${text} taken task`), ['1', '2', '3']],
  ['#/schedules', 'Schedules', (page, text) => row(page, text), ['hourly', 'of-the-next-owner', 'put-later']],
  ['#/store', 'Store', (page, text) => fact(page, 'tubes').getByText(text, { exact: true }), ['3', '4', '5']],
];

/** 4,320 changes an hour: 103,680 of a day. */
const HOURS = ['full', 'soak'].includes(process.env.TUBEWELL_TESTS) ? 24 : 6;
/**
 * By how much the page may grow from its second hour to its last. In the first one, scripts are loaded and compiled. 20
 * bytes kept of each change of a day, or the page that is left at each of its 264 visits, would be more. Chromium keeps
 * one page that was left.
 */
const GROWTH = { heap: 1_200_000, nodes: 5000, listeners: 500 };

/** The memory of the page once what is unreachable is gone. */
async function memoryOf(session) {
  for (let times = 0; times < 3; times++) await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  const value = (name) => metrics.find((metric) => metric.name === name).value;
  return { heap: value('JSHeapUsedSize'), nodes: value('Nodes'), listeners: value('JSEventListeners') };
}

async function visit(page, [where, title]) {
  await page.evaluate((hash) => (location.hash = hash), where || '#/');
  await page.locator('h1', { hasText: title }).waitFor();
}

/** Until the page has read what the store has counted. */
async function catchUp(page, puts) {
  await page.waitForFunction(async (wanted) => {
    const { src } = document.querySelector('script[src$="/app.js"]');
    const { live, refresh } = await import(src.replace('app.js', 'live.js'));
    if (live.byName.get('jobs')?.calls.put >= wanted) return true;
    refresh();
    return false;
  }, puts, { polling: 50 });
}

export const lasting = {
  async restart(browser) {
    // A browser has six connections to a server, and each page keeps one: a context for each page.
    const pages = await Promise.all(SHOWN.map(async ([where, title]) => {
      const { page } = await newPage(browser);
      await open(page, where, title);
      return page;
    }));
    const show = (which) => Promise.all(SHOWN.map(([, , find, texts], at) => find(pages[at], texts[which]).first().waitFor()));
    await show(0);
    await ask('stop');
    await Promise.all(pages.map((page) => page.getByText('The owner is gone.').waitFor()));
    // What was shown stays, and is said to be from before.
    await show(0);
    for (const page of pages) {
      await page.getByText('What is shown is from before.').waitFor();
      assert.equal(await page.locator('.pulse').textContent(), 'reconnecting');
    }
    await ask('start');
    await Promise.all(pages.map((page) => page.locator('.pulse.is-live').waitFor()));
    await show(1);
    await ask('change');
    await show(2);
    for (const page of pages) {
      assert.equal(await page.getByText('The owner is gone.').count(), 0);
      assert.equal(await page.locator('.trouble').count(), 0, page.url());
    }
  },

  async bodies_of_the_next_owner(browser) {
    const { page } = await newPage(browser);
    await open(page, '#/tubes/jobs', 'jobs');
    await row(page, 'body of the first owner').waitFor();
    await ask('stop');
    await page.getByText('The owner is gone.').waitFor();
    await ask('start');
    await page.locator('.pulse.is-live').waitFor();
    await row(page, 'body of the next owner').waitFor();
  },

  async changes_of_others(browser) {
    const { page, errors } = await newPage(browser);
    // The page reads everything anew each half a minute: what comes sooner comes by an event.
    const soon = { timeout: 15_000 };
    await open(page, '#/tubes/jobs', 'jobs');
    await row(page, 'first body').waitFor();
    await page.locator('[aria-label=days]').getByText('2 puts, 0 acks').waitFor();
    await page.reload();
    await row(page, 'first body').waitFor();
    await ask('update and ack');
    await row(page, 'second body').waitFor(soon);
    await page.locator('[aria-label=days]').getByText('3 puts, 1 acks').waitFor(soon);
    const held = await (await page.request.get(`${url}v1/keys/held`)).json();
    await open(page, `#/tasks/${held.id}`, `Task ${held.id}`);
    for (const [what, shown] of [
      ['log', page.locator('.history', { hasText: 'seen by another' })],
      ['step', page.locator('[aria-label=steps]', { hasText: 'probe' })],
      ['checkpoint', page.locator('.code', { hasText: 'half of it is done' })],
    ]) {
      await page.reload();
      await open(page, `#/tasks/${held.id}`, `Task ${held.id}`);
      await ask(what);
      await shown.first().waitFor(soon);
    }
    assert.deepEqual(errors, []);
  },

  async failed_attempts(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '', 'Tubes');
    const cell = (label, text) => row(page, 'jobs').locator(`td[data-label=${label}]`).getByText(text, { exact: true }).waitFor();
    await row(page, 'jobs').waitFor();
    await ask('hang');
    await cell('buried', '1');
    await cell('failing', '50 %');
    assert.equal(await row(page, 'jobs').locator('td[data-label=failing]').getAttribute('title'),
      '1 failed attempt of 2 since the page was opened, an hour at most');
    // Since the store was opened.
    await page.reload();
    await cell('failing', '50 %');
    assert.deepEqual(errors, []);
  },

  async day(browser) {
    const { page, errors } = await newPage(browser);
    await page.clock.install();
    await open(page, '', 'Tubes');
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable');
    const seen = [];
    for (let hour = 0; hour < HOURS; hour++) {
      // Each hour another page is looked at; the first and the last hour, that of the tubes.
      await visit(page, hour === HOURS - 1 ? PAGES[0] : PAGES[hour % PAGES.length]);
      for (let half = 0; half < 120; half++) {
        await ask('half a minute');
        await page.clock.fastForward(30_000);
      }
      for (const one of [...PAGES, PAGES[0]]) await visit(page, one);
      await catchUp(page, (hour + 1) * 120 * 12);
      seen.push(await memoryOf(session));
    }
    const [begin, end] = [seen[1], seen.at(-1)];
    const shown = seen.map(({ heap, nodes, listeners }) => `${(heap / 1e6).toFixed(2)} MB, ${nodes} nodes, ${listeners} listeners`).join('\n');
    console.log(shown);
    for (const [what, most] of Object.entries(GROWTH)) assert.ok(end[what] - begin[what] < most, `${what}:\n${shown}`);
    // Tasks of a list have ended before their bodies were asked for.
    assert.deepEqual(faults(errors), []);
  },
};

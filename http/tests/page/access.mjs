// The page without a pointer, and without eyes.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';

import { PAGES, dialog, newPage, open, row } from './helpers.mjs';

const AXE = `${process.env.TUBEWELL_NODE_MODULES}/axe-core/axe.min.js`;

/** What axe-core finds. It comes through the debugger: the policy of the page allows no script of others. */
async function violations(page, script) {
  await page.evaluate(script);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return found.violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target} ${failureSummary}`));
}

/** What has the focus: its text, and whether that is seen. */
const focused = (page) => page.evaluate(() => {
  const element = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(element);
  const { top, bottom, left, right } = element.getBoundingClientRect();
  return {
    name: (element.getAttribute('aria-label') ?? element.textContent ?? '').trim() || element.placeholder || element.tagName,
    tag: element.tagName,
    row: element.closest('[data-row]')?.dataset.row ?? null,
    isMarked: outlineStyle !== 'none' && parseFloat(outlineWidth) > 0,
    isInView: bottom > 0 && top < innerHeight && right > 0 && left < innerWidth,
  };
});

/** Each element that a press of Tab reaches, once around the page. */
async function tabStops(page) {
  const stops = [];
  for (;;) {
    await page.keyboard.press('Tab');
    const stop = await focused(page);
    if (stop.tag === 'BODY') return stops;
    assert.ok(stop.isMarked, `the focus is not seen on ${stop.name}`);
    assert.ok(stop.isInView, `the focus is out of view on ${stop.name}`);
    stops.push(stop.name);
  }
}

export const access = {
  async screen_reader(browser) {
    const script = await readFile(AXE, 'utf8');
    for (const colorScheme of ['light', 'dark']) {
      const { page } = await newPage(browser, { colorScheme });
      const check = async (what) => assert.deepEqual(await violations(page, script), [], `${what}, ${colorScheme}`);
      for (const [where, title] of PAGES) {
        await open(page, where, title);
        await check(where);
      }
      for (const [where, title, key] of [['', 'Tubes', 'a'], ['#/tubes/jobs', 'jobs', 'e'], ['', 'Tubes', '?']]) {
        await open(page, where, title);
        await page.keyboard.press(key);
        await dialog(page).waitFor();
        await check(`the dialog of ${key}`);
      }
    }
  },

  async keyboard(browser) {
    const { page, errors } = await newPage(browser);
    for (const [where, title] of PAGES) {
      await open(page, where, title);
      // A page that was just loaded: the focus is nowhere.
      await page.reload();
      await open(page, where, title);
      const stops = await tabStops(page);
      assert.equal(stops[0], 'Skip to the content', where);
      const reachable = await page.evaluate(() => [...document.querySelectorAll('main :is(button, a[href], input, select, textarea):not(:disabled)')]
        .filter((element) => element.tabIndex >= 0 && element.checkVisibility()).length);
      assert.ok(stops.length > reachable, `${where}: ${reachable} elements, ${stops.length} stops`);
    }
    await open(page, '', 'Tubes');
    await page.reload();
    await open(page, '', 'Tubes');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    assert.equal((await focused(page)).tag, 'MAIN');
    // Along the rows, and into one and back.
    const at = async (tube) => assert.equal((await focused(page)).row, tube);
    await page.keyboard.press('j');
    await at('failed');
    await page.keyboard.press('ArrowDown');
    await at('jobs');
    await page.keyboard.press('k');
    await at('failed');
    await page.keyboard.press('End');
    await at('other/ä b');
    await page.keyboard.press('Home');
    await page.keyboard.press('ArrowDown');
    assert.ok((await focused(page)).isMarked);
    await page.keyboard.press('Enter');
    await page.locator('h1', { hasText: 'jobs' }).waitFor();
    await page.waitForFunction(() => document.activeElement.tagName === 'H1');
    await page.keyboard.press('5');
    await page.locator('.tabs [aria-pressed=true]', { hasText: 'blocked' }).waitFor();
    await page.keyboard.press('u');
    await page.locator('h1', { hasText: 'Tubes' }).waitFor();
    // A filter is entered and left; a dialog keeps the focus, and gives it back.
    await page.keyboard.press('/');
    await page.keyboard.type('jobs');
    await row(page, 'failed').waitFor({ state: 'detached' });
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    await at('jobs');
    await page.keyboard.press('z');
    await dialog(page).waitFor();
    for (let times = 0; times < 8; times++) {
      await page.keyboard.press('Tab');
      assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest('dialog[open]') != null));
    }
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    await at('jobs');
    assert.deepEqual(errors, []);
  },
};

// How scenarios use the page: they wait for what they want to see, and never for a time.

import assert from 'node:assert/strict';
import { createInterface } from 'node:readline';

export const [, , scenario, url] = process.argv;
/** That of the tests in Rust: after it, something hangs. */
export const HANGS_AFTER = 600_000;

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
export async function ask(what) {
  console.log(`ask: ${what}`);
  await answers.next();
}

export const PAGES = [
  ['', 'Tubes'],
  ['#/tubes/jobs', 'jobs'],
  ['#/tubes/jobs?state=buried', 'jobs'],
  [`#/tubes/${encodeURIComponent('other/ä b')}`, 'other/ä b'],
  ['#/failures', 'Failures'],
  ['#/failures?group=timeout', 'timeout'],
  ['#/tasks/0', 'Task 0'],
  ['#/workers', 'Workers'],
  ['#/schedules', 'Schedules'],
  ['#/store', 'Store'],
];

/** A page, and the errors that its console has shown. */
export async function newPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(HANGS_AFTER);
  const errors = [];
  page.on('console', (message) => message.type() === 'error' && errors.push(`${message.text()} ${message.location().url}`));
  page.on('pageerror', (error) => errors.push(error.stack));
  return { page, errors };
}

export async function open(page, where, title) {
  await page.goto(url + where);
  await page.locator('h1', { hasText: title }).waitFor();
  await page.locator('.pulse.is-live').waitFor();
  // Nothing is being loaded.
  await page.waitForFunction(() => document.querySelector('#app') && ![...document.querySelectorAll('.empty')].some((empty) => empty.textContent === 'Loading…'));
}

/** What a screen reader and the keyboard need. */
export async function checkAccess(page) {
  const lacks = await page.evaluate(() => {
    const named = (element) => element.getAttribute('aria-label') || element.textContent.trim() || element.labels?.length;
    const all = [...document.querySelectorAll('button, a, input, select, textarea')];
    return [
      ...all.filter((element) => !named(element)).map((element) => `without a name: ${element.outerHTML}`),
      ...(document.querySelectorAll('h1').length === 1 ? [] : ['not one h1']),
      ...(document.querySelectorAll('main, nav[aria-label=pages]').length === 2 ? [] : ['no landmarks']),
    ];
  });
  assert.deepEqual(lacks, []);
}

export const dialog = (page) => page.locator('dialog[open]');
export const toast = (page, text) => page.locator('.toast', { hasText: text }).last().waitFor();
export const row = (page, text) => page.locator('[data-row]', { hasText: text });

export async function submit(page, name) {
  await dialog(page).getByRole('button', { name }).click();
  await dialog(page).waitFor({ state: 'detached' });
}

export async function submitSteps(page, name, count) {
  await dialog(page).getByRole('button', { name }).click();
  await dialog(page).locator('[data-steps=ended]').waitFor();
  assert.equal(await dialog(page).getByRole('status').textContent(), 'Finished.');
  await dialog(page).getByText(count).waitFor();
  await dialog(page).getByRole('button', { name: 'Close' }).click();
  await dialog(page).waitFor({ state: 'detached' });
}

/** The errors of a console, without those of calls that the server has refused. */
export const faults = (errors) => errors.filter((error) => !/status of (400|404|409)/.test(error));

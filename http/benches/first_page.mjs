// How long the dashboard takes from the navigation to its first drawn rows, of ten times.
//
// `node http/benches/first_page.mjs URL`, with the URL that `cargo bench -p tubewell-http -- tubes …` prints, and the
// variables TUBEWELL_CHROMIUM and TUBEWELL_NODE_MODULES of the tests of the page.

import { createRequire } from 'node:module';

const { chromium } = createRequire(`${process.env.TUBEWELL_NODE_MODULES}/`)('playwright-core');
const TIMES = 10;

/** Runs in the page: notes when the first row is there, and when it has been drawn. */
function watch() {
  const seen = new MutationObserver(() => {
    if (!document.querySelector('[data-row]')) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => (globalThis.drawnAt = performance.now())));
  });
  seen.observe(document, { childList: true, subtree: true });
}

/** Runs in the page: when the rows were drawn, and from when to when each call has lasted. */
function times() {
  const calls = performance.getEntriesByType('resource').filter(({ name }) => name.includes('/v1/'));
  const call = ({ name, startTime, responseStart, responseEnd }) =>
    `${new URL(name).pathname} from ${[startTime, responseStart, responseEnd].map(Math.round).join(', ')}`;
  return { drawnAt: globalThis.drawnAt, calls: calls.map(call) };
}

const browser = await chromium.launch({ executablePath: process.env.TUBEWELL_CHROMIUM, args: ['--headless', '--no-sandbox'] });
const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
const found = [];
// The first time fills the cache of the browser.
for (let time = 0; time <= TIMES; time++) {
  const page = await context.newPage();
  await page.addInitScript(watch);
  await page.goto(process.argv[2]);
  await page.waitForFunction(() => globalThis.drawnAt);
  if (time > 0) found.push(await page.evaluate(times));
  await page.close();
}
await browser.close();
found.sort((a, b) => a.drawnAt - b.drawnAt);
const middle = found[Math.floor(TIMES / 2)];
console.log(`first rows after ${found.map(({ drawnAt }) => Math.round(drawnAt)).join(', ')} ms`);
console.log(`the call, its first byte, its last byte, in ms:\n${middle.calls.join('\n')}`);

// What a user does with the dashboard. `node scenarios.mjs SCENARIO URL`: ends with 0 if all is as it should be.
//
// A line `ask: WHAT` of the output asks the test that runs the scenario to do something; a line of input says that it
// is done.

import { createRequire } from 'node:module';

import { access } from './access.mjs';
import { scenario } from './helpers.mjs';
import { lasting } from './lasting.mjs';
import { pages } from './pages.mjs';
import { work } from './work.mjs';

const { chromium } = createRequire(`${process.env.TUBEWELL_NODE_MODULES}/`)('playwright-core');
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const scenarios = { ...pages, ...work, ...access, ...lasting };

const browser = await chromium.launch({ executablePath: process.env.TUBEWELL_CHROMIUM, args: FLAGS });
try {
  await scenarios[scenario](browser);
} catch (error) {
  // What the user would see.
  for (const page of browser.contexts().flatMap((context) => context.pages())) {
    console.error(page.url(), await page.locator('body').innerText().catch(() => ''));
  }
  throw error;
} finally {
  await browser.close();
}
process.exit(0);

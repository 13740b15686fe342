// What an operator does to tasks, tubes, schedules and workers. The test looks at the store, in between and at the end.

import assert from 'node:assert/strict';

import { ask, dialog, faults, newPage, open, row, submit, submitSteps, toast, url } from './helpers.mjs';

const button = (page, name) => page.getByRole('button', { name, exact: true });

/** The file that a click on *Export* downloads. */
async function exported(page) {
  const [download] = await Promise.all([page.waitForEvent('download'), button(page, 'Export').click()]);
  const path = await download.path();
  await dialog(page).getByRole('button', { name: 'Close' }).click();
  await dialog(page).waitFor({ state: 'detached' });
  return path;
}

async function mark(page, texts) {
  for (const text of texts) await row(page, text).getByRole('checkbox').check();
  await page.getByText(`${texts.length} tasks marked`).waitFor();
}

export const work = {
  async export_tasks(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '#/tubes/export', 'export');
    await row(page, 'key-007').waitFor();
    await ask(`all ${await exported(page)}`);
    await mark(page, ['key-001', 'key-003']);
    await ask(`marked ${await exported(page)}`);
    await open(page, '#/tubes/export?tag=odd', 'export');
    await ask(`odd ${await exported(page)}`);
    assert.deepEqual(errors, []);
  },

  async move_tasks(browser) {
    const { page, errors } = await newPage(browser);
    const moveTo = async (tube) => {
      await dialog(page).getByLabel('To tube').fill(tube);
      await dialog(page).getByRole('button', { name: 'Continue' }).click();
    };
    await open(page, '#/tubes/from', 'from');
    // The focused row, by the keyboard.
    await page.locator('[data-row]').first().focus();
    await page.keyboard.press('M');
    await moveTo('to');
    await toast(page, '1 task moved.');
    // From the page of a task. A tube that does not exist is refused before anything is asked for.
    await page.locator('[data-row] a[data-open]').first().click();
    await button(page, 'Move').click();
    await dialog(page).getByLabel('To tube').fill('nowhere');
    await dialog(page).getByRole('button', { name: 'Continue' }).click();
    await dialog(page).getByText('there is no tube “nowhere”').waitFor();
    await moveTo('to');
    await toast(page, 'Moved to “to”.');
    await page.locator('.crumbs a', { hasText: 'to' }).waitFor();
    await ask('two are moved');
    // All that match a tag, then all ready ones, of which there is more than one step.
    await open(page, '#/tubes/from?state=ready&tag=few', 'from');
    await button(page, 'Move').click();
    await moveTo('to');
    await submitSteps(page, /^Move 10 tasks/, '10 of 10');
    await ask('those with the tag are moved');
    await open(page, '#/tubes/from?state=ready', 'from');
    await button(page, 'Move').click();
    await moveTo('to');
    await submitSteps(page, /^Move 1,188 tasks/, '1,188 of 1,188');
    await page.getByText('No task matches.').waitFor();
    assert.deepEqual(errors, []);
  },

  async all_of_a_sub_queue(browser) {
    const { page, errors } = await newPage(browser);
    const list = (state, name) => open(page, `#/tubes/jobs?state=${state}&sub_queue=${name}`, 'jobs');
    await list('ready', 'moved');
    await button(page, 'Move').click();
    await dialog(page).getByLabel('To tube').fill('to');
    await dialog(page).getByRole('button', { name: 'Continue' }).click();
    await submitSteps(page, /^Move 1,050 tasks/, '1,050 of 1,050');
    await page.getByText('No task matches.').waitFor();
    for (const [state, verb] of [['buried', 'Kick'], ['ready', 'Delete'], ['taken', 'Release'], ['taken', 'Revoke']]) {
      await list(state, `of ${verb}`);
      await button(page, verb).click();
      const count = { Kick: 30, Delete: 20 }[verb] ?? 1;
      await submitSteps(page, new RegExp(`^${verb} ${count} task`), `${count} of ${count}`);
      await page.getByText('No task matches.').waitFor();
    }
    await ask('changed');
    // Deleted tasks were listed before their bodies were asked for.
    assert.deepEqual(faults(errors), []);
  },

  async bury_all(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '#/tubes/jobs?state=ready', 'jobs');
    // The calls of the second step wait until the stop was pressed.
    let calls = 0;
    const held = [];
    await page.route('**/bury', async (route) => {
      calls += 1;
      if (calls > 100) await new Promise((done) => held.push(done));
      await route.continue().catch(() => {});
    });
    await button(page, 'Bury').click();
    await dialog(page).getByRole('button', { name: /^Bury 230 tasks/ }).click();
    await dialog(page).getByText('100 of 230').waitFor();
    await dialog(page).getByRole('button', { name: 'Stop' }).click();
    await dialog(page).getByText('Stopped.').waitFor();
    for (const release of held) release();
    await page.unroute('**/bury');
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    await ask('stopped');
    await page.reload();
    await open(page, '#/tubes/jobs?state=ready', 'jobs');
    await button(page, 'Bury').click();
    await dialog(page).getByRole('button', { name: /^Bury 1?[0-9]+ tasks/ }).click();
    await dialog(page).getByText('Finished.').waitFor();
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    await page.getByText('No task matches.').waitFor();
    assert.deepEqual(errors, []);
  },

  async revoke_of_an_owner(browser) {
    const { page, errors } = await newPage(browser);
    for (const [worker, tube] of [['one', 'jobs'], ['one', 'jobs'], ['one', 'more'], ['two', 'jobs']]) {
      const taken = await page.request.post(`${url}v1/tubes/${tube}/take?worker=${worker}&hold=10m`);
      assert.equal((await taken.json()).tasks.length, 1);
    }
    await open(page, '#/workers', 'Workers');
    await row(page, 'more').waitFor();
    assert.equal(await page.locator('[data-row]').count(), 4);
    await page.getByRole('button', { name: /^revoke all tasks of .*\/one$/ }).click();
    await submitSteps(page, 'Revoke 3 tasks', '3 of 3');
    await page.waitForFunction(() => document.querySelectorAll('[data-row]').length === 1);
    await page.getByRole('button', { name: /^revoke all tasks of .*\/two$/ }).waitFor();
    await ask('one owner is left');
    await page.getByRole('button', { name: /^revoke task / }).click();
    await submit(page, /^Revoke 1 marked task/);
    await page.getByText('No task is taken').waitFor();
    assert.deepEqual(errors, []);
  },

  async revoke_of_a_busy_owner(browser) {
    const { page, errors } = await newPage(browser);
    for (const [worker, tube, max] of [['one', 'jobs', 2], ['two', 'jobs', 1], ['one', 'more', 600], ['one', 'more', 600]]) {
      const taken = await page.request.post(`${url}v1/tubes/${tube}/take?worker=${worker}&hold=10m&max=${max}`);
      assert.equal((await taken.json()).tasks.length, max);
    }
    await open(page, '#/workers', 'Workers');
    await page.getByText(/^The first 1,\d{3} of 1,203 taken tasks\./).waitFor();
    // The filter hides the tasks of the other tube.
    await page.keyboard.press('/');
    await page.keyboard.type('jobs');
    await page.waitForFunction(() => document.querySelectorAll('[data-row]').length === 3);
    await page.getByRole('button', { name: /^revoke all tasks of .*\/one$/ }).click();
    await submitSteps(page, 'Revoke 1,202 tasks', '1,202 of 1,202');
    await page.waitForFunction(() => document.querySelectorAll('[data-row]').length === 1);
    assert.deepEqual(errors, []);
  },

  async schedules(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '#/schedules', 'Schedules');
    const field = (label) => dialog(page).getByLabel(label, { exact: true });
    await button(page, 'Create a schedule').click();
    await field('Tube').fill('jobs');
    await field('Key').fill('nightly');
    await field('or cron').fill('not cron');
    await field('Body of its tasks').fill('{"made": true}');
    await dialog(page).getByRole('button', { name: 'Create' }).click();
    await dialog(page).locator('.trouble').waitFor();
    await field('or cron').fill('30 3 * * *');
    await field('Time zone of cron').fill('Europe/Berlin');
    await field('Tags').fill('night, batch');
    await submit(page, 'Create');
    await row(page, 'nightly').getByText('Europe/Berlin').waitFor();
    await ask('created');
    await page.getByRole('button', { name: 'edit nightly' }).click();
    await field('or cron').fill('0 4 * * *');
    await field('Times').fill('7');
    await field('New body of its tasks').fill('{"made": false}');
    await submit(page, 'Save');
    await row(page, 'nightly').getByText('0 4 * * *').waitFor();
    await ask('edited');
    // By the keyboard: run it now, and remove it.
    await row(page, 'nightly').focus();
    await page.keyboard.press('R');
    await toast(page, /Task \d+ put\./);
    await ask('run');
    await row(page, 'nightly').focus();
    await page.keyboard.press('D');
    await submit(page, 'Remove');
    await row(page, 'nightly').waitFor({ state: 'detached' });
    await row(page, 'hourly').waitFor();
    assert.deepEqual(faults(errors), []);
  },

  async many_schedules(browser) {
    const { page, errors } = await newPage(browser);
    const count = (wanted) => page.waitForFunction((rows) => document.querySelectorAll('[data-row]').length === rows, wanted);
    await open(page, '#/schedules', 'Schedules');
    await page.getByText('1–500 of 507').waitFor();
    await count(500);
    await page.keyboard.press('n');
    await page.getByText('501–507 of 507').waitFor();
    await count(7);
    // A list that ends before the other tube, as it does behind 10,000 schedules.
    await page.route('**/v1/schedules', async (route) => {
      const answer = await route.fetch();
      const { schedules } = await answer.json();
      await route.fulfill({ response: answer, json: { schedules: schedules.filter(({ tube }) => tube === 'a').slice(0, 400), more: true, damaged: 2 } });
    });
    await page.route('**/v1/tubes/a/schedules', async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: { ...(await answer.json()), more: true } });
    });
    await page.reload();
    await page.getByText('2 schedules left out: the records are damaged.').waitFor();
    // Those of the tubes that lack some are read up to 10,000.
    await page.getByText('1–500 of 507').waitFor();
    await page.getByText('has more of a.').waitFor();
    await page.locator('[data-filter]').fill('b-1');
    await count(1);
    assert.deepEqual(errors, []);
  },

  async sample_of_a_group(browser) {
    const { page, errors } = await newPage(browser);
    // The tasks of the second tube have been kicked since the groups were read.
    await page.route('**/v1/tubes/few/tasks?*', (route) => route.fulfill({ json: { tasks: [], next: null, damaged: 0 } }));
    await open(page, '#/failures', 'Failures');
    for (const which of ['first', 'last']) await row(page, 'timeout').locator(`td[data-label=${which}] time`).waitFor();
    assert.deepEqual(errors, []);
  },

  async check_and_backup(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '#/store', 'Store');
    const verify = async (status) => {
      await button(page, 'Verify').click();
      await dialog(page).locator('[data-steps=ended]').waitFor();
      assert.equal(await dialog(page).getByRole('status').textContent(), status);
    };
    const close = async () => {
      await dialog(page).getByRole('button', { name: 'Close' }).click();
      await dialog(page).waitFor({ state: 'detached' });
    };
    await verify('Finished.');
    await dialog(page).getByText('No damage was found.').waitFor();
    await close();
    // What a server with a damaged file answers, and one whose check fails.
    const answer = (...events) => page.route('**/v1/store/verify', (route) => route.fulfill({
      contentType: 'text/event-stream',
      body: events.map(([kind, data]) => `event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`).join(''),
    }), { times: 1 });
    await answer(['progress', { checked: 3, of: 7 }], ['done', { findings: ['<b>page 3</b> is damaged', 'task 9 has no body'] }]);
    await verify('Finished.');
    await dialog(page).getByText('3 of 7').waitFor();
    await dialog(page).getByText('2 findings.').waitFor();
    await dialog(page).getByText('<b>page 3</b> is damaged').waitFor();
    await close();
    await answer(['failed', { status: 503, kind: 'unavailable', title: 'Unavailable', detail: 'the disk has gone' }]);
    await verify('the disk has gone');
    await close();
    await answer(['progress', { checked: 3, of: 7 }]);
    await verify('The check has ended without a result.');
    await close();
    // One that takes long is stopped.
    await page.route('**/v1/store/verify', () => {}, { times: 1 });
    await button(page, 'Verify').click();
    await dialog(page).getByRole('button', { name: 'Stop' }).click();
    await dialog(page).getByText('Stopped.').waitFor();
    await close();
    const [backup] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download a backup' }).click()]);
    assert.match(backup.suggestedFilename(), /^\d{4}-\d\d-\d\d\.tubewell$/);
    await ask(`backup ${await backup.path()}`);
    // A large file for few tasks.
    assert.equal(await page.locator('.hint').count(), 0);
    await page.route('**/metrics', async (route) => {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, body: `tubewell_store_bytes{part="file"} 314572800\n${await answer.text()}` });
    });
    await page.keyboard.press('r');
    await page.locator('.hint', { hasText: '300 MiB for 3 tasks: 100 MiB each' }).waitFor();
    assert.deepEqual(errors, []);
  },

  async backup_with_a_token(browser) {
    const { page } = await newPage(browser);
    await page.goto(`${url}#/store`);
    await dialog(page).getByLabel('Token of the server').fill('0123456789abcdef');
    await page.keyboard.press('Enter');
    await page.getByText('With a token, the page loads 1.0 GiB at most.').waitFor();
    const [backup] = await Promise.all([page.waitForEvent('download'), button(page, 'Download a backup').click()]);
    await dialog(page).getByText('Finished.').waitFor();
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    await ask(`backup ${await backup.path()}`);
    // One that is too large for the memory of a browser.
    await page.evaluate((length) => {
      const { fetch } = window;
      const large = () => Promise.resolve(new Response('x', { headers: { 'Content-Length': length } }));
      window.fetch = (where, init) => (where === 'v1/store/backup' ? large() : fetch(where, init));
    }, String(3 * 2 ** 30));
    await button(page, 'Download a backup').click();
    await dialog(page).getByText('The backup has 3.0 GiB.').waitFor();
  },

  async options_of_a_tube(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '#/tubes/jobs', 'jobs');
    const field = (label) => dialog(page).getByLabel(label, { exact: true });
    await page.keyboard.press('e');
    await field('ttr').fill('5m');
    await field('capacity').fill('100');
    await field('max_taken').fill('3');
    await field('rate').fill('10/s');
    await field('backoff').fill('1s,factor=2,cap=1h');
    await submit(page, 'Save');
    await toast(page, 'Options of “jobs” saved.');
    await page.locator('[aria-label=options]').getByText('max taken').waitFor();
    await ask('set');
    await page.keyboard.press('e');
    await field('capacity').fill('a lot');
    await dialog(page).getByRole('button', { name: 'Save' }).click();
    await dialog(page).locator('.trouble').waitFor();
    await field('capacity').fill('0');
    await field('max_taken').fill('');
    await field('rate').fill('');
    await submit(page, 'Save');
    await page.locator('[aria-label=options]').getByText('max taken').waitFor({ state: 'detached' });
    assert.deepEqual(faults(errors), []);
  },

  async pauses(browser) {
    const { page, errors } = await newPage(browser);
    const badge = page.locator('.badge', { hasText: 'paused' });
    await open(page, '#/tubes/jobs', 'jobs');
    await button(page, 'Pause').click();
    await submit(page, 'Pause');
    await badge.waitFor();
    await ask('tube is paused');
    await button(page, 'Resume').click();
    await badge.waitFor({ state: 'detached' });
    // A sub-queue, from its list, and its end from the page of the store.
    await row(page, 'host-a').getByRole('button', { name: 'host-a' }).click();
    await button(page, 'Pause this sub-queue').click();
    await dialog(page).getByLabel('For').fill('10m');
    await submit(page, 'Pause');
    await toast(page, 'Sub-queue “host-a” of “jobs” paused.');
    await badge.waitFor();
    await ask('sub-queue is paused');
    await button(page, 'Resume this sub-queue').click();
    await badge.waitFor({ state: 'detached' });
    await ask('sub-queue is resumed');
    await page.keyboard.press('Z');
    await submit(page, 'Pause');
    await badge.waitFor();
    await open(page, '#/store', 'Store');
    await page.getByRole('button', { name: 'resume jobs / host-a' }).click();
    await page.getByText('Paused sub-queues').waitFor({ state: 'detached' });
    assert.deepEqual(errors, []);
  },

  async one_task(browser) {
    const { page, errors } = await newPage(browser);
    const stateOf = (state) => page.locator('.big-state', { hasText: state }).waitFor();
    const openKey = async (key) => {
      const { id } = await (await page.request.get(`${url}v1/keys/${key}`)).json();
      await open(page, `#/tasks/${id}`, `Task ${id}`);
    };
    await openKey('delayed');
    await button(page, 'Kick').click();
    await stateOf('ready');
    await button(page, 'Bury').click();
    await dialog(page).getByLabel('Why').fill('looks wrong');
    await submit(page, 'Bury');
    await stateOf('buried');
    await page.locator('.said', { hasText: 'looks wrong' }).first().waitFor();
    await button(page, 'Kick').click();
    await stateOf('ready');
    await openKey('cancelled');
    await button(page, 'Cancel').click();
    await stateOf('gone');
    // What has ended cannot be changed.
    assert.equal(await button(page, 'Kick').getAttribute('aria-disabled'), 'true');
    await openKey('deleted');
    await button(page, 'Delete').click();
    await submit(page, 'Delete');
    await page.locator('h1', { hasText: 'jobs' }).waitFor();
    await openKey('taken');
    await button(page, 'Release').click();
    await stateOf('ready');
    await openKey('model');
    await button(page, 'Put again').click();
    await dialog(page).getByLabel('Key').fill('copy');
    await submit(page, 'Put');
    await toast(page, /Task \d+ put: ready\./);
    await openKey('bytes');
    await button(page, 'Put again').click();
    assert.equal(await dialog(page).getByLabel('Body').count(), 0);
    await dialog(page).getByLabel('Key').fill('copied-bytes');
    await submit(page, 'Put');
    await toast(page, /Task \d+ put: ready\./);
    assert.deepEqual(faults(errors), []);
  },
};

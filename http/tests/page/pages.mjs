// Each page: that it opens, is narrow enough, and shows what it is told as text.

import assert from 'node:assert/strict';

import { PAGES, checkAccess, dialog, faults, newPage, open, row, submit, submitSteps, toast, url } from './helpers.mjs';

export const pages = {
  async pages(browser) {
    for (const colorScheme of ['light', 'dark']) {
      const { page, errors } = await newPage(browser, { colorScheme });
      for (const [where, title] of PAGES) {
        await open(page, where, title);
        await checkAccess(page);
      }
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), colorScheme);
      // By the keyboard.
      for (const [key, title] of [['t', 'Tubes'], ['f', 'Failures'], ['w', 'Workers'], ['s', 'Schedules'], ['o', 'Store']]) {
        await page.keyboard.press('g');
        await page.keyboard.press(key);
        await page.locator('h1', { hasText: title }).waitFor();
      }
      await page.keyboard.press('?');
      await dialog(page).getByText('next and previous row').waitFor();
      await page.keyboard.press('Escape');
      await dialog(page).waitFor({ state: 'detached' });
      await page.keyboard.press('i');
      await page.keyboard.type('child');
      await page.keyboard.press('Enter');
      await page.locator('.graph a').waitFor();
      assert.deepEqual(errors, []);
    }
  },

  async find(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '', 'Tubes');
    for (const key of ['00123', '7', '99999999999999999999999', 'named']) {
      const { id } = await (await page.request.get(`${url}v1/keys/${key}`)).json();
      await page.keyboard.press('i');
      await page.locator('#find').fill(key);
      await page.keyboard.press('Enter');
      await page.locator('h1', { hasText: new RegExp(`^Task ${id}$`) }).waitFor();
      await page.keyboard.press('Escape');
    }
    assert.deepEqual(faults(errors), []);
  },

  async narrow(browser) {
    const { page, errors } = await newPage(browser, { viewport: { width: 360, height: 740 } });
    for (const [where, title] of PAGES) {
      await open(page, where, title);
      const beyond = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(beyond, 0, `${where} is ${beyond} px too wide`);
      // A row is as wide as the page, and its mark is beside its text.
      const squeezed = await page.evaluate(() => [...document.querySelectorAll('.tasks [data-row]')].filter((row) => {
        const box = (selector) => row.querySelector(selector).getBoundingClientRect();
        return box('.content').width < 250 || box('.mark input').right > box('a[data-open]').left;
      }).map((row) => row.textContent));
      assert.deepEqual(squeezed, [], where);
    }
    assert.deepEqual(errors, []);
  },

  async wide(browser) {
    for (const [width, height] of [[2560, 1440], [3840, 2160]]) {
      const { page, errors } = await newPage(browser, { viewport: { width, height } });
      for (const [where, title] of PAGES) {
        await open(page, where, title);
        const found = await page.evaluate(() => {
          const box = (selector) => document.querySelector(selector).getBoundingClientRect();
          const cards = [...document.querySelectorAll('.card, .sums, main > .scroll')].map((card) => card.getBoundingClientRect());
          return {
            beyond: document.documentElement.scrollWidth - document.documentElement.clientWidth,
            // What a page shows begins at its left edge, and uses its width.
            unused: box('main').right - Math.max(...cards.map(({ right }) => right)),
            cut: [...document.querySelectorAll('.head, .tools, .facts dd')].filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent),
          };
        });
        assert.ok(found.beyond <= 0, `${where} is ${found.beyond} px too wide at ${width} px`);
        assert.ok(found.unused < 100, `${where} leaves ${found.unused} px of ${width} px unused`);
        assert.deepEqual(found.cut, [], `${where} at ${width} px`);
      }
      assert.deepEqual(errors, []);
    }
  },

  async actions(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '', 'Tubes');
    // Pause and resume, by the keyboard.
    await row(page, 'jobs').focus();
    await page.keyboard.press('z');
    await dialog(page).getByLabel('For').fill('10m');
    await page.keyboard.press('Enter');
    await row(page, 'jobs').locator('.badge', { hasText: 'paused' }).waitFor();
    await row(page, 'jobs').focus();
    await page.keyboard.press('z');
    await row(page, 'jobs').locator('.badge').waitFor({ state: 'detached' });
    // Create a tube, put a task, edit it.
    await page.getByRole('button', { name: 'Create a tube' }).click();
    await dialog(page).getByLabel('Name').fill('made-by-hand');
    await submit(page, 'Create');
    await page.locator('h1', { hasText: 'made-by-hand' }).waitFor();
    await open(page, '#/tubes/jobs', 'jobs');
    await page.keyboard.press('a');
    await dialog(page).getByLabel('Body').fill('{"put": 1}');
    await dialog(page).getByLabel('Key').fill('put-by-hand');
    await submit(page, 'Put');
    await row(page, 'put-by-hand').locator('a[data-open]').click();
    await page.locator('.code', { hasText: '"put": 1' }).waitFor();
    await page.keyboard.press('e');
    await dialog(page).getByLabel('Body').fill('{"edited": true}');
    await dialog(page).getByLabel('Priority').fill('7');
    await dialog(page).getByLabel('Tags').fill('edited');
    await submit(page, 'Save');
    await page.locator('.code', { hasText: '"edited": true' }).waitFor();
    await page.keyboard.press('l');
    await dialog(page).getByLabel('Note').fill('seen by an operator');
    await submit(page, 'Log');
    await page.locator('.history', { hasText: 'seen by an operator' }).waitFor();
    // A refusal is shown as the server says it, and leaves the form open.
    await page.keyboard.press('e');
    await dialog(page).getByLabel('Priority').fill('-1');
    await dialog(page).getByRole('button', { name: 'Save' }).click();
    await dialog(page).locator('.trouble').waitFor();
    await page.keyboard.press('Escape');
    // Delete two marked tasks of six, by the keyboard.
    await open(page, '#/tubes/failed?state=buried', 'failed');
    await page.locator('[data-row]').nth(5).waitFor();
    await page.keyboard.press('j');
    await page.keyboard.press('x');
    await page.keyboard.press('j');
    await page.keyboard.press('x');
    await page.getByText('2 tasks marked').waitFor();
    await page.keyboard.press('D');
    await submit(page, 'Delete 2 marked tasks');
    await page.waitForFunction(() => document.querySelectorAll('[data-row]').length === 4);
    // Kick the others, once the page has learned how many there are.
    await page.locator('.tabs button', { hasText: 'buried' }).getByText('4', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Kick all buried' }).click();
    await submitSteps(page, 'Kick 4 tasks', '4 of 4');
    await page.getByText('No task matches.').waitFor();
    await page.locator('.count.bad').waitFor({ state: 'detached' });
    errors.splice(0, errors.length, ...errors.filter((error) => !error.includes('400 (Bad Request)')));
    assert.deepEqual(errors, []);
  },

  async steps(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '#/failures', 'Failures');
    await row(page, 'timeout').getByText('2,333').waitFor();
    // The second step waits until the stop was pressed.
    let [calls, release] = [0, null];
    await page.route('**/kick?*', async (route) => {
      calls += 1;
      if (calls === 2) await new Promise((done) => (release = done));
      await route.continue().catch(() => {});
    });
    await page.getByRole('button', { name: 'Kick all' }).click();
    await dialog(page).getByRole('button', { name: 'Kick 3,500 tasks' }).click();
    await dialog(page).getByText('1,000 of 3,500').waitFor();
    await dialog(page).getByRole('button', { name: 'Stop' }).click();
    await dialog(page).getByText('Stopped.').waitFor();
    release?.();
    await page.unroute('**/kick?*');
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    await page.getByText(/2,500 buried tasks|1,500 buried tasks/).waitFor();
    // One group, then all.
    await row(page, 'http 503').getByRole('button', { name: 'Kick' }).click();
    await dialog(page).getByRole('button', { name: /^Kick / }).click();
    await dialog(page).getByText('Finished.').waitFor();
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    await row(page, 'http 503').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Kick all' }).click();
    await dialog(page).getByRole('button', { name: /^Kick / }).click();
    await dialog(page).getByText('Finished.').waitFor();
    await dialog(page).getByRole('button', { name: 'Close' }).click();
    await page.getByText('No task is buried.').waitFor();
    assert.deepEqual(errors, []);
  },

  async markup(browser) {
    const { page, errors } = await newPage(browser);
    const seen = async (text) => page.getByText(text).first().waitFor();
    await open(page, '', 'Tubes');
    await seen('<b>jobs</b>');
    await open(page, `#/tubes/${encodeURIComponent('<b>jobs</b>')}`, '<b>jobs</b>');
    await seen('<i>tag</i>');
    await open(page, '#/tasks/0', 'Task 0');
    await page.locator('.code', { hasText: '<script>window.hacked' }).waitFor();
    await page.locator('.said', { hasText: 'onerror' }).first().waitFor();
    await open(page, '#/failures', 'Failures');
    await seen('<u>group</u>');
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator('main script, main img, main b').count(), 0);
    assert.deepEqual(errors, []);
  },

  async deep_bodies(browser) {
    const { page, errors } = await newPage(browser);
    const { tasks } = await (await page.request.get(`${url}v1/tubes/deep/tasks`)).json();
    assert.equal(tasks.length, 4);
    for (const { id, key } of tasks) {
      await open(page, `#/tasks/${id}`, `Task ${id}`);
      const shown = await page.locator('.code').textContent();
      const { data } = await (await page.request.get(`${url}v1/tasks/${id}`)).json();
      assert.equal(shown, key === 'shallow' ? JSON.stringify(JSON.parse(data), null, 2) : data, key);
      // It is drawn each second.
      const longest = await page.evaluate(async () => {
        let [most, before] = [0, performance.now()];
        for (const end = before + 2500; before < end;) {
          await new Promise((done) => setTimeout(done, 5));
          const now = performance.now();
          [most, before] = [Math.max(most, now - before), now];
        }
        return most;
      });
      assert.ok(longest < 1000, `${key}: the page has not answered for ${longest} ms`);
    }
    assert.deepEqual(errors, []);
  },

  async read_only(browser) {
    const { page, errors } = await newPage(browser);
    await open(page, '#/tubes/failed', 'failed');
    await page.locator('.badge', { hasText: 'read-only' }).waitFor();
    for (const name of ['Put a task', 'Pause', 'Kick all buried', 'Drop', 'Delete', 'Move']) {
      const button = page.getByRole('button', { name, exact: true });
      assert.equal(await button.getAttribute('aria-disabled'), 'true', name);
    }
    await page.getByRole('button', { name: 'Drop' }).click({ force: true });
    await toast(page, 'read-only');
    assert.equal(await dialog(page).count(), 0);
    assert.equal(await page.getByRole('button', { name: 'Export' }).getAttribute('aria-disabled'), 'false');
    await open(page, '#/store', 'Store');
    for (const name of ['Verify', 'Download a backup']) {
      assert.equal(await page.getByRole('button', { name, exact: true }).getAttribute('aria-disabled'), 'true', name);
    }
    assert.deepEqual(errors, []);
  },

  async token(browser) {
    const { page } = await newPage(browser);
    await page.goto(url);
    await dialog(page).getByLabel('Token of the server').fill('wrong-wrong-wrong-wrong');
    await page.keyboard.press('Enter');
    await dialog(page).getByText('does not accept this token').waitFor();
    await dialog(page).getByLabel('Token of the server').fill('0123456789abcdef');
    await page.keyboard.press('Enter');
    await page.locator('.pulse.is-live').waitFor();
    await row(page, 'jobs').waitFor();
    // It is kept in the tab.
    await page.reload();
    await row(page, 'jobs').waitFor();
    assert.equal(await dialog(page).count(), 0);
    assert.equal(await page.evaluate(() => Object.values(localStorage).join().includes('0123456789abcdef')), false);
    await page.getByRole('button', { name: 'Forget token' }).click();
    await dialog(page).getByLabel('Token of the server').waitFor();
  },

  async many_tubes(browser) {
    const { page, errors } = await newPage(browser);
    const calls = [];
    page.on('requestfinished', (request) => /\/v1\/(?!events)/.test(request.url()) && calls.push(request));
    // The rows that stood there while the other tubes were still being read.
    await page.addInitScript(() => {
      globalThis.first = new Set();
      new MutationObserver(() => {
        if (document.querySelector('.sums')?.textContent.includes('being read')) globalThis.first.add(document.querySelectorAll('[data-row]').length);
      }).observe(document, { childList: true, subtree: true });
    });
    await open(page, '', 'Tubes');
    await page.getByText('1–100 of 10,000').waitFor();
    const counts = await page.evaluate(() => [...globalThis.first]);
    assert.ok(counts[0] === 20 && counts.every((count) => count === 20 || count === 100), `${counts}`);
    // The first tubes, the others, and all of them after the stream of events is there.
    const lists = calls.filter((request) => request.url().includes('/v1/backlog'));
    const of = (request) => new URL(request.url()).search;
    assert.deepEqual(lists.slice(0, 2).map(of), ['?limit=100', '?after=tube-00099']);
    assert.ok(lists.length <= 3 && calls.length <= 5, calls.map((request) => request.url()).join());
    for (const [at, tubes] of [[0, 100], [1, 9900]]) {
      const { responseBodySize } = await lists[at].sizes();
      assert.ok(responseBodySize < tubes * 80, `${responseBodySize} bytes`);
    }
    await row(page, 'tube-00099').waitFor();
    assert.equal(await page.locator('[data-row]').count(), 100);
    await page.getByText('1–100 of 10,000').waitFor();
    await page.keyboard.press('n');
    await row(page, 'tube-00100').waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type('07777');
    await row(page, 'tube-07777').locator('td[data-label=ready]', { hasText: '1' }).waitFor();
    assert.equal(await page.locator('[data-row]').count(), 1);
    assert.deepEqual(errors, []);
  },
};

// Lines over time, drawn by uPlot, which is loaded with the first chart.

import { duration, number, rate } from './format.js';
import { html, useEffect, useRef } from './ui.js';

let loading = null;

function load() {
  loading ??= new Promise((done, fail) => {
    const script = document.createElement('script');
    script.src = 'page/vendor/uplot.js';
    script.onload = () => done(window.uPlot);
    script.onerror = () => {
      loading = null;
      fail(new Error('the chart could not be loaded'));
    };
    document.head.append(script);
  });
  return loading;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function options({ lines, height, isTime, unit }, width) {
  const show = unit === 'time' ? duration : rate;
  const axis = { stroke: colour('quiet'), grid: { stroke: colour('line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  const dates = (_chart, times) => times.map((time) => new Date(time * 1000).toISOString().slice(5, 10));
  const hours = (_chart, times) => times.map((time) => new Date(time * 1000).toTimeString().slice(0, 5));
  return {
    width,
    height,
    cursor: { y: false, points: { size: 6 } },
    legend: { live: true },
    scales: { y: { range: (_chart, _least, most) => [0, most > 0 ? most * 1.1 : 1] } },
    axes: [
      { ...axis, ...(isTime ? { values: hours, incrs: [60, 120, 300, 600, 900] } : { values: dates, incrs: [86400, 2 * 86400, 7 * 86400, 30 * 86400] }), space: 55, size: 28 },
      { ...axis, values: (_chart, values) => values.map((value) => show(value)), size: 58, space: 36 },
    ],
    series: [
      { label: isTime ? 'time' : 'day', value: isTime ? '{HH}:{mm}:{ss}' : '{YYYY}-{MM}-{DD}' },
      ...lines.map(({ label, tone, dash, isArea }) => ({
        label,
        stroke: colour(tone),
        width: 1.75,
        dash,
        fill: isArea ? `${colour(tone)}22` : undefined,
        points: { show: !isTime, size: 5 },
        value: (_chart, value) => (value == null ? '–' : `${show(value)}${unit === 'time' ? '' : '/s'}`),
      })),
    ],
  };
}

/** The legend has the newest values while no pointer is in the chart. */
function showLast(chart) {
  if (chart.cursor.idx == null) chart.setLegend({ idx: chart.data[0].length - 1 });
}

/**
 * A chart. `data` is a list of times and a list of values for each of `lines`, which are `{label, tone, dash, isArea}`.
 * `unit` is `rate` or `time`; `isTime` is false for days.
 */
export function Chart({ data, lines, label, height = 165, isTime = true, unit = 'rate', theme }) {
  const place = useRef(null);
  const chart = useRef(null);
  const latest = useRef(data);
  latest.current = data;
  const key = JSON.stringify([lines, height, isTime, unit, theme]);
  useEffect(() => {
    let isGone = false;
    let watcher = null;
    load().then(
      (Plot) => {
        if (isGone) return;
        const given = { lines, height, isTime, unit };
        chart.current = new Plot(options(given, place.current.clientWidth || 600), latest.current, place.current);
        showLast(chart.current);
        watcher = new ResizeObserver(() => {
          const width = place.current?.clientWidth;
          if (width && width !== chart.current.width) chart.current.setSize({ width, height });
        });
        watcher.observe(place.current);
      },
      (error) => place.current && place.current.append(error.message),
    );
    return () => {
      isGone = true;
      watcher?.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [key]);
  useEffect(() => {
    if (!chart.current) return;
    chart.current.setData(data);
    showLast(chart.current);
  }, [data]);
  return html`<div class="chart" role="img" aria-label=${label} ref=${place} />`;
}

/** Bins that are twice as wide each, without gaps, of many small ones. */
function coarse(bins) {
  if (bins.length <= 24 && bins.every((bin, at) => at === 0 || bin.from === bins[at - 1].to)) return bins;
  const power = (bin) => Math.floor(Math.log2(Math.max(bin.from, 1e-6)) + 1e-9);
  const first = power(bins[0]);
  const wide = Array.from({ length: power(bins.at(-1)) - first + 1 }, (_, at) => ({ from: 2 ** (first + at), to: 2 ** (first + at + 1), count: 0 }));
  for (const bin of bins) wide[power(bin) - first].count += bin.count;
  return wide;
}

/** Counts by size as columns. `bins` are `{from, to, count}` in seconds. */
export function Columns({ bins: given, label }) {
  const bins = coarse(given);
  const used = bins.filter((bin, at) => bin.count > 0 || bins.slice(0, at).some((other) => other.count > 0));
  while (used.length && used.at(-1).count === 0) used.pop();
  const most = Math.max(1, ...used.map((bin) => bin.count));
  const name = (bin) => `${duration(bin.from)} to ${bin.to == null ? 'any time' : duration(bin.to)}: ${number(bin.count)}`;
  if (used.length === 0) return html`<p class="empty">Nothing was counted.</p>`;
  return html`<figure class="columns" aria-label=${label}>
    <div role="img" aria-label=${`${label}: ${used.map(name).join('; ')}`}>
      ${used.map((bin) => html`<i key=${bin.from} title=${name(bin)} style=${{ height: `${Math.max(bin.count > 0 ? 3 : 0, (100 * bin.count) / most)}%` }} />`)}
    </div>
    <figcaption><span>${duration(used[0].from)}</span><span>${used.at(-1).to == null ? '∞' : duration(used.at(-1).to)}</span></figcaption>
  </figure>`;
}

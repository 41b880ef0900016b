// SPDX-License-Identifier: Apache-2.0
/* Is the fleet fine? And if not: which project, which divergence. */

import { get, pages } from './api';
import { plot } from './block';
import { count, duration, figure, foreign, h, link, percent, plural, stamp, svg } from './dom';
import { openIncidents } from './incidents';
import type { View } from './main';
import type { Indicator, Indicators, Verdict } from './types';
import { empty, runLink, state, verdictList } from './words';

const LATEST = 8;
const DAYS = 30;
const TREND_MOST = 5000;

const value = (i: Indicator, x: number | null): string => {
  if (x === null) return 'not known';
  if (i.unit === 'share') return percent(x);
  if (i.unit === 'count') return count(x);
  return i.unit === 'seconds' ? duration(x) : figure(x);
};

const wanted = (i: Indicator): string =>
  i.target.value === null ? '' : `${i.target.at_least ? '≥' : '≤'} ${value(i, i.target.value)}`;

export const interval = (i: Indicator): string =>
  i.interval ? `${value(i, i.interval[0])} to ${value(i, i.interval[1])}` : '';

/** Value, interval and target on one scale; what it says stands beside it in words. */
function scale(i: Indicator): SVGElement | null {
  if (i.value === null || i.target.value === null) return null;
  const [low, high] = i.interval ?? [i.value, i.value];
  const all = [low, high, i.value, i.target.value];
  let from = Math.min(...all);
  let to = Math.max(...all);
  const room = (to - from) * 0.1 || 0.05;
  from = i.unit === 'share' ? Math.max(0, from - room) : from - room;
  to = i.unit === 'share' && to <= 1 ? Math.min(1, to + room) : to + room;
  const x = (v: number) => 4 + (v - from) / (to - from || 1) * 112;
  const line = (a: number, b: number, y0: number, y1: number, kind: string) =>
    svg('line', { x1: a, x2: b, y1: y0, y2: y1, class: kind });
  return svg('svg', { class: 'scale', viewBox: '0 0 120 20', width: 120, height: 20, 'aria-hidden': 'true' },
    line(4, 116, 10, 10, 'axis'), line(x(low), x(high), 10, 10, 'range'),
    line(x(i.target.value), x(i.target.value), 2, 18, 'target'),
    svg('circle', { cx: x(i.value), cy: 10, r: 4, class: 'value' }));
}

function budget(i: Indicator): string {
  const { events, left } = i.budget; // left: a share of the budget, below 0 when it is overdrawn
  if (events === null || left === null) return '';
  return left >= 0
    ? `${percent(left)} of ${figure(events)} left`
    : `${figure(-left * 100)}% over its ${figure(events)}`;
}

const what = (i: Indicator): (Node | string)[] =>
  [i.words, ...(i.subject ? [': ', foreign(i.subject, 80)] : [])];

function indicatorTable(rows: Indicator[]): HTMLElement {
  const head = ['', 'Indicator', 'State', 'Value', 'Between (95%)', 'Target', '', 'Budget', 'Events'];
  const body = h('tbody');
  for (const i of rows) {
    const { good, bad, unknown } = i.counts;
    body.append(h('tr', {}, h('td', { class: 'soft' }, i.indicator),
      h('th', { scope: 'row' }, ...what(i), i.why && h('span', { class: 'soft small' }, foreign(i.why))),
      h('td', {}, state(i.state)), h('td', { class: 'n' }, value(i, i.value)), h('td', { class: 'n' }, interval(i)),
      h('td', { class: 'n' }, wanted(i)), h('td', {}, scale(i)), h('td', {}, budget(i)),
      h('td', { class: 'events' }, `${count(good)} good, ${count(bad)} bad`,
        unknown ? h('span', { class: 'soft small' }, `${count(unknown)} not known`) : null)));
  }
  return h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'Indicators' }, h('table', {},
    h('thead', {}, h('tr', {}, ...head.map(text => h('th', { scope: 'col' }, text)))), body));
}

function answer(all: Indicators): HTMLElement {
  const broken = all.indicators.filter(i => i.state === 'broken');
  const projects = new Set(broken.filter(i => i.scope === 'project').map(i => i.name)).size;
  const words = {
    kept: ['clean', 'Yes: every target is shown to be kept.'],
    broken: ['found', `No: ${plural(new Set(broken.map(i => i.indicator)).size, 'target')} broken` +
      `${projects ? `, in ${plural(projects, 'project')}` : ''}.`],
    'not-known': ['open', 'Not known: no target is broken, but not all are shown to be kept.'],
  }[all.outcome] ?? ['open', 'No target is set.'];
  return h('p', { class: `answer ${words[0]}` }, words[1]);
}

/** One card for each project, or all runs, of which a target is broken. */
function brokenCards(all: Indicators): HTMLElement | null {
  const broken = all.indicators.filter(i => i.state === 'broken');
  const names = [...new Set(broken.filter(i => i.scope === 'project').map(i => i.name))].slice(0, 50);
  const cards = names.map(name => {
    const rows = broken.filter(i => i.scope === 'project' && i.name === name);
    return h('li', {}, link(`#/incident/${encodeURIComponent(name)}`,
      h('span', { class: 'line' }, h('strong', {}, foreign(name, 80)), h('span', { class: 'right' }, state('broken'))),
      ...rows.map(i => h('span', { class: 'line soft' },
        h('span', {}, ...what(i), `: ${value(i, i.value)}, wanted ${wanted(i)}`)))));
  });
  return cards.length ? h('ul', { class: 'rows', 'aria-label': 'Projects with a broken target' }, ...cards) : null;
}

function burned(all: Indicators): HTMLElement | null {
  const rows = all.indicators.filter(i => i.scope === 'all').flatMap(i =>
    i.burned.map(b => ({ i, b }))).sort((x, y) => y.b.time_ns - x.b.time_ns).slice(0, 12);
  if (!rows.length) return null;
  return h('details', {}, h('summary', {}, 'What used the budgets up'), h('ul', {}, ...rows.map(({ i, b }) =>
    h('li', {}, `${i.indicator}: `, /^[0-9a-f]{32}$/.test(b.run) ? runLink(b.run) : foreign(b.run, 40), ' of ',
      foreign(b.project, 80), b.cause ? ', ' : '', foreign(b.cause), `, ${stamp(b.time_ns)}`))));
}

/** Comparisons of each of the last 30 days (UTC), as the ledger's list has them. */
async function trend(signal: AbortSignal): Promise<HTMLElement> {
  const day = 86400e9;
  const last = Math.floor(Date.now() * 1e6 / day);
  const tally = { same: new Float64Array(DAYS), differ: new Float64Array(DAYS), other: new Float64Array(DAYS) };
  let seen = 0;
  const { whole } = await pages<Verdict>('verdicts', 'verdicts', TREND_MOST, { since: `${DAYS}d` }, rows => {
    for (const v of rows) {
      const at = Math.floor(v.time_ns / day) - last + DAYS - 1;
      if (at < 0 || at >= DAYS || v.verb === 'isolate') continue;
      const kind = v.outcome === 'same' || v.outcome === 'differ' ? v.outcome : 'other';
      tally[kind][at]!++;
      seen++;
    }
  }, signal);
  if (!seen) return empty(`No comparison in the last ${DAYS} days.`);
  const x = Float64Array.from({ length: DAYS }, (_, i) => i - DAYS + 1);
  const series = [{ name: 'same' }];
  const arrays: Float64Array[] = [x, tally.same];
  if (tally.other.some(n => n)) {
    series.push({ name: 'not known or error' });
    arrays.push(tally.other);
  }
  series.push({ name: 'differ' }); // the last is drawn on top
  arrays.push(tally.differ);
  const figure = plot('Comparisons per day.', { count: DAYS, xName: 'days from today (UTC)', yName: 'comparisons',
    style: 'lines', series, fromZero: true }, arrays, signal);
  if (!whole) figure.append(empty(`The newest ${count(TREND_MOST)} comparisons; older ones are not in the picture.`));
  return figure;
}

async function latest(): Promise<HTMLElement> {
  const { verdicts } = await get<{ verdicts: Verdict[] }>('verdicts', { outcome: 'differ', limit: LATEST });
  return verdicts.length ? verdictList(verdicts, 'Latest divergences') : empty('None is in the ledger.');
}

export async function overview(
  place: HTMLElement, _: string, __: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const top = h('div');
  const table = h('div');
  const divergences = h('div', { id: 'latest' });
  const open = h('div', { id: 'incidents' });
  const picture = h('div');
  const fill = async (withTrend: boolean) => {
    const [all, list, incidents] = await Promise.all([
      get<Indicators>('indicators', {}, signal).catch((e: unknown) => e as Error), latest(),
      openIncidents(signal).catch((e: unknown) => h('p', { class: 'open' }, e instanceof Error ? e.message : 'Incidents are not known.'))]);
    divergences.replaceChildren(list);
    open.replaceChildren(incidents);
    if (all instanceof Error) top.replaceChildren(h('p', { class: 'open' }, all.message));
    else {
      top.replaceChildren(answer(all), ...[brokenCards(all)].filter(c => c !== null));
      const rows = all.indicators.filter(i => i.scope === 'all');
      const names = new Set(all.indicators.filter(i => i.scope === 'project').map(i => i.name));
      const more = burned(all);
      // what nothing is known of is there, and not in the way
      const dark = rows.filter(i => i.value === null && i.state !== 'broken');
      const seen = rows.filter(i => !dark.includes(i));
      const open = table.querySelector('details.dark')?.hasAttribute('open') ?? false;
      table.replaceChildren(seen.length ? indicatorTable(seen) : empty('None has been measured yet.'),
        ...(dark.length ? [h('details', { class: 'dark', open }, h('summary', {},
          `Not measured (${count(dark.length)}), and why`), indicatorTable(dark))] : []),
        ...(more ? [more] : []),
        h('p', { class: 'soft' }, `All runs, until ${stamp(all.until_ns)}. Projects: `,
          ...[...names].slice(0, 100).flatMap((n, k) =>
            [k ? ', ' : '', link(`#/incident/${encodeURIComponent(n)}`, foreign(n || 'no name', 40))]),
          names.size > 100 ? ` and ${count(names.size - 100)} more` : '', '.'));
    }
    if (withTrend) picture.replaceChildren(await trend(signal));
  };
  place.append(h('h1', {}, 'Is the fleet fine?'), top, open, h('h2', {}, 'Latest divergences'), divergences,
    h('h2', {}, 'Comparisons per day'), picture, h('h2', {}, 'Indicators'), table);
  await fill(false);
  void trend(signal).then(p => picture.replaceChildren(p), () => undefined);
  let last = performance.now();
  return {
    title: 'overview',
    news() {
      // a picture that somebody reads is not pulled away each second
      const again = performance.now() - last > 30000;
      if (again) last = performance.now();
      void fill(again).catch(() => undefined);
    },
  };
}

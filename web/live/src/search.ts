// SPDX-License-Identifier: Apache-2.0
/* Searches for a cause: the list, and one of them as it went or goes on. */

import { get, pages, Refused } from './api';
import { code, count, duration, facts, foreign, h, link, moment, plural, stamp } from './dom';
import type { View } from './main';
import type { Verdict } from './types';
import { empty, found, outcome, runLink, short, verdictList } from './words';

interface Test {
  number: number;
  purpose: string;
  parted: boolean;
  status: string;
  layer: string | null;
  step: number | null;
  steps: number | null;
  seconds: number | null;
  run: string;
  world: string;
  pinned: string[];
  same: string[];
}

interface Hypothesis {
  factors: string[];
  tests: number;
  parted: number;
  first: number;
  last: number;
}

interface Search {
  id: string;
  verdict: Verdict | null;
  state: 'running' | 'ended' | 'interrupted';
  started_ns: number | null;
  changed_ns: number | null;
  factors: string[];
  plan: string;
  tests: Test[];
  tests_all: number;
  hypotheses: Hypothesis[];
}

const SHOWN = 300;
const badge = (tone: string, word: string) => h('span', { class: `badge ${tone}` }, word);
const names = (of: string[]): HTMLElement =>
  foreign(of.length ? of.slice(0, 40).join(', ') + (of.length > 40 ? ` and ${of.length - 40} more` : '') : 'nothing', 1500);

export async function searches(
  place: HTMLElement, _: string, __: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const fill = async () => {
    const rows: Verdict[] = [];
    const { whole } = await pages<Verdict>('searches', 'searches', 200, {}, page => void rows.push(...page), signal);
    place.replaceChildren(h('h1', {}, 'Searches for a cause'),
      rows.length ? verdictList(rows, 'Searches, newest first') : empty('None is in the ledger: twinrun isolate makes them.'),
      ...(whole ? [] : [empty('The newest 200.')]));
  };
  await fill();
  return {
    title: 'searches',
    news: what => {
      if (what.some(m => m.kind !== 'run')) void fill().catch(() => undefined);
    },
  };
}

/** What a test came to: that runs differ is what a search looks for, and not by itself bad. */
function came(t: Test): HTMLElement {
  if (t.status !== 'well') return badge(t.status === 'not ended' ? 'open' : 'trouble', foreign(t.status, 40).textContent ?? '');
  return t.parted ? badge('found', '≠ differed') : badge('clean', '= stayed the same');
}

function test(t: Test): HTMLElement {
  const tone = t.status !== 'well' ? 'open' : t.parted ? 'found' : 'clean';
  return h('li', { class: tone },
    h('div', { class: 'line' }, h('strong', {}, `Test ${count(t.number)}`), came(t), foreign(t.purpose, 60),
      h('span', { class: 'right soft' }, t.seconds === null ? '' : duration(t.seconds))),
    h('div', { class: 'soft' }, 'held still: ', names(t.pinned),
      ...(t.parted && t.step !== null ? [`; first difference at step ${count(t.step)}`] : []),
      ...(t.layer ? [', ', foreign(t.layer, 60)] : [])));
}

function hypotheses(of: Hypothesis[], last: number): HTMLElement {
  const head = ['Factors', 'Tests', 'Differed', 'Tested from', 'to'];
  return h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'Hypotheses' }, h('table', {},
    h('thead', {}, h('tr', {}, ...head.map(text => h('th', { scope: 'col' }, text)))),
    h('tbody', {}, ...of.slice(0, SHOWN).map(k => h('tr', {}, h('th', { scope: 'row' }, names(k.factors)),
      h('td', { class: 'n' }, count(k.tests)), h('td', { class: 'n' }, count(k.parted)),
      h('td', { class: 'n' }, `test ${count(k.first)}`),
      h('td', { class: 'n' }, k.last === last ? 'the last' : `test ${count(k.last)}`))))));
}

function answer(s: Search): HTMLElement {
  if (s.state === 'running') return h('p', { class: 'answer open' }, `Going on: ${plural(s.tests_all, 'test')} so far.`);
  if (s.state === 'interrupted') return h('p', { class: 'answer open' }, 'Interrupted before it had an answer.');
  const v = s.verdict;
  if (!v) return h('p', { class: 'answer open' }, 'Ended; its verdict is not in the ledger.');
  return h('p', { class: `answer ${v.cause ? 'found' : 'open'}` }, foreign(found(v), 300));
}

function about(v: Verdict): HTMLElement {
  return facts(['Job', code(v.command)], ['Found', h('span', {}, outcome(v.outcome), ' ', foreign(found(v), 300))],
    ['First difference', v.first ? foreign(v.first, 300) : null], ['Layer', v.layer ? foreign(v.layer) : null],
    ['When', h('span', {}, moment(v.time_ns), ` (${stamp(v.time_ns)})`)],
    ['Runs', v.runs.length ? h('span', {}, ...v.runs.slice(0, 20).flatMap((r, i) => [i ? ', ' : '', runLink(r.id)])) : null]);
}

function whole(s: Search): HTMLElement[] {
  const tests = [...s.tests].sort((a, b) => b.number - a.number);
  return [answer(s),
    facts(['Began', s.started_ns ? h('span', {}, moment(s.started_ns), ` (${stamp(s.started_ns)})`) : null],
      ['Last news', s.changed_ns ? moment(s.changed_ns) : null], ['Plan', s.plan ? foreign(s.plan, 600) : null],
      ['Factors', s.factors.length ? names(s.factors) : null]),
    ...(s.verdict ? [about(s.verdict)] : []),
    h('h2', {}, 'Hypotheses'), s.hypotheses.length ? hypotheses(s.hypotheses, s.tests_all) : empty('None was tested yet.'),
    h('h2', {}, `Tests, newest first (${count(s.tests_all)})`),
    h('ol', { class: 'steps' }, ...tests.slice(0, SHOWN).map(test)),
    ...(tests.length < s.tests_all || tests.length > SHOWN
      ? [empty(`${count(Math.min(SHOWN, tests.length))} of ${plural(s.tests_all, 'test')}.`)] : [])];
}

/** Of a search whose folder is gone the ledger has what it found. */
async function fromLedger(id: string, signal: AbortSignal): Promise<Verdict | null> {
  let hit: Verdict | null = null;
  await pages<Verdict>('searches', 'searches', 100000, {}, rows => {
    hit = rows.find(v => v.id === id) ?? null;
    return !hit;
  }, signal);
  return hit;
}

export async function search(
  place: HTMLElement, id: string, _: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const fill = async () => {
    const body = await get<Search>(`searches/${encodeURIComponent(id)}`, {}, signal).then(whole, async (error: unknown) => {
      const v = error instanceof Refused && error.status !== 401 ? await fromLedger(id, signal) : null;
      if (!v || !(error instanceof Refused)) throw error;
      return [h('p', { class: `answer ${v.cause ? 'found' : 'open'}` }, foreign(found(v), 300)),
        h('p', { class: 'card open' }, 'Its tests cannot be shown: ', foreign(error.message, 600)), about(v)];
    });
    place.replaceChildren(h('p', { class: 'soft' }, link('#/searches', 'Searches'), ' / ', short(id)),
      h('h1', {}, 'Search ', h('span', { class: 'id' }, short(id))), ...body);
  };
  await fill();
  return {
    title: `search ${short(id)}`,
    news: what => {
      const mine = what.some(({ kind, data }) => kind === 'reset' ||
        (kind === 'search' && (data as { search: { id: string } }).search.id === id) ||
        (kind === 'verdict' && (data as { verdict: Verdict }).verdict.id === id));
      if (mine) void fill().catch(() => undefined);
    },
  };
}

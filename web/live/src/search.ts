// SPDX-License-Identifier: Apache-2.0
/* Searches for a cause: the list, and one of them as it went or goes on. */

import { get, pages, Refused } from './api';
import { code, count, duration, facts, foreign, h, link, moment, plain, plural, stamp } from './dom';
import type { View } from './main';
import type { Verdict } from './types';
import { empty, found, outcome, runLink, short, verdictList } from './words';

// What /api/v1/searches/ID says: src/serve/schemas/timeline.json.
interface Test {
  number: number;
  purpose: string;
  parted: boolean;
  ended: string;
  layer: string | null;
  step: number | null;
  steps: number | null;
  seconds: number;
  run: string;
  pinned: string[] | null;
}

interface Hypothesis {
  purpose: string;
  pinned: string[];
  free: string[];
  tests: number;
  parted: number;
  failed: number;
  first: number;
  last: number;
}

interface Search {
  id: string;
  state: 'running' | 'open' | 'ended';
  command: string;
  arms: [string, string] | null;
  factors: string[];
  plan: string;
  started_ns: number;
  changed_ns: number;
  tests_all: number;
  unread: number;
  tests: Test[];
  hypotheses: Hypothesis[];
}

interface Timeline {
  verdict: Verdict | null;
  search: Search | null;
}

const SHOWN = 300;
const badge = (tone: string, word: string) => h('span', { class: `badge ${tone}` }, word);
const names = (of: string[]): HTMLElement =>
  foreign(of.length ? of.slice(0, 40).join(', ') + (of.length > 40 ? ` and ${of.length - 40} more` : '') : 'nothing', 1500);

export async function searches(
  place: HTMLElement, _: string, __: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const going = new Map<string, HTMLElement>(); // those of which an event spoke
  const live = h('ul', { class: 'rows', 'aria-label': 'Searches that go on' });
  const fill = async () => {
    const rows: Verdict[] = [];
    const { whole } = await pages<Verdict>('searches', 'searches', 200, {}, page => void rows.push(...page), signal);
    place.replaceChildren(h('h1', {}, 'Searches for a cause'), ...(going.size ? [live] : []),
      rows.length ? verdictList(rows, 'Searches, newest first') : empty('None is in the ledger: twinrun isolate makes them.'),
      ...(whole ? [] : [empty('The newest 200.')]));
  };
  await fill();
  return {
    title: 'searches',
    news: what => {
      for (const { kind, data } of what) {
        if (kind !== 'search') continue;
        const s = (data as { search: { id: string; state: string; tests: number; parted: number } }).search;
        if (s.state === 'running')
          going.set(s.id, h('li', {}, link(`#/search/${encodeURIComponent(s.id)}`, h('span', { class: 'line' }, badge('open', 'going on'),
            h('strong', {}, foreign(s.id, 80)), h('span', { class: 'right soft' }, `${plural(s.tests, 'test')}, ${count(s.parted)} differed`)))));
        else going.delete(s.id);
      }
      live.replaceChildren(...going.values());
      if (what.some(m => m.kind !== 'run')) void fill().catch(() => undefined);
    },
  };
}

type Came = 'failed' | 'differed' | 'alike' | 'alone';
/**
 * What a test came to: that runs differ is what a search looks for, and not by itself bad. A run of
 * which no step was compared (the first of its kind, with which others are) shows nothing of the two.
 */
const came = (t: Test): Came =>
  t.ended !== 'well' ? 'failed' : t.parted ? 'differed' : t.steps ? 'alike' : 'alone';
const TONE: Record<Came, string> = { failed: 'open', differed: 'found', alike: 'clean', alone: 'soft' };
const SIGN: Record<Came, string> = { failed: '?', differed: '≠', alike: '=', alone: '·' };
const WORDS: Record<Came, string> =
  { failed: 'ended', differed: '≠ differed', alike: '= no difference', alone: '· not compared' };
const word = (t: Test): HTMLElement =>
  badge(TONE[came(t)], came(t) === 'failed' ? plain(`? ended ${t.ended}`, 40) : WORDS[came(t)]);

function test(t: Test): HTMLElement {
  return h('li', { class: came(t) === 'alone' ? null : TONE[came(t)] },
    h('div', { class: 'line' }, h('strong', {}, `Test ${count(t.number)}`), word(t), foreign(meaning(t.purpose), 60),
      h('span', { class: 'right soft' }, duration(t.seconds))),
    h('div', { class: 'soft' }, ...(t.pinned ? ['held still: ', names(t.pinned)] : ['what was held still is not in the journal']),
      t.parted && t.step !== null ? `; first difference at step ${count(t.step)}` : '',
      ...(t.layer ? [', ', foreign(t.layer, 60)] : [])));
}

/** How many tests of a lane came to what; of a lane that is not here as a whole, what the server counted. */
function tally(k: Hypothesis, tests: Test[]): string {
  const n = (what: Came) => tests.filter(t => came(t) === what).length;
  if (tests.length < k.tests) return `${count(k.parted)} differed, of ${plural(k.tests, 'test')}`;
  return [`${count(k.parted)} differed`, `${count(n('alike'))} did not`,
    n('alone') ? `${count(n('alone'))} had nothing to compare with` : '', k.failed ? `${count(k.failed)} failed` : '']
    .filter(t => t).join(', ');
}

/** One lane for each hypothesis; a mark stands where its test stood among all. */
function lanes(s: Search): HTMLElement {
  const key = (purpose: string, pinned: string[] | null) => JSON.stringify([purpose, pinned ?? []]);
  const lane = new Map(s.hypotheses.slice(0, SHOWN).map(k => [key(k.purpose, k.pinned), { marks: [] as Node[], tests: [] as Test[] }]));
  s.tests.forEach((t, i) => {
    const cell = h('span', { class: `mark ${TONE[came(t)]}`, 'data-test': t.number, title: `test ${t.number}` }, SIGN[came(t)]);
    cell.style.gridColumn = String(i + 1);
    const mine = lane.get(key(t.purpose, t.pinned));
    mine?.marks.push(cell);
    mine?.tests.push(t);
  });
  const rest = s.hypotheses.length - SHOWN;
  return h('div', {},
    h('p', { class: 'soft' }, 'From left to right as time went: ≠ the run differed from the one that it was compared with, = no difference was found, · it had none to be compared with, ? it failed.'),
    h('div', { class: 'wide lanes', tabindex: '0', role: 'region', 'aria-label': 'Hypotheses and their tests' },
      ...s.hypotheses.slice(0, SHOWN).map(k => h('div', { class: 'lane' },
        h('div', { class: 'label' }, h('strong', {}, foreign(meaning(k.purpose), 90)),
          k.purpose === 'baseline' || k.purpose === 'free' ? '' : h('span', {}, ': held still ', names(k.pinned)),
          h('span', { class: 'soft' }, `; ${tally(k, lane.get(key(k.purpose, k.pinned))?.tests ?? [])}`)),
        h('div', { class: 'marks' }, ...(lane.get(key(k.purpose, k.pinned))?.marks ?? []))))),
    rest > 0 ? empty(`${plural(rest, 'more hypothesis', 'more hypotheses')}.`) : null);
}

/** Why a test was made, for people who do not know the procedure. */
function meaning(purpose: string): string {
  return {
    baseline: 'As the job is', reference: 'To compare with', contrast: 'All held still but what is tested',
    pins: 'With the suspects held still', 'failing pin': 'Under which pin the job fails',
    vote: 'The operation replayed', free: 'Once more as the job is',
  }[purpose] ?? purpose;
}

function answer({ search: s, verdict: v }: Timeline): HTMLElement {
  if (s?.state === 'running') return h('p', { class: 'answer open' }, `Going on: ${plural(s.tests_all, 'test')} so far.`);
  if (v) return h('p', { class: `answer ${v.cause ? 'found' : 'open'}` }, foreign(found(v), 300));
  if (s?.state === 'open') return h('p', { class: 'answer open' }, 'Interrupted, or nothing is known of it since its last test.');
  return h('p', { class: 'answer open' }, 'Ended; the page knows no verdict of it. The list of searches has those of the ledger.');
}

function about(v: Verdict): HTMLElement {
  return facts(['Job', code(v.command)], ['Found', h('span', {}, outcome(v.outcome), ' ', foreign(found(v), 300),
    v.cause ? h('span', { class: 'soft' }, ' (', h('code', {}, 'twinrun factors'), ' says what it is and how it is held still)') : '')],
    ['First difference', v.first ? foreign(v.first, 300) : null], ['Layer', v.layer ? foreign(v.layer) : null],
    ['When', h('span', {}, moment(v.time_ns), ` (${stamp(v.time_ns)})`)],
    ['Runs', v.runs.length ? h('span', {}, ...v.runs.slice(0, 20).flatMap((r, i) => [i ? ', ' : '', runLink(r.id)])) : null]);
}

function timeline(s: Search, known: boolean): HTMLElement[] {
  const tests = [...s.tests].reverse(); // newest first: what one waits for is at the top
  const shown = tests.slice(0, SHOWN);
  return [
    facts(['Command', s.arms || known ? null : code(s.command)], ['Command A', s.arms && code(s.arms[0])], ['Command B', s.arms && code(s.arms[1])],
      ['Began', h('span', {}, moment(s.started_ns), ` (${stamp(s.started_ns)})`)], ['Last news', moment(s.changed_ns)],
      ['Not readable', s.unread ? `${plural(s.unread, 'line')} of its journal` : null]),
    h('details', {}, h('summary', {}, `Plan, and ${plural(s.factors.length, 'factor')} that may be the cause`),
      h('p', {}, names(s.factors), '. ', h('code', {}, 'twinrun factors'), ' says what each is and how it is held still.'),
      h('pre', { class: 'plan' }, ...s.plan.split('\n').slice(0, 100).map(line => plain(line, 300) + '\n'))),
    h('h2', {}, `What was tried (${count(s.hypotheses.length)})`),
    s.hypotheses.length ? lanes(s) : empty('Nothing was tested yet.'),
    h('h2', {}, `Tests, newest first (${count(s.tests_all)})`), h('ol', { class: 'steps' }, ...shown.map(test)),
    ...(shown.length < s.tests_all ? [empty(`${count(shown.length)} of ${plural(s.tests_all, 'test')}.`)] : [])];
}

const whole = (t: Timeline): HTMLElement[] => [answer(t), ...(t.verdict ? [about(t.verdict)] : []),
  ...(t.search ? timeline(t.search, t.verdict !== null) : [h('p', { class: 'card open' }, 'Its journal is not there any more: what it tried cannot be shown.')])];

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
  const known = new Set([id]); // that of the verdict, and that of the search: an event has the latter
  const fill = async () => {
    const body = await get<Timeline>(`searches/${encodeURIComponent(id)}`, {}, signal).then(t => {
      if (t.search) known.add(t.search.id);
      return whole(t);
    }, async (error: unknown) => {
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
        (kind === 'search' && known.has((data as { search: { id: string } }).search.id)) ||
        (kind === 'verdict' && (data as { verdict: Verdict }).verdict.id === id));
      if (mine) void fill().catch(() => undefined);
    },
  };
}

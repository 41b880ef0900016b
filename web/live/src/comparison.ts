// SPDX-License-Identifier: Apache-2.0
/* One comparison: where the runs differ first, why, and how it spread. */

import { get, pages, Refused } from './api';
import { heatmap, plot } from './block';
import type { Compared, ComparedAnswer, Fan, Field, Finding, Grid, Survival } from './compared';
import { code, command, count, facts, figure, foreign, h, link, moment, plain as cut, plural, stamp } from './dom';
import type { View } from './main';
import type { Verdict } from './types';
import { agreed, empty, outcome, runLink, short } from './words';

const FRONTIER = 100; // lines in words

/** Cells as the server packs them: little-endian, whatever this machine is. */
function cells(base64: string): Uint16Array {
  const text = atob(base64);
  return Uint16Array.from({ length: text.length >> 1 }, (_, i) =>
    text.charCodeAt(2 * i) | text.charCodeAt(2 * i + 1) << 8);
}

const plain = (t: string): string => cut(t, 120);
/** The group beside it says the phase; the rank is said where there are several. */
const tensorName = (r: Field['rows'][number], ranks: boolean): string =>
  plain([ranks && r.rank !== null ? `rank ${r.rank}` : '', r.kind, r.name === r.kind ? '' : r.name].filter(t => t).join(' '));

// ---- words

function finding(f: Finding): HTMLElement {
  const role = f.role === 'origin' ? 'here it begins' : f.role === 'carrier' ? 'carries on what came from elsewhere' : 'whether it begins here is not known';
  return facts(
    ['Where', foreign(f.place, 400)],
    ['Role', role],
    ['Operation', f.operation ? foreign(f.operation, 300) : null],
    ['Layer', f.layer ? foreign(f.layer) : null],
    ['Size', f.size ? foreign(f.size) : null]);
}

function answer(c: Compared): HTMLElement[] {
  const v = c.verdict;
  const { compared, differing, differing_exact: exact } = v.steps;
  const many = differing ? `${exact ? '' : 'at least '}${count(differing)} differ`
    : v.outcome === 'same' ? 'none differs' : 'how many differ is not known';
  const word = { same: 'Same', differ: 'They differ', inconclusive: 'Not known' }[v.outcome] ?? v.outcome;
  const extra = v.origins.filter(o => o.place !== v.first?.place);
  return [
    h('p', { class: `answer ${v.outcome === 'differ' ? 'found' : v.outcome === 'same' ? 'clean' : 'open'}` },
      `${word}: `, foreign(v.headline, 300)),
    ...(v.first ? [h('h2', {}, 'First difference'), finding(v.first)] : []),
    facts(
      ['Equal before', v.equal_before ? foreign(v.equal_before, 600) : null],
      ['Then', v.then.length ? foreign(v.then.map(t => `${t.what} ${t.step}`).join(' → '), 600) : null],
      ['Steps', `${count(compared)} compared, ${many}`],
      ['Drift', v.drift_per_step === null ? null : `grows ×${figure(v.drift_per_step)} per step`]),
    ...(extra.length ? [h('details', {}, h('summary', {},
      `${extra.every(o => o.role === 'origin') ? 'Other origins' : 'Other places that may be the first'} (${count(extra.length)})`),
      ...extra.slice(0, 50).map(finding))] : [])];
}

// ---- pictures

function field(f: Field, c: Compared, signal: AbortSignal): HTMLElement[] {
  const cell = cells(f.cells);
  if (!f.rows.length || !f.columns.length)
    return [empty(f.tensors ? 'No tensor has such a name.' : 'Nothing was recorded that could be drawn.')];
  // The contour: in each row the column where it first differs.
  const outlines: [number, number, string][] = [];
  f.rows.forEach((row, r) => {
    const step = row.first;
    const k = step === null ? -1 : f.columns.findIndex(x => x.first <= step && step <= x.last);
    if (step !== null && k >= 0) outlines.push([r, k, `first difference of this row, at step ${step}`]);
  });
  const ranks = new Set(f.rows.map(r => r.rank)).size > 1;
  const merged = f.rows.some(r => r.tensors > 1);
  const head = {
    columns: f.columns.length, rows: f.rows.length,
    row: f.rows.map(r => tensorName(r, ranks) + (r.tensors > 1 ? ` and ${count(r.tensors - 1)} more` : '')),
    group: f.rows.map(r => plain(r.group) + (r.mixed ? ' and others' : '')),
    columnName: 'step', valueName: 'relative distance', outlines, outlineName: 'where a row differs first',
    ...(f.mark ? { markName: 'first difference', markRow: f.mark[0], markColumn: f.mark[1] } : {}),
  };
  const looked = f.columns.some(x => x.steps < x.last - x.first + 1);
  const notes = [
    f.columns.some(x => x.last > x.first) ? `A column is several of ${plural(f.steps, 'step')}; its number is the first.` : '',
    looked ? 'Not every step was looked at.' : '',
    merged ? `A row is several of ${plural(f.tensors_here, 'tensor')}, the worst of which is shown.` : '',
    c.estimated ? 'Distances are estimates, from sketches of the tensors.' : '',
  ].filter(n => n);
  return [heatmap('Steps by tensors.', head, f.columns.map(x => x.first), cell, signal),
    ...(notes.length ? [empty(notes.join(' '))] : [])];
}

function grid(g: Grid, signal: AbortSignal): HTMLElement[] {
  if (!g.rows.length || !g.columns.length) return [];
  const head = { columns: g.columns.length, rows: g.rows.length, row: g.rows.map(r => `rank ${r}`), columnName: 'step',
    valueName: 'relative distance', differsName: 'differs', outlines: g.outlines,
    outlineName: g.known ? 'taken from no other rank' : 'named first',
    arrows: g.arrows, ...(g.mark ? { markName: 'first difference', markRow: g.mark[0], markColumn: g.mark[1] } : {}) };
  const notes = [
    g.rows.length < g.rows_all || g.columns.length < g.steps_all
      ? `${count(g.rows.length)} of ${plural(g.rows_all, 'rank')}, ${count(g.columns.length)} of ${plural(g.steps_all, 'step')}.` : '',
    g.arrows_left ? `${plural(g.arrows_left, 'more arrow')} left out.` : '',
    g.known ? '' : `Which rank was first is not known${g.why ? ': ' + plain(g.why) : '.'}`].filter(n => n);
  const title = g.mark && g.known ? 'Causal frontier: ranks by steps' : 'Ranks by steps';
  return [h('h2', {}, title), empty(gridCaption(g)), heatmap('Ranks by steps.', head, g.columns, cells(g.cells), signal),
    ...(notes.length ? [empty(notes.join(' '))] : []), ...frontier(g)];
}

function gridCaption(g: Grid): string {
  const rows = 'A row is a rank, a column is a step as that rank counts. ';
  if (!g.mark) return `${rows}No rank is named as the first.`;
  return rows + (g.arrows.length
    ? `An arrow is a message, or a call of a collective, that brought what differs from one rank to another; outlined is ${g.known ? 'what nothing brought' : 'what is named first'}.`
    : 'Outlined is the first difference.');
}

/** The outlines and arrows once more as sentences, for who does not see the picture. */
function frontier(g: Grid): HTMLElement[] {
  const at = (row: number, column: number) => `rank ${g.rows[row] ?? '?'}, step ${count(g.columns[column] ?? NaN)}`;
  const list = (items: string[]) => h('ul', {}, ...items.slice(0, FRONTIER).map(t => h('li', {}, foreign(t, 300))),
    items.length > FRONTIER ? h('li', { class: 'soft' }, `${count(items.length - FRONTIER)} more.`) : null);
  const brought = g.outlines.map(([row, column, text]) => `${at(row, column)}: ${text}`);
  const taken = g.arrows.map(([fromRow, fromColumn, row, column, text]) => `${at(row, column)}: ${text} (${at(fromRow, fromColumn)})`);
  if (!taken.length && brought.length < 2) return [];
  return [h('details', { class: 'frontier' }, h('summary', {}, 'The same in words'),
    ...(brought.length ? [h('h3', {}, g.known ? 'Taken from no other rank' : 'Named first'), list(brought)] : []),
    ...(taken.length ? [h('h3', {}, 'Taken from another rank'), list(taken)] : []))];
}

/** What the fan can draw; of the rest it is said that it is there. */
const sizes = (of: Fan['lines'][number]['median']): Float64Array =>
  Float64Array.from(of, x => (typeof x === 'number' ? x : x === 'equal' ? Infinity : NaN));

function fan(f: Fan, first: number | null, signal: AbortSignal): HTMLElement[] {
  const known = f.lines.filter(l => l.median.some(x => typeof x === 'number' && x > 0));
  if (!known.length) return [];
  const arrays: ArrayLike<number>[] = [f.steps];
  for (const l of known) arrays.push(sizes(l.median), sizes(l.low), sizes(l.high));
  return [h('h2', {}, 'How far they drift apart'),
    plot('Relative distance, median and range of each group.', { count: f.steps.length, xName: 'step', yName: 'relative distance',
      style: 'fan', logY: true, join: true, series: known.map(l => ({ name: plain(l.group), interval: true })),
      ...(first === null ? {} : { mark: first, markName: 'first difference' }) }, arrays, signal)];
}

function survival(s: Survival, signal: AbortSignal): HTMLElement[] {
  if (!s.runs || !s.steps) return [];
  // a staircase: what is left just before a step, and from it on
  const x = [0];
  const y = [s.runs];
  for (const [step, gone] of s.left) {
    const before = y[y.length - 1]!;
    x.push(step, step);
    y.push(before, before - gone);
  }
  x.push(Math.max(s.steps - 1, x[x.length - 1]!));
  y.push(y[y.length - 1]!);
  return [h('h2', {}, 'Still identical'),
    plot('Runs that are still in the usual class.', { count: x.length, xName: 'step', yName: 'runs', style: 'lines',
      series: [{ name: 'runs that are still identical' }], fromZero: true }, [x, y], signal),
    ...(s.unsure ? [empty(`Of ${plural(s.unsure, 'run')} it is not known.`)] : [])];
}

function classes(c: NonNullable<Compared['classes']>, answered: ComparedAnswer): HTMLElement[] {
  const names = (places: number[]) => places.slice(0, 20).flatMap((p, i): (Node | string)[] => {
    const run = answered.runs.find(r => r.place === p);
    return run ? [i ? ', ' : '', runLink(run.id)] : [];
  });
  const branch = (parent: number | null, depth: number): HTMLElement | null => {
    const mine = c.map((k, i) => ({ k, i })).filter(({ k }) => k.parent === parent);
    if (!mine.length || depth > 40) return null;
    return h('ul', { class: depth ? 'tree-rows' : 'tree-rows top' }, ...mine.map(({ k, i }) => h('li', {},
      k.parent === null ? '' : h('strong', {}, `leaves at step ${k.step ?? 'not known'}: `),
      `${plural(k.runs.length, 'run')}: `, ...names(k.runs), branch(i, depth + 1))));
  };
  const top = branch(null, 0);
  return top ? [h('h2', {}, `Classes of equal runs (${count(c.length)})`), top] : [];
}

// ---- the view

function about(v: Verdict): HTMLElement {
  return facts(
    ['Compared', h('span', {}, moment(v.time_ns), ` (${stamp(v.time_ns)}) by `, h('code', {}, foreign(`twinrun ${v.verb}`)))],
    ['Job', code(v.command)],
    ['Found then', h('span', {}, outcome(v.outcome), ' ', foreign(v.first, 300))],
    ['Layer', v.layer ? foreign(v.layer) : null],
    ['Cause', v.cause ? foreign(v.cause) : null],
    ['Runs', h('span', {}, ...v.runs.slice(0, 64).flatMap((r, i) =>
      [i ? ' ' : '', runLink(r.id), ' ', r.agreed ? agreed(r.agreed) : h('span', { class: 'soft' }, 'reference')]))]);
}

/** The commands name runs that differ, as the verdict has them. */
function next(v: Verdict, other: string | undefined, differ: boolean): HTMLElement[] {
  const a = v.runs[0]?.id;
  const b = other ?? v.runs.find(r => r.agreed === 'differs')?.id;
  if (!a || !b) return [];
  return [h('h2', {}, 'In a terminal'), command(`twinrun diff ${short(a)} ${short(b)}`),
    ...(differ && !v.cause ? [h('p', {}, 'Name the operation:'), command(`twinrun zoom ${short(a)} ${short(b)}`)] : [])];
}

/** The verdict alone, where the runs cannot be compared again: the API has it in its list. */
async function fromLedger(id: string, signal: AbortSignal): Promise<Verdict | null> {
  let hit: Verdict | null = null;
  await pages<Verdict>('verdicts', 'verdicts', 100000, {}, rows => {
    hit = rows.find(v => v.id === id) ?? null;
    return !hit;
  }, signal);
  return hit;
}

function form(query: URLSearchParams, go: (q: URLSearchParams) => void): HTMLElement {
  const field = (name: string, label: string, type: string) => {
    const input = h('input', { id: `q-${name}`, name, type, value: query.get(name) ?? '', autocomplete: 'off', spellcheck: 'false', min: 0 });
    return { name, input, row: h('div', {}, h('label', { for: `q-${name}` }, label), input) };
  };
  const all = [field('tensor', 'Tensors (glob)', 'text'), field('from', 'From step', 'number'), field('to', 'To step', 'number')];
  const made = h('form', { class: 'choose' }, ...all.map(f => f.row), h('button', { type: 'submit' }, 'Show'));
  made.addEventListener('submit', event => {
    event.preventDefault();
    const q = new URLSearchParams();
    const other = query.get('other');
    if (other) q.set('other', other);
    for (const f of all) if (f.input.value.trim()) q.set(f.name, f.input.value.trim());
    go(q);
  });
  return made;
}

function chooseRun(a: ComparedAnswer, id: string): HTMLElement | null {
  if (a.runs.length < 3) return null;
  return h('p', {}, 'Held against the reference: ', ...a.runs.slice(1, 33).flatMap((r, i): (Node | string)[] => {
    const chosen = h('a', { href: `#/comparison/${id}?other=${i + 1}`, ...(a.other === i + 1 ? { 'aria-current': 'true' } : {}) },
      h('span', { class: 'id' }, short(r.id)));
    return [i ? ' ' : '', chosen, ' ', r.folder ? agreed(r.agreed) : 'removed'];
  }));
}

function pictures(a: ComparedAnswer, id: string, query: URLSearchParams, signal: AbortSignal): HTMLElement[] {
  const c = a.compared;
  const mark = c.verdict.first?.step ?? null;
  const choose = chooseRun(a, id);
  return [...answer(c),
    ...(c.verdict.outcome === 'same' ? [] : [h('p', {}, link(`#/postmortem/${id}?other=${a.other}`,
      'Incident report: since when, how their worlds differ, what to do next'))]),
    h('h2', {}, 'Steps by tensors'), ...(choose ? [choose] : []),
    form(query, q => { location.hash = `#/comparison/${id}?${q}`; }),
    ...field(a.heatmap, c, signal), ...(c.grid ? grid(c.grid, signal) : []), ...fan(c.fan, mark, signal),
    ...(c.classes ? classes(c.classes, a) : []), ...(c.survival ? survival(c.survival, signal) : [])];
}

export async function comparison(
  place: HTMLElement, id: string, query: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const title = h('h1', {}, 'Comparison ', h('span', { class: 'id' }, short(id)));
  const crumbs = h('p', { class: 'soft' }, link('#/', 'Overview'), ' / comparison');
  const parameters: Record<string, string> = {};
  for (const key of ['other', 'from', 'to', 'tensor']) {
    const given = query.get(key);
    if (given) parameters[key] = given;
  }
  const body = h('div', {}, h('p', { class: 'soft', role: 'status' }, 'The runs are compared again. That may take a while.'));
  place.append(crumbs, title, body);
  const load = async () => {
    try {
      const a = await get<ComparedAnswer>(`comparisons/${encodeURIComponent(id)}`, parameters, signal);
      body.replaceChildren(...pictures(a, id, query, signal), h('h2', {}, 'The verdict in the ledger'), about(a.verdict),
        ...next(a.verdict, a.runs[a.other]?.id, a.compared.verdict.outcome === 'differ'));
    } catch (error) {
      if (signal.aborted) throw error;
      if (!(error instanceof Refused) || error.status === 401) throw error;
      const said = h('p', { class: 'card open', role: 'status' }, 'No pictures: ', foreign(error.message, 600));
      const v = await fromLedger(id, signal);
      if (!v) throw error;
      body.replaceChildren(h('p', { class: `answer ${v.outcome === 'differ' ? 'found' : v.outcome === 'same' ? 'clean' : 'open'}` },
        v.first ? foreign(v.first, 300) : outcome(v.outcome)), said, about(v), ...next(v, undefined, v.outcome === 'differ'));
      body.dataset.status = String(error.status);
    }
  };
  const loading = load();
  loading.catch(() => undefined);
  await Promise.race([loading, new Promise(done => setTimeout(done, 400))]);
  loading.catch((error: unknown) => {
    if (signal.aborted) return;
    body.replaceChildren(h('p', { class: 'found', role: 'alert' },
      error instanceof Refused ? error.message : 'The answer is damaged.'), h('p', {}, link('#/', 'To the overview')));
    if (!(error instanceof Refused)) console.error(error);
  });
  return { title: `comparison ${short(id)}` };
}

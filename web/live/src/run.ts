// SPDX-License-Identifier: Apache-2.0
/* One run: what it was, what comparisons found, its files. */

import { get } from './api';
import { bytes, code, command, count, duration, facts, figure, foreign, h, link, plural, stamp } from './dom';
import type { View } from './main';
import type { RunAnswer, Run, Verdict } from './types';
import { agreed, empty, outcome, runLink, runState, short, verdictList, verdictPath } from './words';

const number = (x: number | null | undefined): string | null =>
  x === null || x === undefined ? null : figure(x);

function about(run: Run): HTMLElement {
  const f = run.facts;
  return facts(
    ['Run', h('span', { class: 'id' }, run.id)],
    ['Label', run.label && foreign(run.label)],
    ['Command', code(run.command)],
    ['State', h('span', {}, runState(run.state), run.exit_code ? ` exit code ${run.exit_code}` : '')],
    ['Started', stamp(run.start_ns)],
    ['Took', run.wall_s === null ? null : duration(run.wall_s)],
    ['Host', run.host && foreign(run.host)],
    ['Steps', count(run.steps)],
    ['Records', `${count(run.records)}${run.dropped ? `, and ${count(run.dropped)} lost` : ''}`],
    ['Project', f?.project ? link(`#/incident/${encodeURIComponent(f.project)}`, foreign(f.project)) : null],
    ['Family', f?.family ? foreign(f.family) : null],
    ['Contributor', f?.contributor ? foreign(f.contributor) : null],
    ['Sweep', f?.sweep ? foreign(f.sweep) : null],
    ['Deterministic', f?.deterministic === null || !f ? null : f.deterministic ? 'asked for' : 'not asked for'],
    ['Nondeterministic calls', number(f?.nondeterministic_calls)],
    ['Last loss', number(f?.loss)],
    ['Folder', run.folder_removed ? 'removed: what the ledger has is left' : null],
  );
}

/** The newest comparison that says of this run that it differed, else the newest of all. */
function newest(run: Run, verdicts: Verdict[]): HTMLElement | null {
  const said = (v: Verdict) => v.runs.find(r => r.id === run.id)?.agreed;
  const v = verdicts.find(x => said(x) === 'differs') ?? verdicts[0];
  if (!v) return null;
  const word = said(v);
  const reference = v.runs[0];
  if (!word || !reference)
    return h('p', { class: 'card' }, 'Others were compared with this run: ', outcome(v.outcome), ' ',
      v.first ? foreign(v.first, 300) : '', ' ', link(verdictPath(v), 'Show the comparison'));
  return h('p', { class: 'card' }, agreed(word), ' compared with run ', runLink(reference.id), ': ',
    word === 'differs' && v.first ? foreign(v.first, 300) : '', ' ',
    link(verdictPath(v), word === 'differs' ? 'Show where and why' : 'Show the comparison'));
}

export async function run(
  place: HTMLElement, name: string, _: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const fill = async () => {
    const { run, artifacts, verdicts } = await get<RunAnswer>(`runs/${encodeURIComponent(name)}`, {}, signal);
    const files = h('tbody', {}, ...artifacts.map(a => h('tr', {}, h('td', { class: 'what' }, foreign(a.path, 300)),
      h('td', {}, foreign(a.kind, 40)), h('td', { class: 'n' }, bytes(a.bytes)), h('td', { class: 'id' }, a.sha256.slice(0, 16)))));
    const last = newest(run, verdicts);
    place.replaceChildren(
      h('p', { class: 'soft' }, link('#/runs', 'Runs'), ' / ', short(run.id)),
      h('h1', {}, foreign(run.label || run.facts?.project || run.name || run.command, 120)),
      ...(last ? [last] : []), about(run),
      h('h2', {}, `What comparisons found (${plural(verdicts.length, 'verdict')})`),
      verdicts.length ? verdictList(verdicts, 'Verdicts on this run') : empty('This run was not compared yet.'),
      h('h2', {}, `Files (${count(artifacts.length)})`),
      artifacts.length ? h('details', { open: artifacts.length <= 20 }, h('summary', {}, 'Files and their digests'),
        h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'Files' }, h('table', {}, h('thead', {}, h('tr', {},
          ...['Path', 'Kind', 'Size', 'SHA-256 begins'].map(t => h('th', { scope: 'col' }, t)))), files))) : empty('None is in the ledger.'),
      ...(run.folder_removed ? [] : [h('h2', {}, 'In a terminal'), command(`twinrun show ${short(run.id)}`)]));
    return run;
  };
  const shown = await fill();
  return {
    title: `run ${short(shown.id)}`,
    news(what) {
      const mine = what.some(({ kind, data }) => kind === 'reset' ||
        (kind === 'run' && (data as { run: Run }).run.id === shown.id) ||
        (kind === 'verdict' && (data as { verdict: Verdict }).verdict.runs.some(r => r.id === shown.id)));
      if (mine) void fill().catch(() => undefined);
    },
  };
}

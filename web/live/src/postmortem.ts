// SPDX-License-Identifier: Apache-2.0
/* The incident report of two runs: the answer in a few lines, then the document that one hands on. */

import { get } from './api';
import { count, facts, foreign, h, link, moment, plural } from './dom';
import type { View } from './main';
import { markdown } from './markdown';
import type { Agreed, Verdict } from './types';
import { outcome, runLink, short } from './words';

// What /api/v1/verdicts/ID/postmortem says: src/serve/schemas/postmortem.json.
interface Postmortem {
  verdict: Verdict;
  runs: { id: string; agreed: Agreed; folder: boolean }[];
  other: number;
  outcome: string;
  first_step: number | null;
  world_known: boolean;
  world: { power: string; group: string; what: string; a: string | null; b: string | null }[];
  checks: { time_ns: number; verb: string; outcome: string; first: string; cause: string }[];
  checks_all: number;
  markdown: string;
}

/** The checks that differ and that no "same" interrupts, up to the newest. */
function since(p: Postmortem): HTMLElement | null {
  let begin: number | null = null;
  let agreed: number | null = null;
  for (const c of p.checks) {
    if (c.outcome === 'same') [agreed, begin] = [c.time_ns, null];
    else if (c.outcome === 'differ') begin ??= c.time_ns;
  }
  if (begin === null) return null;
  const before = agreed !== null ? [', the last "same" was ', moment(agreed)]
    : [p.checks.length < p.checks_all ? '; older checks are not shown' : '; no check on record says "same"'];
  return h('span', {}, moment(begin), ...before);
}

function summary(p: Postmortem): HTMLElement[] {
  const [a, b] = [p.runs[0], p.runs[p.other]];
  // a cause that another check found is that of the command; that it is these runs' nobody showed
  const found = p.verdict.cause ? null : [...p.checks].reverse().find(c => c.cause);
  const tone = p.outcome === 'differ' ? 'found' : p.outcome === 'same' ? 'clean' : 'open';
  const said = { differ: 'The two runs differ', same: 'The two runs are the same' }[p.outcome] ?? 'Whether the two runs differ is not known';
  const top = p.world[0];
  return [
    h('p', { class: `answer ${tone}` }, said, p.first_step === null ? '' : ` from step ${count(p.first_step)} on`, '.'),
    facts(
      ['Runs', a && b ? h('span', {}, runLink(a.id), ' and ', runLink(b.id)) : null],
      ['Since', since(p)],
      ['First', p.verdict.first ? foreign(p.verdict.first, 300) : null],
      ['Cause', p.verdict.cause ? foreign(p.verdict.cause, 300) : found
        ? h('span', {}, foreign(found.cause, 300), ', which ', foreign(`twinrun ${found.verb}`, 40), ' showed for this command ', moment(found.time_ns))
        : 'not known yet: twinrun isolate looks for it'],
      ['Their worlds', !p.world_known ? 'how they differ is not known' : top ? h('span', {},
        `${plural(p.world.length, 'difference')}; the most powerful: `, foreign(`${top.group} ${top.what}`, 200)) : 'no difference was recorded'],
      ['On record', p.checks_all ? `${plural(p.checks_all, 'check')} of this command or these runs` : 'no other check']),
    h('p', {}, link(`#/comparison/${p.verdict.id}?other=${p.other}`, 'Show where, in pictures'))];
}

function copy(text: string): HTMLElement {
  const button = h('button', { type: 'button' }, 'Copy the report as Markdown');
  button.addEventListener('click', () => {
    const done = (word: string) => { button.textContent = word; };
    if (!navigator.clipboard) return done('This browser does not let a page copy');
    navigator.clipboard.writeText(text).then(() => done('Copied'), () => done('This browser does not let a page copy'));
    return undefined;
  });
  return h('p', {}, button);
}

export async function postmortem(
  place: HTMLElement, id: string, query: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const other = query.get('other');
  const p = await get<Postmortem>(`verdicts/${encodeURIComponent(id)}/postmortem`, other ? { other } : {}, signal);
  const text = p.markdown.split('\n');
  const body = text[0]?.startsWith('# ') ? text.slice(1).join('\n') : p.markdown; // the view has a title
  place.append(
    h('p', { class: 'soft' }, link('#/', 'Overview'), ' / ', link(`#/comparison/${id}`, 'comparison'), ' / incident report'),
    h('h1', {}, 'Incident report ', h('span', { class: 'id' }, short(id)), ' ', outcome(p.outcome)),
    ...summary(p), copy(p.markdown), h('section', { class: 'told', 'aria-label': 'Incident report' }, ...markdown(body)));
  return { title: `incident report ${short(id)}` };
}

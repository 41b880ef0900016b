// SPDX-License-Identifier: Apache-2.0
/* The latest divergence of a project: what, since when, what was found, what to do next. */

import { get, pages } from './api';
import { command, facts, foreign, h, link, moment, plural, stamp } from './dom';
import { interval } from './overview';
import type { View } from './main';
import type { Indicators, Verdict } from './types';
import { empty, found, outcome, runLink, short, state, verdictList, verdictPath } from './words';

const MOST = 1000;

/** How it went on: the newest divergence's job, from its first divergence after it last agreed. */
interface Story {
  last: Verdict;
  /** The first of the divergences that no agreement interrupts. */
  begin: Verdict;
  times: number;
  /** The agreement before; null: the list has none. */
  agreed: Verdict | null;
  /** What came after the newest divergence, newest first. */
  after: Verdict[];
}

export function story(verdicts: Verdict[]): Story | null {
  const at = verdicts.findIndex(v => v.outcome === 'differ');
  const last = verdicts[at];
  if (!last) return null;
  const same = (v: Verdict) => v.command === last.command;
  const told: Story = { last, begin: last, times: 0, agreed: null, after: verdicts.slice(0, at).filter(same) };
  for (const v of verdicts.slice(at).filter(same)) {
    if (v.outcome === 'same') {
      told.agreed = v;
      break;
    }
    if (v.outcome !== 'differ') continue;
    told.begin = v;
    told.times++;
  }
  return told;
}

function next(v: Verdict): HTMLElement[] {
  const [a, b] = [v.runs[0], v.runs.find(r => r.agreed === 'differs') ?? v.runs[1]];
  const out: HTMLElement[] = [];
  if (a && b)
    out.push(h('p', {}, 'See the difference again, with what to try next:'), command(`twinrun diff ${short(a.id)} ${short(b.id)}`));
  if (a && b && !v.cause)
    out.push(h('p', {}, 'Name the operation:'), command(`twinrun zoom ${short(a.id)} ${short(b.id)}`));
  return out;
}

function tell(s: Story, whole: boolean): HTMLElement[] {
  const over = s.after.find(v => v.outcome === 'same');
  return [
    h('p', { class: `answer ${over ? 'clean' : 'found'}` },
      over ? 'Over: the job agreed again.' : 'Open: the job did not agree since.'),
    facts(
      ['What', foreign(found(s.last), 300)],
      ['Job', h('code', {}, foreign(s.last.command, 2000))],
      ['Since', h('span', {}, moment(s.begin.time_ns), ` (${stamp(s.begin.time_ns)})`,
        s.agreed ? '' : whole ? '; no agreement before it is in the ledger' : '; older verdicts were not read')],
      ['Agreed last', s.agreed ? h('span', {}, link(verdictPath(s.agreed), moment(s.agreed.time_ns))) : null],
      ['How often', plural(s.times, 'comparison that differs', 'comparisons that differ')],
      ['Newest', h('span', {}, outcome(s.last.outcome), ' ', moment(s.last.time_ns))],
      ['Layer', s.last.layer ? foreign(s.last.layer) : null],
      ['Cause', s.last.cause ? foreign(s.last.cause) : 'not known yet'],
      ['Agreed again', over ? h('span', {}, link(verdictPath(over), moment(over.time_ns))) : null],
      ['Runs', h('span', {}, ...s.last.runs.slice(0, 20).flatMap((r, i) => [i ? ', ' : '', runLink(r.id)]))]),
    h('p', {}, link(verdictPath(s.last), 'Show where and why'), ' · ', link(`#/postmortem/${s.last.id}`, 'Incident report')),
    h('h2', {}, 'In a terminal'), ...next(s.last)];
}

export async function incident(
  place: HTMLElement, project: string, _: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const fill = async () => {
    const verdicts: Verdict[] = [];
    const given: Record<string, string> = project ? { project } : {};
    const [{ whole }, all] = await Promise.all([
      pages<Verdict>('verdicts', 'verdicts', MOST, given, rows => void verdicts.push(...rows), signal),
      get<Indicators>('indicators', given, signal).catch(() => null)]);
    const s = story(verdicts.filter(v => v.verb !== 'isolate'));
    const broken = all?.indicators.filter(i => i.state === 'broken') ?? [];
    place.replaceChildren(h('p', { class: 'soft' }, link('#/', 'Overview'), ' / project'),
      h('h1', {}, 'Project ', foreign(project || 'without a name', 100)),
      ...(s ? tell(s, whole) : [h('p', { class: 'answer clean' }, 'No divergence of this project is in the ledger.')]),
      h('h2', {}, 'Broken targets'),
      broken.length ? h('ul', {}, ...broken.map(i => h('li', {}, state(i.state), ` ${i.indicator} ${i.words}`,
        i.interval ? `, between ${interval(i)}` : ''))) : empty('None.'),
      h('h2', {}, 'Comparisons of this project'),
      verdicts.length ? verdictList(verdicts.slice(0, 50), 'Comparisons of this project') : empty('None is in the ledger.'),
      ...(verdicts.length > 50 ? [empty(`The newest 50 of ${plural(verdicts.length, 'comparison')}${whole ? '' : ' or more'}.`)] : []));
  };
  await fill();
  return {
    title: `project ${project.slice(0, 80)}`,
    news: what => {
      if (what.some(m => m.kind === 'verdict' || m.kind === 'reset')) void fill().catch(() => undefined);
    },
  };
}

// SPDX-License-Identifier: Apache-2.0
/* All incidents: those that an Alertmanager is told of, whether one is told or not. */

import { get } from './api';
import { count, duration, foreign, h, link, moment, plural } from './dom';
import type { View } from './main';
import { empty, short } from './words';

/** What /api/v1/incidents says: src/serve/schemas/incidents.json. */
interface Incident {
  run: string;
  reference: string | null;
  kind: 'diverged' | 'unproven';
  severity: 'page' | 'ticket';
  state: 'open' | 'agreed';
  project: string;
  command: string;
  verb: string;
  layer: string;
  first: string;
  cause: string;
  host: string;
  repeats: boolean;
  others: number;
  start_ns: number;
  end_ns: number;
}

interface Incidents {
  lasts_s: number;
  left_out: number;
  incidents: Incident[];
}

const FIRST = 200; // shown before anybody asks for more

type Filter = 'all' | 'open' | 'page';
const WANTED: Record<Filter, [string, (i: Incident) => boolean]> = {
  all: ['All', () => true],
  open: ['Open', i => i.state === 'open'],
  page: ['Those that page', i => i.severity === 'page'],
};

const badge = (tone: string, word: string): HTMLElement => h('span', { class: `badge ${tone}` }, word);

/** --incident-hours is in hours, and so it is said. */
const hours = (s: number): string => (s % 3600 ? duration(s) : `${count(s / 3600)} h`);

/** What is said of the run; where nothing is proven, nothing is said to differ. */
function what(i: Incident): HTMLElement {
  if (i.kind === 'unproven') return h('span', {}, 'not known whether it is the same');
  return i.first ? foreign(i.first, 160) : h('span', {}, 'where is not in the ledger');
}

function row(i: Incident): HTMLElement {
  const tone = i.kind === 'diverged' ? 'found' : 'open';
  return h('li', {}, link(`#/run/${i.run}`,
    h('span', { class: 'line' },
      i.state === 'open' ? badge(tone, i.kind === 'diverged' ? '≠ open' : '? open') : badge('clean', '= agreed again'),
      i.severity === 'page' ? badge(tone, 'pages') : badge('soft', 'ticket'),
      h('strong', {}, what(i)), h('span', { class: 'soft right' }, moment(i.start_ns))),
    h('span', { class: 'line soft' },
      h('span', {}, 'run ', h('span', { class: 'id' }, short(i.run)), i.reference ? ` against ${short(i.reference)}` : '',
        i.others ? ` and ${count(i.others)} more` : '', ', ', foreign(i.project, 80)),
      foreign(`${i.verb} ${i.command}`, 120), i.layer && h('span', {}, foreign(i.layer, 60)),
      i.cause && h('span', {}, 'cause of this command: ', foreign(i.cause, 80)),
      i.host && h('span', {}, 'on ', foreign(i.host, 60)))));
}

/** The answer to the question with which one comes here. It speaks of the listed ones alone. */
function answer(all: Incidents): HTMLElement {
  const open = all.incidents.filter(i => i.state === 'open');
  const unproven = open.filter(i => i.kind === 'unproven').length;
  const within = `of the last ${hours(all.lasts_s)}`;
  const some = all.left_out ? ' of those that are listed' : '';
  if (!all.incidents.length)
    return h('p', { class: 'answer clean' }, `No run is known to have diverged in comparisons ${within}.`);
  if (!open.length) return h('p', { class: 'answer clean' }, `None is open${some}: after each its job agreed again.`);
  const words = `${plural(open.length, 'incident')} ${within} ${open.length === 1 ? 'is' : 'are'} open${some}`;
  return h('p', { class: `answer ${unproven < open.length ? 'found' : 'open'}` },
    unproven ? `${words}; of ${count(unproven)} it is not known whether the run differs.` : `${words}.`);
}

/** For the overview: what is open, in one line that leads to the list. */
export async function openIncidents(signal: AbortSignal): Promise<HTMLElement> {
  const all = await get<Incidents>('incidents', {}, signal);
  const open = all.incidents.filter(i => i.state === 'open');
  const pages = open.filter(i => i.severity === 'page').length;
  return h('p', {}, link('#/incidents', open.length
    ? `${plural(open.length, 'open incident')}${pages ? `, ${count(pages)} of them for the pager` : ''}`
    : 'No open incident'), ` of the last ${hours(all.lasts_s)}${all.left_out ? ', some left out' : ''}.`);
}

const chosen = (query: URLSearchParams): Filter => {
  const given = query.get('show');
  return given === 'open' || given === 'page' ? given : 'all';
};

export async function incidents(
  place: HTMLElement, _: string, query: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const filter = chosen(query);
  let shown = FIRST;
  const fill = async () => {
    const all = await get<Incidents>('incidents', {}, signal);
    const wanted = all.incidents.filter(WANTED[filter][1]);
    const list = h('ul', { class: 'rows', 'aria-label': 'Incidents, newest first' }, ...wanted.slice(0, shown).map(row));
    const more = h('button', { type: 'button' }, 'Show all');
    more.addEventListener('click', () => {
      shown = Infinity;
      list.replaceChildren(...wanted.map(row));
      more.remove();
    });
    place.replaceChildren(h('p', { class: 'soft' }, link('#/', 'Overview'), ' / incidents'), h('h1', {}, 'Incidents'), answer(all),
      h('p', { class: 'line' }, ...(Object.keys(WANTED) as Filter[]).map(f => h('a', {
        href: f === 'all' ? '#/incidents' : `#/incidents?show=${f}`, ...(f === filter ? { 'aria-current': 'true' } : {}),
      }, `${WANTED[f][0]} (${count(all.incidents.filter(WANTED[f][1]).length)})`))),
      wanted.length ? list : empty('None.'), ...(wanted.length > shown ? [more] : []),
      ...(all.left_out ? [empty(`The newest ${count(all.incidents.length)}; ${count(all.left_out)} more are left out.`)] : []),
      empty('An incident begins with the first comparison that says that a run differs, or of repeats of which it cannot be said. It ends when the job agrees again, or leaves the list with time; that it left does not say that it is over.'));
  };
  await fill();
  return {
    title: 'incidents',
    news: what => {
      if (what.some(m => m.kind === 'verdict' || m.kind === 'reset')) void fill().catch(() => undefined);
    },
  };
}

// SPDX-License-Identifier: Apache-2.0
/* What outcomes and states are called, how they look, and the rows that several views show. */

import { ago, foreign, h, link, moment, plain } from './dom';
import type { Agreed, State, Verdict } from './types';

const OUTCOME: Record<string, [string, string]> = {
  same: ['clean', '= same'],
  differ: ['found', '≠ differ'],
  inconclusive: ['open', '? not known'],
  error: ['trouble', '! error'],
};
const AGREED: Record<Agreed, [string, string]> = {
  '': ['soft', 'compared with'],
  agrees: ['clean', '= agrees'],
  differs: ['found', '≠ differs'],
  unknown: ['open', '? not known'],
};
export const STATE: Record<State, [string, string]> = {
  kept: ['clean', '✓ kept'],
  broken: ['found', '✗ broken'],
  'not-known': ['open', '? not known'],
  shown: ['soft', 'no target'],
};

const badge = ([tone, word]: [string, string]) => h('span', { class: `badge ${tone}` }, word);

export const outcome = (word: string): HTMLElement =>
  badge(OUTCOME[word] ?? ['open', plain(word, 40)]);
export const agreed = (word: Agreed): HTMLElement => badge(AGREED[word] ?? AGREED.unknown);
export const state = (word: State): HTMLElement => badge(STATE[word] ?? STATE['not-known']);
export const runState = (word: string): HTMLElement =>
  badge([word === 'ok' ? 'clean' : word === 'running' ? 'open' : 'trouble', plain(word, 40)]);

export const short = (id: string): string => id.slice(0, 8);
export const runLink = (id: string): HTMLElement =>
  link(`#/run/${id}`, h('span', { class: 'id' }, short(id)));

/** Where a verdict is shown: that of `isolate` is a search. */
export const verdictPath = (v: Verdict): string =>
  `#/${v.verb === 'isolate' ? 'search' : 'comparison'}/${v.id}`;

/** What a verdict found, in the ledger's words. */
export function found(v: Verdict): string {
  if (v.verb === 'isolate') return v.cause ? `cause: ${v.cause}` : 'no cause was proven';
  return v.first || (v.outcome === 'differ' ? 'where is not in the ledger' : '');
}

/** Verdicts as a list of links: one Tab stop each, and all of it can be clicked. */
export function verdictList(rows: Verdict[], label: string): HTMLElement {
  const list = h('ul', { class: 'rows', 'aria-label': label });
  for (const v of rows)
    list.append(h('li', {}, link(verdictPath(v),
      h('span', { class: 'line' }, outcome(v.outcome),
        h('strong', {}, foreign(found(v), 160)),
        h('span', { class: 'soft right' }, moment(v.time_ns))),
      h('span', { class: 'line soft' }, foreign(`${v.verb} ${v.command}`, 120),
        v.layer && h('span', {}, foreign(v.layer, 60)),
        v.cause && v.verb !== 'isolate' && h('span', {}, 'cause: ', foreign(v.cause, 80))))));
  return list;
}

export const empty = (text: string): HTMLElement => h('p', { class: 'soft' }, text);

export const since = (ns: number): string => ago(ns);

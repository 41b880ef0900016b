// SPDX-License-Identifier: Apache-2.0
/* Searches for a cause: the list, and one of them. */

import { pages } from './api';
import { h } from './dom';
import type { View } from './main';
import type { Verdict } from './types';
import { empty, verdictList } from './words';

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

export async function search(
  place: HTMLElement, name: string, _: URLSearchParams, signal: AbortSignal
): Promise<View> {
  void signal;
  place.replaceChildren(h('h1', {}, 'Search ' + name));
  return { title: 'search' };
}

// SPDX-License-Identifier: Apache-2.0
/* The list of runs. Ten thousand rows are in memory and a few dozen in the document. */

import { pages } from './api';
import type { Message } from './api';
import { count, duration, foreign, h, moment, plural } from './dom';
import type { View } from './main';
import type { Run, Verdict } from './types';
import { agreed, runState, short } from './words';

const MOST = 10000;
const HEIGHT = 56; // px: .run-row of live.css
const BESIDE = 10; // rows above and below those in view

interface Row {
  run: Run;
  text: string; // what is searched in, in small letters
  agreed: Verdict['runs'][number]['agreed'];
}

const row = (run: Run): Row => ({
  run,
  agreed: '',
  text: [run.id, run.name, run.label, run.command, run.host, run.state, run.facts?.project, run.facts?.family,
    run.facts?.contributor, run.facts?.sweep].join('\n').toLowerCase(),
});

/** The rows that have every word. */
export function matching(rows: Row[], query: string): Row[] {
  const words = query.toLowerCase().split(/\s+/).filter(w => w);
  if (!words.length) return rows;
  const special = new Set(['differs', 'agrees', 'unknown'].filter(w => words.includes('is:' + w)));
  const plain = words.filter(w => !w.startsWith('is:'));
  return rows.filter(r => (!special.size || special.has(r.agreed)) && plain.every(w => r.text.includes(w)));
}

class List {
  readonly box = h('div', { class: 'list', role: 'listbox', tabindex: '0', 'aria-label': 'Runs, newest first' });
  private readonly room = h('div', { class: 'room' });
  private shown: Row[] = [];
  private at = -1;

  constructor() {
    this.box.append(this.room);
    this.box.addEventListener('scroll', () => this.draw(), { passive: true });
    this.box.addEventListener('keydown', e => this.key(e));
    this.box.addEventListener('focus', () => { if (this.at < 0) this.move(0); });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  set(rows: Row[]): void {
    const before = this.shown[this.at]?.run.id;
    this.shown = rows;
    this.at = before ? rows.findIndex(r => r.run.id === before) : -1;
    this.room.style.height = `${rows.length * HEIGHT}px`;
    this.draw();
  }

  private draw(): void {
    const first = Math.max(0, Math.floor(this.box.scrollTop / HEIGHT) - BESIDE);
    const last = Math.min(this.shown.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / HEIGHT) + BESIDE);
    this.room.replaceChildren(...this.shown.slice(first, last).map((r, k) => this.element(r, first + k)));
    if (this.at >= first && this.at < last) this.box.setAttribute('aria-activedescendant', `run-${this.at}`);
    else this.box.removeAttribute('aria-activedescendant');
  }

  private element({ run, agreed: word }: Row, at: number): HTMLElement {
    const item = h('a', { class: 'run-row', role: 'option', id: `run-${at}`, href: `#/run/${run.id}`, tabindex: '-1',
      'aria-selected': String(at === this.at), 'aria-setsize': this.shown.length, 'aria-posinset': at + 1 },
      h('span', { class: 'line' }, h('span', { class: 'id' }, short(run.id)), word && agreed(word), runState(run.state),
        h('strong', { class: 'cut' }, foreign(run.label || run.facts?.project || run.name, 80)),
        h('span', { class: 'right soft' }, moment(run.start_ns))),
      h('span', { class: 'line soft' }, h('span', { class: 'cut' }, foreign(run.command, 160)),
        h('span', { class: 'right' }, plural(run.steps, 'step'), run.wall_s === null ? '' : `, ${duration(run.wall_s)}`)));
    item.style.top = `${at * HEIGHT}px`;
    return item;
  }

  private move(to: number): void {
    if (!this.shown.length) return;
    this.at = Math.min(this.shown.length - 1, Math.max(0, to));
    const top = this.at * HEIGHT;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    if (top + HEIGHT > this.box.scrollTop + this.box.clientHeight)
      this.box.scrollTop = top + HEIGHT - this.box.clientHeight;
    this.draw();
  }

  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / HEIGHT) - 1);
    const to: Record<string, number> = { ArrowDown: this.at + 1, ArrowUp: this.at - 1, PageDown: this.at + page,
      PageUp: this.at - page, Home: 0, End: this.shown.length - 1 };
    const row = this.shown[this.at];
    if (e.key === 'Enter' && row) location.hash = `#/run/${row.run.id}`;
    else if (to[e.key] !== undefined) this.move(to[e.key]!);
    else return;
    e.preventDefault();
  }
}

export async function runs(
  place: HTMLElement, _: string, query: URLSearchParams, signal: AbortSignal
): Promise<View> {
  const find = h('input', { id: 'find', type: 'search', value: query.get('q') ?? '', autocomplete: 'off',
    spellcheck: 'false', 'aria-controls': 'found', placeholder: 'project, command, host, id, is:differs …' });
  const said = h('p', { class: 'soft', role: 'status', id: 'found' });
  const list = new List();
  const rows: Row[] = [];
  const known = new Map<string, Row>();
  const words = new Map<string, Row['agreed']>();
  let whole: boolean | null = null;

  const search = () => {
    const start = performance.now();
    const hit = matching(rows, find.value);
    list.set(hit);
    // what the test of the page reads: the time until the document has the rows
    list.box.dataset.ms = (performance.now() - start).toFixed(2);
    const all = `${plural(rows.length, 'run')}${whole === null ? ' so far' : whole ? '' : ', the newest ones'}`;
    said.textContent = find.value.trim() ? `${count(hit.length)} of ${all}` : `${all}.`;
  };
  const add = (run: Run, first: boolean) => {
    const old = known.get(run.id);
    const made = { ...row(run), agreed: words.get(run.id) ?? old?.agreed ?? '' };
    if (old) Object.assign(old, made);
    else {
      known.set(run.id, made);
      if (first) rows.unshift(made);
      else rows.push(made);
    }
  };
  // The newest verdict that speaks of a run is the one that its row has.
  const hear = (v: Verdict, newest: boolean) => {
    for (const r of v.runs)
      if (r.agreed && (newest || !words.has(r.id))) {
        words.set(r.id, r.agreed);
        const has = known.get(r.id);
        if (has) has.agreed = r.agreed;
      }
  };
  const load = async () => {
    ({ whole } = await pages<Run>('runs', 'runs', MOST, {}, page => {
      page.forEach(r => add(r, false));
      search();
    }, signal));
    search();
    await pages<Verdict>('verdicts', 'verdicts', MOST, {}, page => page.forEach(v => hear(v, false)), signal);
    search();
  };
  find.addEventListener('input', () => {
    search();
    history.replaceState(null, '', find.value ? `#/runs?q=${encodeURIComponent(find.value)}` : '#/runs');
  });
  find.addEventListener('keydown', e => {
    if (e.key !== 'ArrowDown') return;
    e.preventDefault();
    list.box.focus();
  });
  place.append(h('h1', {}, 'Runs'), h('div', { class: 'find' }, h('label', { for: 'find' }, 'Find'), find), said,
    h('p', { class: 'soft small' }, '/ leads to the field, ↓ from there into the list, Enter opens a run.'), list.box);
  let loading = load();
  await Promise.race([loading, new Promise(done => setTimeout(done, 300))]);
  loading.catch((error: unknown) => {
    if (!signal.aborted) said.textContent = error instanceof Error ? error.message : String(error);
  });
  return {
    title: 'runs',
    news(what: Message[]) {
      for (const { kind, data } of what) {
        if (kind === 'run') add((data as { run: Run }).run, true);
        else if (kind === 'verdict') hear((data as { verdict: Verdict }).verdict, true);
        else if (kind === 'reset') {
          loading = loading.catch(() => undefined).then(() => {
            rows.length = 0;
            known.clear();
            words.clear();
            return load();
          });
          loading.catch(() => undefined);
        }
      }
      search();
    },
  };
}

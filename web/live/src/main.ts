// SPDX-License-Identifier: Apache-2.0
/* Routes, the line that says whether the page is live, and the question for a token. */

import './live.css';
import { follow, get, Refused, setToken } from './api';
import type { Message } from './api';
import { h, link } from './dom';
import { comparison } from './comparison';
import { incident } from './incident';
import { incidents } from './incidents';
import { overview } from './overview';
import { postmortem } from './postmortem';
import { run } from './run';
import { runs } from './runs';
import { search, searches } from './search';

/** A view fills its place; what it gives back is told what happens, until the next view begins. */
export interface View {
  title: string;
  /** Something happened. Called at most once in a while, with all that happened since. */
  news?(what: Message[]): void;
}
export type Show = (place: HTMLElement, name: string, query: URLSearchParams, signal: AbortSignal) =>
  Promise<View>;

const routes: Record<string, Show> = { '': overview, runs, run, comparison, searches, search, incident,
  incidents, postmortem };

const main = document.getElementById('main')!;
const live = document.getElementById('live')!;
let view: View | null = null;
let ending = new AbortController();

async function go(focus: boolean): Promise<void> {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const slash = path.indexOf('/');
  const word = slash < 0 ? path : path.slice(0, slash);
  const show = Object.hasOwn(routes, word) ? routes[word] : undefined;
  ending.abort();
  const mine = ending = new AbortController();
  view = null;
  const place = h('div', { class: 'view' });
  try {
    if (!show) throw new Refused(404, 'This page has no such part.');
    const name = slash < 0 ? '' : decodeURIComponent(path.slice(slash + 1));
    const made = await show(place, name, new URLSearchParams(query), mine.signal);
    if (mine.signal.aborted) return;
    view = made;
  } catch (error) {
    if (mine.signal.aborted) return;
    if (!(error instanceof Refused)) console.error(error);
    place.replaceChildren(h('h1', {}, 'This cannot be shown'),
      h('p', { class: 'found' }, error instanceof Refused ? error.message : 'The address or an answer is damaged.'),
      h('p', {}, link('#/', 'To the overview')));
  }
  main.replaceChildren(place);
  document.title = `${view?.title ?? 'not shown'} · twinrun`;
  document.documentElement.dataset.shown = location.hash;
  for (const a of document.querySelectorAll('nav a')) {
    const here = (a.getAttribute('href') ?? '').replace(/^#\/?/, '') === path && !a.classList.contains('brand');
    a.toggleAttribute('aria-current', false);
    if (here) a.setAttribute('aria-current', 'page');
  }
  if (focus) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

// ---- what happens on the server

const REST = 1000; // ms: a burst of news is one
let heap: Message[] = [];
let due = 0;

function take(m: Message): void {
  heap.push(m);
  if (heap.length > 1000) heap = [{ kind: 'reset', data: {} }];
  if (due) return;
  due = window.setTimeout(() => {
    const all = heap;
    heap = [];
    due = 0;
    view?.news?.(all);
  }, REST);
}

function stands(is: boolean, why?: string): void {
  live.className = is ? 'clean' : 'open';
  live.textContent = is ? '● live' : `○ not live${why ? ': ' + why : ''}`;
  document.documentElement.dataset.live = String(is);
}

// ---- the token

function askForToken(): void {
  if (document.getElementById('token')) return;
  const field = h('input', { id: 'token', type: 'password', autocomplete: 'off', required: true });
  const said = h('p', { role: 'alert' });
  const form = h('form', { class: 'card token' },
    h('h2', {}, 'This server wants a token'),
    h('p', {}, 'It is the line in the file of ', h('code', {}, '--token-file'), '. It is kept for this tab alone.'),
    h('label', { for: 'token' }, 'Token'), field, h('button', { type: 'submit' }, 'Go on'), said);
  form.addEventListener('submit', event => {
    event.preventDefault();
    setToken(field.value.trim());
    get('verdicts', { limit: 1 }).then(() => {
      form.remove();
      dispatchEvent(new Event('token-changed'));
      void go(true);
    }, (error: unknown) => {
      const wrong = error instanceof Refused && error.status === 401;
      if (wrong) setToken('');
      said.textContent = wrong ? 'That is not the token.' : String(error instanceof Error ? error.message : error);
      said.className = 'found';
      field.select();
    });
  });
  main.before(form);
  field.focus();
}

addEventListener('token-wanted', askForToken);
addEventListener('hashchange', () => void go(true));
addEventListener('keydown', event => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target instanceof HTMLInputElement) return;
  event.preventDefault();
  const box = document.getElementById('find');
  if (box) box.focus();
  else location.hash = '#/runs';
});
void go(false);
void follow(take, stands);

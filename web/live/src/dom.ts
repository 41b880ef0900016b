// SPDX-License-Identifier: Apache-2.0
/*
 * How the page is built: elements whose text is text. Names, commands and messages come from jobs
 * and may be hostile, so nothing here or elsewhere makes HTML of a string.
 */

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined>;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]
): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  return dress(e, attributes, children);
}

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  return dress(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}

function dress<E extends Element>(e: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null && value !== undefined && value !== false)
      e.setAttribute(name, value === true ? '' : String(value));
  for (const c of children)
    if (c) e.append(c);
  return e;
}

// What a terminal or the direction of writing obeys, and what is not seen at all.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** Foreign text as it may be shown: on one line, nothing in it that is obeyed, cut at `most`. */
export function plain(text: string, most = 200): string {
  const cut = text.length > most;
  // half of a pair of surrogates is no character
  const part = cut ? text.slice(0, most).replace(/[\ud800-\udbff]$/, '') : text;
  const seen = part.replace(UNSEEN, c => `\\u{${c.charCodeAt(0).toString(16)}}`);
  return cut ? `${seen}… (${count(text.length)} characters)` : seen;
}

/** Foreign text as an element that keeps its direction of writing to itself. */
export const foreign = (text: string, most?: number, className = ''): HTMLElement =>
  h('span', { class: `foreign ${className}`.trim() }, plain(text, most));

export const code = (text: string, most = 2000): HTMLElement =>
  h('code', {}, plain(text, most));

export const link = (to: string, ...children: Child[]): HTMLAnchorElement =>
  h('a', { href: to }, ...children);

export const count = (n: number): string => n.toLocaleString('en');

export const plural = (n: number, one: string, many = one + 's'): string =>
  `${count(n)} ${n === 1 ? one : many}`;

/** To three digits; but what is not all is never 100%, and what is not nothing never 0%. */
export function percent(x: number): string {
  if (x === 0 || x === 1) return `${x * 100}%`;
  for (let digits = 1; digits < 6; digits++) {
    const n = Number((x * 100).toFixed(digits));
    if (n !== 100 && n !== 0) return `${n}%`;
  }
  return x > 0.5 ? 'almost 100%' : 'almost 0%';
}

export const figure = (x: number): string =>
  Math.abs(x) >= 1e6 || (x !== 0 && Math.abs(x) < 1e-3) ? x.toExponential(2) : String(+x.toPrecision(4));

export function duration(s: number): string {
  if (s < 60) return `${figure(s)} s`;
  const parts: [number, string][] = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  const first = parts.findIndex(([size]) => s >= size);
  const [big, small] = [parts[first]!, parts[first + 1]];
  const whole = Math.floor(s / big[0]);
  const rest = small ? Math.floor((s - whole * big[0]) / small[0]) : 0;
  return `${whole} ${big[1]}${small && rest ? ` ${rest} ${small[1]}` : ''}`;
}

export function bytes(n: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
  let at = 0;
  for (; n >= 1024 && at < units.length - 1; at++) n /= 1024;
  return `${at ? n.toFixed(1) : n} ${units[at]}`;
}

const utc = (ns: number): string =>
  new Date(ns / 1e6).toISOString().replace('T', ' ').slice(0, 19);

export function ago(ns: number): string {
  const s = Math.round((Date.now() - ns / 1e6) / 1000);
  return s < 0 ? 'in the future' : s < 5 ? 'now' : `${duration(s)} ago`;
}

/** A moment, in words that people read and in a form that programs do. */
export function moment(ns: number): HTMLElement {
  if (!(ns > 0)) return h('span', { class: 'soft' }, 'when is not known');
  return h('time', { datetime: utc(ns).replace(' ', 'T') + 'Z', title: utc(ns) + ' UTC' }, ago(ns));
}

export const stamp = (ns: number): string => (ns > 0 ? utc(ns) + ' UTC' : 'not known');

/** Name and value pairs; pairs without a value are left out. */
export function facts(...pairs: [string, Child][]): HTMLElement {
  const list = h('dl');
  for (const [name, value] of pairs)
    if (value) list.append(h('dt', {}, name), h('dd', {}, value));
  return list;
}

/** A command that can be copied by one button. */
export function command(text: string): HTMLElement {
  const button = h('button', { type: 'button' }, 'Copy');
  button.addEventListener('click', () => {
    const done = (word: string) => { button.textContent = word; };
    if (!navigator.clipboard) return done('Select the text and copy it');
    navigator.clipboard.writeText(text).then(() => done('Copied'), () => done('Select the text and copy it'));
    return undefined;
  });
  return h('div', { class: 'command' }, h('pre', {}, h('code', {}, text)), button);
}

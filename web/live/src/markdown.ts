// SPDX-License-Identifier: Apache-2.0
/*
 * The Markdown of a postmortem as elements: headings, paragraphs, lists, tables and code, and nothing
 * else of Markdown. Whatever a job made stands in code spans; all of it becomes text of an element.
 */

import { command, h, plain } from './dom';
import type { Child } from './dom';

const MOST = 2000; // characters of one span

/** Code spans, **strong** and *emphasis* of one line. */
export function inline(text: string): Child[] {
  const out: Child[] = [];
  const put = (t: string) => {
    for (const part of t.split(/(\*\*[^*]+\*\*|\*[^*]+\*)/)) {
      if (!part) continue;
      const stars = /^(\*+)(.+?)\1$/.exec(part);
      if (!stars) out.push(plain(part.replace(/\\([\\|*_`<>])/g, '$1'), MOST));
      else out.push(h(stars[1] === '**' ? 'strong' : 'em', {}, plain(stars[2] ?? '', MOST)));
    }
  };
  let from = 0;
  for (let at = text.indexOf('`'); at >= 0; at = text.indexOf('`', from)) {
    // as many backticks as begin the code end it
    const fence = /^`+/.exec(text.slice(at))![0];
    let end = at + fence.length;
    for (;;) {
      end = text.indexOf(fence, end);
      if (end < 0 || (text[end + fence.length] !== '`' && text[end - 1] !== '`')) break;
      while (text[end] === '`') end++;
    }
    if (end < 0) break;
    put(text.slice(from, at));
    let code = text.slice(at + fence.length, end);
    if (/^ .*\S.* $/.test(code)) code = code.slice(1, -1);
    out.push(h('code', {}, plain(code, MOST)));
    from = end + fence.length;
  }
  put(text.slice(from));
  return out;
}

/** The cells of a row; a bar in code is written \| there. */
const cells = (row: string): string[] =>
  row.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/).map(c => c.trim().replace(/\\\|/g, '|'));

function table(rows: string[]): HTMLElement {
  const [head = '', , ...body] = rows;
  return h('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': 'Table' }, h('table', { class: 'told' },
    h('thead', {}, h('tr', {}, ...cells(head).map(c => h('th', { scope: 'col' }, ...inline(c))))),
    h('tbody', {}, ...body.map(r => h('tr', {}, ...cells(r).map(c => h('td', {}, ...inline(c))))))));
}

function list(rows: string[]): HTMLElement {
  return h('ul', {}, ...rows.map(r => {
    const task = /^- \[( |x)\] /.exec(r);
    return h('li', {}, ...(task ? [h('span', { 'aria-label': task[1] === 'x' ? 'done' : 'open', role: 'img' }, task[1] === 'x' ? '☑ ' : '☐ '),
      ...inline(r.slice(6))] : inline(r.slice(2))));
  }));
}

/** Its blocks; a heading of the document is one below that of the view. */
export function markdown(text: string): HTMLElement[] {
  const lines = text.split('\n');
  const out: HTMLElement[] = [];
  const run = (fits: (l: string) => boolean, at: number): string[] => {
    let end = at;
    while (end < lines.length && fits(lines[end]!)) end++;
    return lines.slice(at, end);
  };
  for (let i = 0; i < lines.length;) {
    const line = lines[i]!;
    const heading = /^(#{1,3}) (.*)/.exec(line);
    let taken: string[] = [line];
    if (!line.trim()) { /* between blocks */ }
    else if (heading) out.push(h(heading[1]!.length < 3 ? 'h2' : 'h3', {}, ...inline(heading[2]!)));
    else if (line.startsWith('```')) {
      const inside = run(l => !l.startsWith('```'), i + 1);
      taken = [line, ...inside, ''];
      for (const each of inside) if (each.trim()) out.push(command(plain(each, MOST)));
    } else if (line.startsWith('|')) out.push(table(taken = run(l => l.startsWith('|'), i)));
    else if (line.startsWith('- ')) out.push(list(taken = run(l => l.startsWith('- '), i)));
    else out.push(h('p', {}, ...inline((taken = run(l => !!l.trim() && !/^(#|```|\||- )/.test(l), i)).join(' '))));
    i += Math.max(taken.length, 1);
  }
  return out;
}

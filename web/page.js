// SPDX-License-Identifier: Apache-2.0
// @ts-check
/* What is common to all pictures: blocks of data, colours, text, and when to draw again. */

/**
 * A block: u32 length of the header, header (JSON), arrays that begin at multiples of 8 and come in the order in which they are asked for.
 * @param {ArrayBuffer} bytes
 */
const readBlock = bytes => {
  const length = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  let at = 4 + length;
  /**
   * @template T
   * @param {{new (b: ArrayBuffer, at: number, n: number): T, BYTES_PER_ELEMENT: number}} type
   * @param {number} n
   */
  const next = (type, n) => {
    const array = new type(bytes, at, n);
    at += Math.ceil(n * type.BYTES_PER_ELEMENT / 8) * 8;
    return array;
  };
  return { head, next };
};

const css = (/** @type {string} */ name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const rgb = (/** @type {string} */ hex) => {
  const h = hex.length === 4 ? '#' + [...hex.slice(1)].map(c => c + c).join('') : hex;
  return [1, 3, 5].map(i => parseInt(h.slice(i, i + 2), 16));
};

/** A number as people write it; what is exact to 3 digits says no more. */
const number = (/** @type {number} */ x, digits = 4) =>
  x === 0 ? '0' : !Number.isFinite(x) ? String(x) : Math.abs(x) >= 1e-3 && Math.abs(x) < 1e6
    ? String(+x.toPrecision(Math.max(digits, Math.abs(x) >= 1 ? Math.ceil(Math.log10(Math.abs(x) + 1)) : 0)))
    : (+x).toExponential(digits - 1).replace(/\.?0+e/, 'e');

const count = (/** @type {number} */ n) => n.toLocaleString('en');

/**
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 */
const element = (tag, attributes = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
};

/** Puts a text on the clipboard, also where the page may not write there by itself: then by a selection. */
const copyText = async (/** @type {string} */ text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = /** @type {HTMLTextAreaElement} */ (element('textarea', { readonly: '', 'aria-hidden': 'true' }));
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
};

/** Beside every block of text that is meant to be taken along, a button that takes it. */
const addCopyButtons = () => {
  for (const pre of document.querySelectorAll('main pre')) {
    const button = element('button', { type: 'button', class: 'copy', 'aria-label': 'Copy this text' }, 'Copy');
    button.addEventListener('click', async () => {
      button.textContent = await copyText(pre.textContent || '') ? 'Copied' : 'Not copied';
    });
    const around = element('div', { class: 'code' });
    pre.replaceWith(around);
    around.append(pre, button);
  }
};

/** Pictures that draw themselves again when the window, the colours or the paper change. @type {{draw(): void}[]} */
const pictures = [];
const drawAll = () => pictures.forEach(p => p.draw());

const start = async () => {
  addCopyButtons();
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('.draw'))) {
    const fallback = [...place.childNodes];
    place.textContent = '';
    try {
      const data = document.getElementById(place.dataset.block || '');
      const block = readBlock(await globalThis.twinrunUnpack(data));
      const picture = block.head.kind === 'heatmap' ? new Heatmap(place, block) : new Plot(place, block);
      pictures.push(picture);
      Object.assign(place, { picture });
      new ResizeObserver(() => picture.resize()).observe(place);
    } catch (error) {
      place.append(...fallback, element('p', { class: 'soft' }, String(error)));
      console.error(error);
    }
  }
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
  addEventListener('beforeprint', () => { document.documentElement.classList.add('paper'); drawAll(); });
  addEventListener('afterprint', () => { document.documentElement.classList.remove('paper'); drawAll(); });
  document.documentElement.dataset.drawn = String(Math.round(performance.now()));
};

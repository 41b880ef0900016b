// SPDX-License-Identifier: Apache-2.0
// @ts-check
/*
 * A matrix of up to some million cells on one canvas. Each draw visits the cells in view once and writes every pixel once, so no level of
 * detail is kept: what shares a pixel is reduced to the largest code, which is the worst (include/twin/field.h).
 */

const NONE = 0, EQUAL = 1, LEFT_OUT = 2, GAP = 3, DIFFERS = 4, ONE_SIDE = 5, VALUES = 16, NOT_FINITE = 65535;
const DECADES = 40, LEFT_MAX = 280, BOTTOM = 38, TOP = 18, SAMPLES = 256;
const STATE = { [NONE]: 'not recorded', [EQUAL]: 'equal, bit for bit', [LEFT_OUT]: 'differs, but does not count', [GAP]: 'unknown: its record was lost', [DIFFERS]: 'differs, by how much is not known',
  [ONE_SIDE]: 'recorded in one run only', [NOT_FINITE]: 'differs: NaN or infinity' };
const pixel = (/** @type {number[]} */ [r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
const isValue = (/** @type {number} */ code) => code >= VALUES && code < NOT_FINITE;
const decade = (/** @type {number} */ code) => (code - VALUES) / (NOT_FINITE - 1 - VALUES) * 2 * DECADES - DECADES;

class Heatmap {
  /**
   * @param {HTMLElement} place
   * @param {ReturnType<typeof readBlock>} block
   */
  constructor(place, block) {
    const { head, next } = block;
    this.place = place;
    this.head = head;
    this.columns = head.columns;
    this.rows = head.rows;
    this.column = next(Uint32Array, head.columns);
    this.cell = next(Uint16Array, head.columns * head.rows);
    this.overlay = new Overlay(head);
    /** @type {Record<number, string>} */
    this.state = head.differsName === undefined ? STATE : { ...STATE, [DIFFERS]: head.differsName };
    this.view = this.whole();
    /** The cell that is read out: its column and row; null: none. @type {{c: number, r: number} | null} */
    this.cursor = null;
    /** Corners of a box that is being drawn with the mouse. @type {{x0: number, y0: number, x1: number, y1: number} | null} */
    this.box = null;
    this.seen = new Uint32Array(65536);
    this.values = 0;
    this.low = -1; // decades between which the values lie
    this.high = 0;
    this.measure();
    this.area = this.layout();
    this.colours = this.mix();
    this.drawn = false;
    /** @type {{look: string, image: ImageData | null}} */
    this.painted = { look: '', image: null };
    this.canvas = /** @type {HTMLCanvasElement} */ (element('canvas', { class: 'map', tabindex: '0', role: 'application', 'aria-roledescription': 'heatmap',
      'aria-label': `${head.title} ${count(this.rows)} rows by ${count(this.columns)} columns. Arrow keys move from cell to cell and read them out.${this.overlay.label()}` }));
    this.readout = element('p', { class: 'readout', role: 'status' });
    this.legend = element('div', { class: 'legend' });
    this.build();
    this.say();
  }

  whole() { return { c: 0, r: 0, nc: this.columns, nr: this.rows }; }

  /** How many cells of each state there are, and between which decades the values lie. */
  measure() {
    for (const code of this.cell) this.seen[code]++;
    let low = 0, high = 0;
    for (let code = VALUES; code < NOT_FINITE; code++)
      if (this.seen[code]) {
        low = low || code;
        high = code;
        this.values += this.seen[code];
      }
    if (!low) return;
    this.low = Math.floor(decade(low));
    this.high = Math.max(Math.ceil(decade(high)), this.low + 1);
  }

  build() {
    const { head } = this;
    const button = (/** @type {string} */ text, /** @type {() => void} */ act, /** @type {string} */ keys) => {
      const b = element('button', { type: 'button', title: 'key: ' + keys }, text);
      b.addEventListener('click', () => { act(); this.draw(); this.say(); });
      return b;
    };
    this.place.append(this.canvas, this.readout, element('div', { class: 'tools' },
      ...(head.markName === undefined ? [] : [button(head.markName, () => this.visit(head.markColumn, head.markRow), 'f')]),
      button('Next difference', () => this.jump(1), 'n'), button('Previous', () => this.jump(-1), 'p'),
      button('Zoom in', () => this.zoom(0.5), '+'), button('Zoom out', () => this.zoom(2), '−'), button('Whole picture', () => { this.view = this.whole(); }, 'Esc'),
      ...(this.overlay.arrows.length ? [button('Where it came from', () => this.follow(), 'a')] : [])),
    this.legend);
    this.canvas.addEventListener('keydown', e => this.key(e));
    this.canvas.addEventListener('pointermove', e => this.point(e));
    this.canvas.addEventListener('pointerdown', e => this.press(e));
    this.canvas.addEventListener('pointerup', e => this.release(e));
    this.canvas.addEventListener('pointerleave', () => { if (!this.box) this.show(document.activeElement === this.canvas ? this.cursor : null); });
    this.canvas.addEventListener('dblclick', () => { this.view = this.whole(); this.draw(); });
    this.canvas.addEventListener('focus', () => {
      if (!this.cursor) this.cursor = head.markName === undefined ? { c: this.view.c, r: this.view.r } : { c: head.markColumn, r: head.markRow };
      this.draw();
      this.say();
    });
  }

  // ---- where things lie, in device pixels

  layout() {
    const dpr = devicePixelRatio || 1, width = Math.max(240, this.place.clientWidth);
    const left = Math.round(Math.min(LEFT_MAX, width * 0.34)), room = Math.min(560, Math.max(240, innerHeight * 0.7));
    const height = Math.round(Math.min(room, Math.max(48, this.rows * (this.overlay.empty ? 18 : 30))));
    return { dpr, width, height: height + TOP + BOTTOM, x: Math.round(left * dpr), y: Math.round(TOP * dpr), w: Math.round((width - left - 8) * dpr), h: Math.round(height * dpr) };
  }

  /** The pixels of a cell: at least one in each direction. */
  rectOf(/** @type {number} */ c, /** @type {number} */ r) {
    const { x, y, w, h } = this.area, v = this.view;
    const x0 = Math.floor((c - v.c) * w / v.nc), x1 = Math.max(x0 + 1, Math.floor((c + 1 - v.c) * w / v.nc));
    const y0 = Math.floor((r - v.r) * h / v.nr), y1 = Math.max(y0 + 1, Math.floor((r + 1 - v.r) * h / v.nr));
    return { x: x + x0, y: y + y0, w: x1 - x0, h: y1 - y0 };
  }

  cellAt(/** @type {number} */ clientX, /** @type {number} */ clientY) {
    const box = this.canvas.getBoundingClientRect(), { x, y, w, h, dpr } = this.area, v = this.view;
    const c = Math.floor(((clientX - box.left) * dpr - x) / w * v.nc), r = Math.floor(((clientY - box.top) * dpr - y) / h * v.nr);
    return c < 0 || r < 0 || c >= v.nc || r >= v.nr ? null : { c: v.c + c, r: v.r + r };
  }

  // ---- drawing

  resize() {
    if (!this.drawn || this.area.width !== Math.max(240, this.place.clientWidth)) this.draw();
  }

  draw() {
    this.drawn = true;
    this.area = this.layout();
    const { dpr, width, height } = this.area;
    this.canvas.width = Math.round(width * dpr);
    this.canvas.height = Math.round(height * dpr);
    this.canvas.style.width = width + 'px';
    this.canvas.style.height = height + 'px';
    if (css('--ramp') !== this.colours.name) this.colours = this.mix();
    const c = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext('2d'));
    c.putImageData(this.picture(c), this.area.x, this.area.y);
    this.drawSigns(c);
    this.overlay.draw(c, this);
    this.drawAxes(c);
    this.drawCursor(c);
    this.drawLegend();
  }

  /** The cells alone, painted anew only when what they look like may have changed: a cursor that moves changes nothing of them. */
  picture(/** @type {CanvasRenderingContext2D} */ c) {
    const { w, h } = this.area, look = JSON.stringify([this.view, w, h, css('--bg'), css('--ramp')]);
    if (this.painted.look !== look) {
      const image = c.createImageData(w, h);
      this.paint(new Uint32Array(image.data.buffer), w, h);
      this.painted = { look, image };
    }
    return /** @type {ImageData} */ (this.painted.image);
  }

  /** Colours as 32-bit pixels: ramp of values, inks of the patterns, and of each code the colour. */
  mix() {
    const stops = css('--ramp').split(',').map(s => rgb(s.trim()));
    const ramp = Uint32Array.from({ length: SAMPLES }, (_, i) => {
      const at = i / (SAMPLES - 1) * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(at));
      return pixel([0, 1, 2].map(j => Math.round(stops[k][j] + (stops[k + 1][j] - stops[k][j]) * (at - k))));
    });
    const ink = { none: pixel(rgb(css('--none'))), hatch: pixel(rgb(css('--hatch'))), equal: pixel(rgb(css('--equal'))), mid: ramp[SAMPLES / 2], unmeasured: pixel(rgb(css('--unmeasured'))),
      far: ramp[SAMPLES - 1], paper: pixel(rgb(css('--bg'))) };
    const pen = new Uint32Array(65536);
    for (let code = VALUES; code < NOT_FINITE; code++) {
      const share = (decade(code) - this.low) / (this.high - this.low);
      if (share >= 0 && share <= 1) pen[code] = ramp[Math.round(share * (SAMPLES - 1))];
    }
    return { name: css('--ramp'), ramp, ink, pen };
  }

  /** What shares a pixel becomes the largest code. */
  reduce(/** @type {number} */ nx, /** @type {number} */ ny) {
    const { c, r, nc, nr } = this.view, out = new Uint16Array(nx * ny), toX = new Uint32Array(nc);
    for (let i = 0; i < nc; i++) toX[i] = Math.floor(i * nx / nc);
    for (let j = 0; j < nr; j++) {
      const from = (r + j) * this.columns + c, to = Math.floor(j * ny / nr) * nx;
      for (let i = 0; i < nc; i++) {
        const code = this.cell[from + i], at = to + toX[i];
        if (code > out[at]) out[at] = code;
      }
    }
    return out;
  }

  paint(/** @type {Uint32Array} */ pixels, /** @type {number} */ w, /** @type {number} */ h) {
    const nx = Math.min(w, this.view.nc), ny = Math.min(h, this.view.nr), code = this.reduce(nx, ny);
    const { pen } = this.colours, toX = new Uint32Array(w), toY = new Uint32Array(h); // the same borders as rectOf
    for (let i = 0; i < nx; i++) toX.fill(i, Math.floor(i * w / nx), Math.floor((i + 1) * w / nx));
    for (let j = 0; j < ny; j++) toY.fill(j, Math.floor(j * h / ny), Math.floor((j + 1) * h / ny));
    for (let y = 0; y < h; y++) {
      const row = toY[y] * nx;
      for (let x = 0; x < w; x++) {
        const k = code[row + toX[x]];
        pixels[y * w + x] = isValue(k) ? pen[k] : this.pattern(k, x, y);
      }
    }
  }

  /** Every state has a pattern of its own: the eye needs no hue to tell them apart. */
  pattern(/** @type {number} */ state, /** @type {number} */ x, /** @type {number} */ y) {
    const { ink } = this.colours, s = Math.max(1, Math.round(this.area.dpr));
    const a = Math.floor(x / s), b = Math.floor(y / s);
    switch (state) {
      case EQUAL: return ink.equal;
      case LEFT_OUT: return b % 4 === 0 ? ink.hatch : ink.equal;                                 // level stripes
      case GAP: return (a + b) % 6 === 0 || (a - b + 6000000) % 6 === 0 ? ink.hatch : ink.none; // crossed
      case DIFFERS: return a % 4 === 0 && b % 4 === 0 ? ink.paper : ink.unmeasured;              // dotted
      case ONE_SIDE: return a % 4 < 2 ? ink.mid : ink.equal;                                    // upright stripes
      case NOT_FINITE: return (a >> 2) + (b >> 2) & 1 ? ink.far : ink.paper;                    // chequered
      default: return (a + b) % 6 === 0 ? ink.hatch : ink.none;                                 // hatched
    }
  }

  /** Large cells say what they are. */
  drawSigns(/** @type {CanvasRenderingContext2D} */ c) {
    const { dpr, w, h } = this.area, v = this.view, size = Math.min(w / v.nc, h / v.nr) / dpr;
    if (size < 10 || v.nc * v.nr > 4000) return;
    c.font = `${Math.min(12, size * 0.8) * dpr}px system-ui, sans-serif`;
    c.textAlign = 'center';
    c.textBaseline = 'middle';
    c.fillStyle = css('--soft');
    for (let r = v.r; r < v.r + v.nr; r++)
      for (let k = v.c; k < v.c + v.nc; k++)
        if (this.cell[r * this.columns + k] === EQUAL) {
          const at = this.rectOf(k, r);
          c.fillText('=', at.x + at.w / 2, at.y + at.h / 2);
        }
  }

  drawAxes(/** @type {CanvasRenderingContext2D} */ c) {
    const { dpr, x, y, w, h } = this.area, v = this.view, font = `px system-ui, -apple-system, sans-serif`;
    c.strokeStyle = css('--soft');
    c.lineWidth = 1;
    c.strokeRect(x - 0.5, y - 0.5, w + 1, h + 1);
    c.fillStyle = css('--soft');
    c.font = 12 * dpr + font;
    c.textBaseline = 'top';
    c.textAlign = 'center';
    for (const k of this.ticks(Math.floor(w / dpr / 80))) {
      const at = this.rectOf(k, v.r), mid = at.x + at.w / 2;
      c.fillRect(Math.round(mid), y + h, 1, 4 * dpr);
      c.textAlign = mid > x + w - 20 * dpr ? 'right' : 'center';
      c.fillText(String(this.column[k]), mid, y + h + 6 * dpr);
    }
    c.textAlign = 'center';
    c.fillText(this.head.columnName, x + w / 2, y + h + 21 * dpr);
    this.drawRowNames(c);
    if (this.head.markName !== undefined) this.drawMark(c);
  }

  /** Columns in view whose numbers are round, at most n of them or so; the first where none is. */
  ticks(/** @type {number} */ n) {
    const { c, nc } = this.view, span = this.column[c + nc - 1] - this.column[c] + 1, out = [];
    const least = Math.max(1, span / Math.max(1, n)), power = 10 ** Math.floor(Math.log10(least));
    const by = [1, 2, 5, 10].map(m => m * power).find(m => m >= least) || 1;
    for (let k = c, next = -1; k < c + nc; k++) // of sampled steps the first behind a round one
      if (this.column[k] >= next) {
        if (this.column[k] % by === 0) out.push(k);
        next = (Math.floor(this.column[k] / by) + (this.column[k] % by === 0 ? 1 : 0)) * by || by;
      }
    return out.length ? out : [c];
  }

  /** As many names as have room, each beside the middle of its row; a name that is too long loses its beginning, which is the same for many. */
  drawRowNames(/** @type {CanvasRenderingContext2D} */ c) {
    const { dpr, x, y, h } = this.area, v = this.view, step = Math.max(1, Math.ceil(v.nr * 13 * dpr / h));
    c.textAlign = 'right';
    c.textBaseline = 'middle';
    c.font = 11 * dpr + 'px system-ui, -apple-system, sans-serif';
    const group = this.head.group, wide = group ? this.drawGroups(c, group) : 0;
    c.textAlign = 'right';
    c.fillStyle = css('--fg');
    for (let r = v.r; r < v.r + v.nr; r += step) {
      const at = this.rectOf(v.c, r);
      c.fillText(this.fit(c, this.head.row[r], x - wide - 12 * dpr), x - 7 * dpr, Math.max(at.y + at.h / 2, y + 5 * dpr));
    }
  }

  /** The groups' names at the left edge, each at its first row, with a line above. Returns the room that they take. */
  drawGroups(/** @type {CanvasRenderingContext2D} */ c, /** @type {string[]} */ group) {
    const { dpr, x, y } = this.area, v = this.view;
    const widest = (/** @type {string[]} */ names) => Math.max(...[...new Set(names.slice(v.r, v.r + v.nr))].slice(0, 200).map(g => c.measureText(g).width));
    /** Half of the room, and what the rows' names leave of theirs. */
    const wide = Math.min(x - Math.min(x * 0.5, widest(this.head.row) + 16 * dpr), widest(group) + 8 * dpr);
    let free = 0; // below the name before
    c.textAlign = 'left';
    c.fillStyle = css('--soft');
    for (let r = v.r; r < v.r + v.nr; r++) {
      if (r > v.r && group[r] === group[r - 1]) continue;
      const top = this.rectOf(v.c, r).y, mid = Math.max(top + 7 * dpr, y + 5 * dpr);
      if (r > v.r) c.fillRect(0, top, x - 1, 1);
      if (mid - 6 * dpr < free) continue;
      c.fillText(this.fitGroup(c, group[r], wide - 4 * dpr), 0, mid);
      free = mid + 6 * dpr;
    }
    return wide;
  }

  /** Of a group the rank comes first: cut off, it would leave equal names for all ranks. */
  fitGroup(/** @type {CanvasRenderingContext2D} */ c, /** @type {string} */ text, /** @type {number} */ room) {
    const rank = /^rank (\d+), /.exec(text);
    if (!rank || c.measureText(text).width <= room) return this.fit(c, text, room);
    const short = `r${rank[1]} `;
    return short + this.fit(c, text.slice(rank[0].length), room - c.measureText(short).width);
  }

  /** What has no room loses its middle, not its end: `0.weight.buffer` and `3.weight.buffer` end alike. */
  fit(/** @type {CanvasRenderingContext2D} */ c, /** @type {string} */ text, /** @type {number} */ room) {
    if (c.measureText(text).width <= room) return text;
    const all = [...text], ends = (/** @type {number} */ n) => all.slice(0, Math.ceil(n / 2)).join('') + '…' + all.slice(all.length - Math.floor(n / 2)).join('');
    let low = 0, high = Math.min(all.length - 1, 120); // the most letters that have room
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (c.measureText(ends(mid)).width <= room) low = mid; else high = mid - 1;
    }
    return ends(low);
  }

  drawMark(/** @type {CanvasRenderingContext2D} */ c) {
    const { head, view: v } = this, { dpr, x, y, w } = this.area;
    if (head.markColumn < v.c || head.markColumn >= v.c + v.nc) return;
    const at = this.rectOf(head.markColumn, v.r), mid = at.x + at.w / 2, right = mid > x + w / 2;
    c.fillStyle = css('--found');
    c.beginPath();
    c.moveTo(mid, y - 1);
    c.lineTo(mid - 5 * dpr, y - 7 * dpr);
    c.lineTo(mid + 5 * dpr, y - 7 * dpr);
    c.fill();
    c.font = 12 * dpr + 'px system-ui, sans-serif';
    c.textBaseline = 'bottom';
    c.textAlign = right ? 'right' : 'left';
    c.fillText(`${head.markName}: ${head.columnName} ${this.column[head.markColumn]}`, mid + (right ? -8 : 8) * dpr, y - 2 * dpr);
    if (head.markRow >= v.r && head.markRow < v.r + v.nr) {
      const m = this.rectOf(head.markColumn, head.markRow).y + this.rectOf(head.markColumn, head.markRow).h / 2;
      c.beginPath();
      c.moveTo(x - 1, m);
      c.lineTo(x - 6 * dpr, m - 4 * dpr);
      c.lineTo(x - 6 * dpr, m + 4 * dpr);
      c.fill();
    }
  }

  drawCursor(/** @type {CanvasRenderingContext2D} */ c) {
    const v = this.view, k = this.cursor, { dpr } = this.area;
    if (this.box) {
      const b = this.box;
      c.strokeStyle = css('--focus');
      c.lineWidth = 1.5 * dpr;
      c.strokeRect(Math.min(b.x0, b.x1), Math.min(b.y0, b.y1), Math.abs(b.x1 - b.x0), Math.abs(b.y1 - b.y0));
    }
    if (!k || document.activeElement !== this.canvas || k.c < v.c || k.c >= v.c + v.nc || k.r < v.r || k.r >= v.r + v.nr) return;
    const at = this.rectOf(k.c, k.r), grow = Math.max(0, (8 * dpr - Math.min(at.w, at.h)) / 2); // small cells get a frame that is seen
    for (const [colour, wide] of /** @type {[string, number][]} */ ([[css('--bg'), 4], [css('--focus'), 2]])) {
      c.strokeStyle = colour;
      c.lineWidth = wide * dpr;
      c.strokeRect(at.x - grow, at.y - grow, at.w + 2 * grow, at.h + 2 * grow);
    }
  }

  drawLegend() {
    const dpr = this.area.dpr, parts = [];
    const blank = (/** @type {number} */ wide) => {
      const canvas = /** @type {HTMLCanvasElement} */ (element('canvas', { 'aria-hidden': 'true' })), w = Math.round(wide * dpr), h = Math.round(14 * dpr);
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = wide + 'px';
      canvas.style.height = '14px';
      return { canvas, w, h, c: /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d')) };
    };
    const swatch = (/** @type {number} */ wide, /** @type {(x: number, y: number, w: number) => number} */ colour) => {
      const { canvas, w, h, c } = blank(wide), image = c.createImageData(w, h), p = new Uint32Array(image.data.buffer);
      for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) p[y * w + x] = colour(x, y, w);
      c.putImageData(image, 0, 0);
      return canvas;
    };
    for (const state of [EQUAL, DIFFERS, ONE_SIDE, NOT_FINITE, LEFT_OUT, GAP, NONE])
      if (this.seen[state])
        parts.push(element('span', {}, swatch(22, (x, y) => this.pattern(state, x, y)), `${this.state[state]}: ${count(this.seen[state])}`));
    if (this.values) {
      const at = (/** @type {number} */ x, /** @type {number} */ w) => this.colours.ramp[Math.floor(x / w * SAMPLES)];
      parts.splice(this.seen[EQUAL] ? 1 : 0, 0, element('span', {}, `${this.head.valueName} 1e${this.low} `, swatch(120, (x, _, w) => at(x, w)), `1e${this.high}: ${count(this.values)}`));
    }
    for (const [text, draw] of this.overlay.samples()) {
      const { canvas, w, h, c } = blank(30);
      draw(c, w, h, dpr);
      parts.push(element('span', {}, canvas, text));
    }
    this.legend.replaceChildren(...parts);
  }

  // ---- moving about

  show(/** @type {{c: number, r: number} | null} */ cell) {
    if (cell) {
      const code = this.cell[cell.r * this.columns + cell.c], group = this.head.group ? this.head.group[cell.r] + ' · ' : '';
      this.readout.textContent = `${this.head.columnName} ${this.column[cell.c]} · ${group}${this.head.row[cell.r]}: ` +
        (isValue(code) ? `differs, ${this.head.valueName} ${number(10 ** decade(code), 2)}` : this.state[code] || 'unknown') + this.overlay.said(cell.r, cell.c);
    } else {
      this.readout.textContent = 'Point at a cell, or focus the picture: arrow keys move (Shift: by 10), n and p go to the next and previous difference, + and − zoom, Esc shows all. Drag a box to zoom into it.';
    }
  }

  say() { this.show(document.activeElement === this.canvas || this.cursor ? this.cursor : null); }

  /** Makes a cell the current one and brings it into view. */
  visit(/** @type {number} */ c, /** @type {number} */ r) {
    const v = this.view;
    this.cursor = { c: Math.min(this.columns - 1, Math.max(0, c)), r: Math.min(this.rows - 1, Math.max(0, r)) };
    const into = (/** @type {number} */ from, /** @type {number} */ n, /** @type {number} */ k) => k < from ? k : k >= from + n ? k - n + 1 : from;
    v.c = into(v.c, v.nc, this.cursor.c);
    v.r = into(v.r, v.nr, this.cursor.r);
    this.canvas.focus({ preventScroll: true });
  }

  /** To the next cell that differs, step by step and in a step from the first row on. */
  jump(/** @type {number} */ way) {
    const all = this.columns * this.rows, from = this.cursor ? this.cursor.c * this.rows + this.cursor.r : way > 0 ? -1 : all;
    for (let at = from + way; at >= 0 && at < all; at += way) {
      const c = Math.floor(at / this.rows), r = at % this.rows;
      if (this.cell[r * this.columns + c] >= DIFFERS) return this.visit(c, r);
    }
    if (this.cursor) this.visit(this.cursor.c, this.cursor.r);
  }

  /** To the cell from which an arrow leads to the current one. */
  follow() {
    const at = this.cursor && this.overlay.source(this.cursor.r, this.cursor.c);
    if (at) this.visit(at.c, at.r);
    else if (this.cursor) this.visit(this.cursor.c, this.cursor.r);
  }

  zoom(/** @type {number} */ factor) {
    const v = this.view, k = this.cursor || { c: v.c + v.nc / 2, r: v.r + v.nr / 2 };
    const part = (/** @type {number} */ from, /** @type {number} */ n, /** @type {number} */ at, /** @type {number} */ all, /** @type {number} */ least) => {
      const m = Math.min(all, Math.max(Math.min(least, all), Math.round(n * factor)));
      return [Math.min(all - m, Math.max(0, Math.round(at - (at - from) * m / n))), m];
    };
    const [c, nc] = part(v.c, v.nc, k.c, this.columns, 8), [r, nr] = part(v.r, v.nr, k.r, this.rows, 4);
    this.view = { c, r, nc, nr };
  }

  key(/** @type {KeyboardEvent} */ e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const by = e.shiftKey ? 10 : 1, k = this.cursor || { c: 0, r: 0 }, { head } = this;
    /** @type {Record<string, () => void>} */
    const acts = { ArrowLeft: () => this.visit(k.c - by, k.r), ArrowRight: () => this.visit(k.c + by, k.r), ArrowUp: () => this.visit(k.c, k.r - by), ArrowDown: () => this.visit(k.c, k.r + by),
      Home: () => this.visit(0, k.r), End: () => this.visit(this.columns - 1, k.r), PageUp: () => this.visit(k.c, k.r - 20), PageDown: () => this.visit(k.c, k.r + 20),
      n: () => this.jump(1), p: () => this.jump(-1), a: () => this.follow(), f: () => { if (head.markName !== undefined) this.visit(head.markColumn, head.markRow); },
      '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), Escape: () => this.escape() };
    const act = acts[e.key];
    if (!act) return;
    e.preventDefault();
    act();
    this.draw();
    this.say();
  }

  /** First back to the whole picture, then out of it. */
  escape() {
    const v = this.view;
    if (v.nc < this.columns || v.nr < this.rows) this.view = this.whole();
    else {
      this.cursor = null;
      this.canvas.blur();
    }
  }

  at(/** @type {PointerEvent} */ e) {
    const box = this.canvas.getBoundingClientRect(), { dpr } = this.area;
    return { x: (e.clientX - box.left) * dpr, y: (e.clientY - box.top) * dpr };
  }

  press(/** @type {PointerEvent} */ e) {
    if (e.button !== 0 || !this.cellAt(e.clientX, e.clientY)) return;
    const { x, y } = this.at(e);
    this.box = { x0: x, y0: y, x1: x, y1: y };
    this.canvas.setPointerCapture(e.pointerId);
  }

  point(/** @type {PointerEvent} */ e) {
    if (this.box) {
      const { x, y } = this.at(e);
      Object.assign(this.box, { x1: x, y1: y });
      this.draw();
    } else {
      this.show(this.cellAt(e.clientX, e.clientY) || (document.activeElement === this.canvas ? this.cursor : null));
    }
  }

  release(/** @type {PointerEvent} */ e) {
    const b = this.box, v = this.view, { dpr, x, y, w, h } = this.area;
    this.box = null;
    if (!b) return;
    if (Math.abs(b.x1 - b.x0) < 6 * dpr || Math.abs(b.y1 - b.y0) < 6 * dpr) {
      const cell = this.cellAt(e.clientX, e.clientY);
      if (cell) this.visit(cell.c, cell.r);
    } else {
      const span = (/** @type {number} */ p, /** @type {number} */ q, /** @type {number} */ wide, /** @type {number} */ from, /** @type {number} */ n) => {
        const low = Math.max(0, Math.floor(Math.min(p, q) / wide * n)), high = Math.min(n, Math.ceil(Math.max(p, q) / wide * n));
        return [from + low, Math.max(1, high - low)];
      };
      const [c, nc] = span(b.x0 - x, b.x1 - x, w, v.c, v.nc), [r, nr] = span(b.y0 - y, b.y1 - y, h, v.r, v.nr);
      this.view = { c, r, nc, nr };
    }
    this.draw();
    this.say();
  }
}

// SPDX-License-Identifier: Apache-2.0
// @ts-check
/*
 * What stands above the cells of a heatmap: outlines around some of them, and arrows from one to another. The block's header lists both:
 * outlines [row, column, text], arrows [from row, from column, to row, to column, text].
 */

class Overlay {
  /** @param {any} head */
  constructor(head) {
    /** @type {[number, number, string][]} */
    this.outlines = head.outlines || [];
    /** @type {[number, number, number, number, string][]} */
    this.arrows = head.arrows || [];
    /** @type {string} */
    this.outlineName = head.outlineName;
    this.rowName = (/** @type {number} */ r) => head.row[r];
  }

  get empty() { return this.outlines.length + this.arrows.length === 0; }

  /** What is said of a cell, behind its state; '' for most. */
  said(/** @type {number} */ r, /** @type {number} */ c) {
    const texts = this.outlines.filter(o => o[0] === r && o[1] === c).map(o => o[2]);
    texts.push(...this.arrows.filter(a => a[2] === r && a[3] === c).map(a => a[4]));
    const onward = this.arrows.filter(a => a[0] === r && a[1] === c).map(a => this.rowName(a[2]));
    if (onward.length) texts.push('from here on to ' + onward.slice(0, 8).join(', ') + (onward.length > 8 ? ` and ${count(onward.length - 8)} more` : ''));
    return texts.map(t => ' · ' + t).join('');
  }

  /** The cell that the arrow to this one comes from; null: none does. */
  source(/** @type {number} */ r, /** @type {number} */ c) {
    const arrow = this.arrows.find(a => a[2] === r && a[3] === c);
    return arrow ? { r: arrow[0], c: arrow[1] } : null;
  }

  /** A sentence for those who do not see them. */
  label() {
    if (this.empty) return '';
    const named = this.outlines.slice(0, 8).map(o => this.rowName(o[0])).join(', ');
    return ` ${count(this.outlines.length)} outlined${named ? ' (' + named + ')' : ''}, ${count(this.arrows.length)} arrow${this.arrows.length === 1 ? '' : 's'}; a goes to where an arrow comes from.`;
  }

  /**
   * @param {CanvasRenderingContext2D} c
   * @param {{area: any, rectOf(c: number, r: number): {x: number, y: number, w: number, h: number}}} map
   */
  draw(c, map) {
    const { dpr, x, y, w, h } = map.area;
    c.save();
    c.beginPath();
    c.rect(x, y, w, h);
    c.clip();
    for (const [r, k] of this.outlines) {
      const at = map.rectOf(k, r), grow = Math.max(0, (10 * dpr - Math.min(at.w, at.h)) / 2); // small cells get a frame that is seen
      for (const [colour, wide] of /** @type {[string, number][]} */ ([[css('--bg'), 5], [css('--found'), 2.5]])) {
        c.strokeStyle = colour;
        c.lineWidth = wide * dpr;
        c.strokeRect(at.x - grow + dpr, at.y - grow + dpr, at.w + 2 * grow - 2 * dpr, at.h + 2 * grow - 2 * dpr);
      }
    }
    for (const [r0, c0, r1, c1] of this.arrows) this.arrow(c, map.rectOf(c0, r0), map.rectOf(c1, r1), map.area);
    c.restore();
  }

  /** From the middle of a cell to the middle of another; within one column it makes a bow to the right, so that arrows do not hide each other. */
  arrow(/** @type {CanvasRenderingContext2D} */ c, /** @type {any} */ from, /** @type {any} */ to, /** @type {any} */ area) {
    const { dpr, x, w } = area, middle = (/** @type {any} */ at) => ({ x: at.x + at.w / 2, y: at.y + at.h / 2 });
    const a = middle(from), b = middle(to), bow = Math.abs(a.x - b.x) < 12 * dpr ? Math.min(10 * dpr + Math.abs(b.y - a.y) / 3, 60 * dpr) : 0;
    const way = a.x + bow > x + w - 4 * dpr ? -1 : 1, bend = { x: (a.x + b.x) / 2 + way * bow, y: (a.y + b.y) / 2 };
    const turn = Math.atan2(b.y - bend.y, b.x - bend.x), tip = 7 * dpr;
    for (const [colour, wide] of /** @type {[string, number][]} */ ([[css('--bg'), 4], [css('--trunk'), 1.8]])) {
      c.strokeStyle = c.fillStyle = colour;
      c.lineWidth = wide * dpr;
      c.beginPath();
      c.moveTo(a.x, a.y);
      c.quadraticCurveTo(bend.x, bend.y, b.x - Math.cos(turn) * tip, b.y - Math.sin(turn) * tip);
      c.stroke();
      c.beginPath();
      c.moveTo(b.x, b.y);
      for (const side of [0.45, -0.45]) c.lineTo(b.x - Math.cos(turn + side) * tip * 1.4, b.y - Math.sin(turn + side) * tip * 1.4);
      c.fill();
      c.beginPath();
      c.arc(a.x, a.y, 2.2 * dpr, 0, 7);
      c.fill();
    }
  }

  /** Samples for the legend: what an outline and an arrow look like. @returns {[string, (c: CanvasRenderingContext2D, w: number, h: number, dpr: number) => void][]} */
  samples() {
    /** @type {[string, (c: CanvasRenderingContext2D, w: number, h: number, dpr: number) => void][]} */
    const out = [];
    if (this.outlines.length)
      out.push([`outlined: ${this.outlineName}: ${count(this.outlines.length)}`, (c, w, h, dpr) => {
        c.strokeStyle = css('--found');
        c.lineWidth = 2.5 * dpr;
        c.strokeRect(2 * dpr, 2 * dpr, w - 4 * dpr, h - 4 * dpr);
      }]);
    if (this.arrows.length)
      out.push([`taken from another rank: ${count(this.arrows.length)}`, (c, w, h, dpr) => {
        const at = (/** @type {number} */ x) => ({ x, y: 0, w: 0, h });
        this.arrow(c, at(4 * dpr), at(w - 3 * dpr), { dpr, x: 0, w: w * 4 });
      }]);
    return out;
  }
}

// SPDX-License-Identifier: Apache-2.0
// @ts-check
/* Series over a common x, by uPlot; around it a legend of buttons, and a read-out for keyboard and screen reader. */

const HEIGHT = 240;
const WHOLE = Array.from({ length: 28 }, (_, i) => [1, 2, 5][i % 3] * 10 ** Math.floor(i / 3));
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]]; // with the seven colours, no two of 28 lines look alike

class Plot {
  /**
   * @param {HTMLElement} place
   * @param {ReturnType<typeof readBlock>} block
   */
  constructor(place, block) {
    const { head, next } = block;
    this.place = place;
    this.head = head;
    this.at = -1;
    /** For uPlot null breaks a line, and undefined does not. */
    const clean = (/** @type {Float64Array} */ a, /** @type {boolean} */ log) =>
      Array.from(a, y => Number.isFinite(y) && !(log && y <= 0) ? y : head.join && Number.isNaN(y) ? undefined : null);
    this.x = clean(next(Float64Array, head.count), head.logX);
    /** uPlot's columns; of each of our series the place of its line, and of its interval's two ends. */
    this.columns = [this.x];
    this.lines = head.series.map((/** @type {any} */ s, /** @type {number} */ i) => {
      const line = { name: s.name, href: s.href, index: this.columns.push(clean(next(Float64Array, head.count), head.logY)) - 1, low: 0, high: 0, number: i, lone: false, sparse: false };
      if (s.interval) {
        line.low = this.columns.push(clean(next(Float64Array, head.count), head.logY)) - 1;
        line.high = this.columns.push(clean(next(Float64Array, head.count), head.logY)) - 1;
      }
      return line;
    });
    /** A single known point makes no line, and no area: it is marked, and its interval is a bar. */
    for (const line of this.lines) line.lone = this.columns[line.index].filter(y => y != null).length === 1;
    /** Of values that stand alone, a step of many, the line says less than the points: they are marked, too. */
    for (const line of this.lines) {
      const y = this.columns[line.index];
      line.sparse = y.some((/** @type {any} */ v, /** @type {number} */ i) => v != null && y.length > 1 && y[i - 1] == null && y[i + 1] == null);
    }
    this.canvasPlace = element('div', { tabindex: '0', role: 'application', 'aria-roledescription': 'plot',
      'aria-label': `${head.title} ${head.yName} over ${head.xName}, ${this.lines.length} series. Arrow keys read it out, Escape shows all.` });
    this.readout = element('p', { class: 'readout', role: 'status' });
    this.legend = element('div', { class: 'legend' });
    place.append(this.canvasPlace, this.readout, this.legend);
    this.makeLegend();
    this.u = new uPlot(this.options(), /** @type {any} */ (this.columns), this.canvasPlace);
    this.u.root.setAttribute('aria-hidden', 'true');
    this.canvasPlace.addEventListener('keydown', e => this.key(e));
    this.say(-1);
  }

  colour(/** @type {number} */ i) { return css('--s' + i % 7); }

  options() {
    const { head } = this, self = this;
    const axis = { stroke: () => css('--soft'), grid: { stroke: () => css('--line'), width: 1 }, ticks: { stroke: () => css('--line'), width: 1 }, font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif' };
    const whole = !head.logX && self.x.every(x => x === null || x === undefined || Number.isInteger(x)); // no step 1.5
    const few = head.style === 'points' && head.count <= 12;
    const series = [{}];
    for (const line of this.lines) {
      series[line.index] = { label: line.name, stroke: () => self.colour(line.number), width: 2, dash: DASHES[Math.floor(line.number / 7) % 4], spanGaps: false,
        points: { show: head.style === 'points' || line.lone || line.sparse, size: head.style === 'points' || line.lone ? 7 : 5 } };
      for (const end of line.low ? [line.low, line.high] : [])
        series[end] = { stroke: 'transparent', width: 0, points: { show: false } };
    }
    return /** @type {any} */ ({
      width: this.width(), height: HEIGHT, series, legend: { show: false },
      scales: { x: { time: false, distr: head.logX ? 3 : 1, range: this.pad(head.logX, head.style === 'points') },
        y: { distr: head.logY ? 3 : 1, range: (/** @type {any} */ _, /** @type {number} */ lo, /** @type {number} */ hi) => self.rangeY(lo, hi) } },
      axes: [{ ...axis, ...(whole ? { incrs: WHOLE } : {}), size: 36, labelSize: 22, label: head.xName, ...(few ? { splits: () => self.x, filter: (/** @type {any} */ _, /** @type {number[]} */ s) => s } : {}), values: (/** @type {any} */ _, /** @type {number[]} */ v) => v.map(x => x === null ? '' : number(x)) },
        { ...axis, ...(head.logY ? { splits: (/** @type {any} */ u) => self.decades(u), filter: (/** @type {any} */ _, /** @type {number[]} */ s) => s } : {}), label: head.yName, size: 64, labelSize: 22, values: (/** @type {any} */ _, /** @type {number[]} */ v, /** @type {any} */ __, /** @type {any} */ ___, /** @type {number} */ by) => self.labels(v, head.logY ? 0 : by) }],
      bands: head.style === 'fan' ? this.lines.filter((/** @type {any} */ l) => l.low).map((/** @type {any} */ l) => ({ series: [l.high, l.low], fill: () => self.colour(l.number) + '38' })) : [],
      cursor: { drag: { x: true, y: false }, points: { size: 7 } },
      hooks: { draw: [(/** @type {any} */ u) => self.drawOver(u)], setCursor: [(/** @type {any} */ u) => self.say(u.cursor.idx ?? -1)] },
    });
  }

  /** A few measured points need room beside the first and the last; a single one needs any width at all. */
  pad(/** @type {boolean} */ log, /** @type {boolean} */ points) {
    return (/** @type {any} */ _, /** @type {number} */ lo, /** @type {number} */ hi) => {
      if (lo === hi) return log ? [lo / 2, hi * 2] : [lo - 1, hi + 1];
      return points ? log ? [lo / 1.15, hi * 1.15] : [lo - (hi - lo) * 0.06, hi + (hi - lo) * 0.06] : [lo, hi];
    };
  }

  rangeY(/** @type {number} */ lo, /** @type {number} */ hi) {
    if (lo === null || hi === null) return this.head.logY ? [0.1, 1] : [0, 1];
    if (this.head.logY) { // whole decades: each label has a place, and there are two at least
      const low = Math.floor(Math.log10(lo)), high = Math.ceil(Math.log10(hi));
      return [+`1e${low}`, +`1e${high > low ? high : low + 1}`];
    }
    if (this.head.fromZero) return hi > 0 ? [Math.min(0, lo), hi * 1.06] : [lo * 1.06, 0];
    const room = (hi - lo) * 0.06 || Math.abs(hi) * 0.05 || 1;
    return [lo - room, hi + room];
  }

  /** Of a logarithmic axis the powers of ten, at most eight of them. */
  decades(/** @type {any} */ u) {
    const low = Math.round(Math.log10(u.scales.y.min)), high = Math.round(Math.log10(u.scales.y.max)), by = Math.ceil((high - low) / 8) || 1;
    return Array.from({ length: Math.floor((high - low) / by) + 1 }, (_, i) => +`1e${low + i * by}`);
  }

  /** Labels that lie `by` apart have as many digits as it takes to tell one from the next: a loss moves in its fifth. */
  labels(/** @type {number[]} */ values, /** @type {number} */ by) {
    const largest = Math.max(...values.map(y => Math.abs(y || 0)));
    const digits = by > 0 && largest > 0 ? Math.min(15, Math.max(4, Math.ceil(Math.log10(largest / by)) + 2)) : 4;
    return values.map(y => y === null ? '' : number(y, digits));
  }

  width() { return Math.max(240, this.place.clientWidth); }

  makeLegend() {
    for (const line of this.lines) {
      const swatch = /** @type {HTMLCanvasElement} */ (element('canvas', { width: '48', height: '8', 'aria-hidden': 'true' }));
      swatch.style.width = '24px';
      swatch.style.height = '4px';
      const button = element('button', { type: 'button', 'aria-pressed': 'true' }, swatch, line.name);
      button.addEventListener('click', () => {
        const show = button.getAttribute('aria-pressed') !== 'true';
        button.setAttribute('aria-pressed', String(show));
        for (const i of [line.index, line.low, line.high]) if (i) this.u.setSeries(i, { show });
      });
      Object.assign(line, { button, swatch });
      this.legend.append(button);
      if (line.href) this.legend.append(element('a', { href: line.href, title: `the page of ${line.name}`, 'aria-label': `the page of ${line.name}` }, '\u2197'));
    }
  }

  drawSwatches() {
    for (const line of this.lines) {
      const c = line.swatch.getContext('2d');
      c.clearRect(0, 0, 48, 8);
      c.strokeStyle = this.colour(line.number);
      c.lineWidth = 6;
      c.setLineDash(DASHES[Math.floor(line.number / 7) % 4].map(d => d * 1.5));
      c.beginPath();
      c.moveTo(0, 4);
      c.lineTo(48, 4);
      c.stroke();
    }
  }

  /** Error bars, and the line that marks a step. */
  drawOver(/** @type {any} */ u) {
    const c = u.ctx, { head } = this, dpr = devicePixelRatio || 1;
    c.save();
    c.beginPath();
    c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    c.clip();
    for (const line of this.lines.filter((/** @type {any} */ l) => l.low && (head.style !== 'fan' || l.lone) && u.series[l.index].show)) this.drawBars(u, c, line, dpr);
    if (head.markName !== undefined) {
      const x = Math.round(u.valToPos(head.mark, 'x', true)), right = x > u.bbox.left + u.bbox.width / 2;
      c.strokeStyle = c.fillStyle = css('--found');
      c.lineWidth = 1.5 * dpr;
      c.setLineDash([4 * dpr, 3 * dpr]);
      c.beginPath();
      c.moveTo(x, u.bbox.top);
      c.lineTo(x, u.bbox.top + u.bbox.height);
      c.stroke();
      c.font = `${12 * dpr}px system-ui, sans-serif`;
      c.textAlign = right ? 'right' : 'left';
      c.fillText(head.markName, x + (right ? -5 : 5) * dpr, u.bbox.top + 13 * dpr);
    }
    c.restore();
  }

  drawBars(/** @type {any} */ u, /** @type {CanvasRenderingContext2D} */ c, /** @type {any} */ line, /** @type {number} */ dpr) {
    c.strokeStyle = this.colour(line.number);
    c.lineWidth = 1.5 * dpr;
    c.beginPath();
    for (let i = 0; i < this.x.length; i++) {
      const low = this.columns[line.low][i], high = this.columns[line.high][i];
      if (low == null || high == null || this.x[i] == null) continue;
      const x = u.valToPos(this.x[i], 'x', true), y0 = u.valToPos(low, 'y', true), y1 = u.valToPos(high, 'y', true), cap = 4 * dpr;
      c.moveTo(x, y0); c.lineTo(x, y1);
      c.moveTo(x - cap, y0); c.lineTo(x + cap, y0);
      c.moveTo(x - cap, y1); c.lineTo(x + cap, y1);
    }
    c.stroke();
  }

  say(/** @type {number} */ i) {
    this.at = i;
    if (i < 0 || this.x[i] === null) {
      this.readout.textContent = '';
      return;
    }
    const shown = this.lines.filter((/** @type {any} */ l) => this.u.series[l.index].show);
    const values = shown.slice(0, 8).map((/** @type {any} */ l) => {
      const y = this.columns[l.index][i], low = l.low && this.columns[l.low][i], high = l.low && this.columns[l.high][i];
      return `${l.name} ${y == null ? 'not known' : number(y, 6)}${l.low && low != null && high != null ? ` (${number(low)} to ${number(high)})` : ''}`;
    });
    this.readout.textContent = `${this.head.xName} ${number(/** @type {number} */ (this.x[i]), 9)}: ${values.join(' · ')}${shown.length > 8 ? ' · …' : ''}`;
  }

  key(/** @type {KeyboardEvent} */ e) {
    const last = this.x.length - 1, far = Math.max(1, Math.round(last / 20));
    const to = e.key === 'ArrowRight' ? this.at + (e.shiftKey ? far : 1) : e.key === 'ArrowLeft' ? (this.at < 0 ? last : this.at - (e.shiftKey ? far : 1))
      : e.key === 'Home' ? 0 : e.key === 'End' ? last : null;
    if (e.key === 'Escape') {
      this.u.setCursor({ left: -10, top: -10 });
      this.u.setScale('x', { min: /** @type {number} */ (this.x[0]), max: /** @type {number} */ (this.x[last]) });
      this.say(-1);
      this.canvasPlace.blur();
    } else if (to !== null && e.target === this.canvasPlace) {
      e.preventDefault();
      const i = Math.min(last, Math.max(0, to));
      if (this.x[i] !== null) this.u.setCursor({ left: this.u.valToPos(/** @type {number} */ (this.x[i]), 'x'), top: 10 }, false);
      this.say(i);
    }
  }

  resize() {
    if (this.u.width !== this.width()) this.u.setSize({ width: this.width(), height: HEIGHT });
    this.drawSwatches();
  }

  draw() {
    this.u.redraw(false, true);
    this.drawSwatches();
  }
}

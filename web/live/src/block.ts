// SPDX-License-Identifier: Apache-2.0
/* Puts pictures of the reports (../heatmap.js, ../plot.js) into a view, from arrays of JSON. */

import { Heatmap, Plot } from 'virtual:pictures';
import type { Block } from 'virtual:pictures';
import { h } from './dom';

type Picture = InstanceType<typeof Heatmap>;

/** The pictures ask for their arrays in a fixed order: so they are given. */
const block = (head: object, arrays: ArrayLike<number>[]): Block => {
  let at = 0;
  return { head, next: () => arrays[at++] ?? [] };
};

const shown = new Set<Picture>();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => shown.forEach(p => p.draw()));

function put(
  kind: new (place: HTMLElement, b: Block) => Picture, title: string, head: object,
  arrays: ArrayLike<number>[], signal: AbortSignal
): HTMLElement {
  const place = h('div', { class: 'draw' });
  const figure = h('figure', {}, place);
  let picture: Picture | null = null;
  // The pictures measure where they are, so they are made when their place has a size.
  const watch = new ResizeObserver(() => {
    if (!place.clientWidth) return;
    if (picture) return picture.resize();
    picture = new kind(place, block({ title, ...head }, arrays));
    shown.add(picture);
    Object.assign(place, { picture });
    picture.draw();
    return undefined;
  });
  watch.observe(place);
  signal.addEventListener('abort', () => {
    watch.disconnect();
    if (picture) shown.delete(picture);
  });
  return figure;
}

export interface PlotHead {
  count: number;
  xName: string;
  yName: string;
  style: 'lines' | 'points' | 'fan';
  series: { name: string; interval?: boolean }[];
  logY?: boolean;
  fromZero?: boolean;
  join?: boolean;
  mark?: number;
  markName?: string;
}

export interface MapHead {
  columns: number;
  rows: number;
  row: string[];
  group?: string[];
  columnName: string;
  valueName: string;
  differsName?: string;
  markName?: string;
  markColumn?: number;
  markRow?: number;
  outlines?: [number, number, string][];
  outlineName?: string;
  arrows?: [number, number, number, number, string][];
}

export const plot = (title: string, head: PlotHead, arrays: ArrayLike<number>[], signal: AbortSignal) =>
  put(Plot, title, head, arrays, signal);

export const heatmap = (
  title: string, head: MapHead, column: ArrayLike<number>, cell: Uint16Array, signal: AbortSignal
) => put(Heatmap, title, head, [column, cell], signal);

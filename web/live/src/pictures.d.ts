// SPDX-License-Identifier: Apache-2.0
// What vite.config.js makes of ../heatmap.js and ../plot.js.
declare module 'virtual:pictures' {
  export interface Block {
    head: object;
    next(type: unknown, n: number): ArrayLike<number>;
  }
  interface Picture {
    draw(): void;
    resize(): void;
    readonly canvas?: HTMLCanvasElement;
    visit?(column: number, row: number): void;
    say(at?: number): void;
  }
  export const Heatmap: new (place: HTMLElement, block: Block) => Picture;
  export const Plot: new (place: HTMLElement, block: Block) => Picture;
}
declare module '*.css';

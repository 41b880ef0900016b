// SPDX-License-Identifier: Apache-2.0
// What the scripts find in the page: uPlot, and the function of boot.js.
declare const uPlot: any;
declare var twinrunUnpack: (block: HTMLElement | null) => Promise<ArrayBuffer>;

// SPDX-License-Identifier: Apache-2.0
// What /api/v1/comparisons/ID says: src/serve/schemas/compared.json.

import type { Agreed, Verdict } from './types';

export interface Finding {
  step: number | null;
  step_other: number | null;
  place: string;
  rank: number | null;
  phase: string;
  kind: string;
  name: string;
  layer: string | null;
  role: string;
  operation: string | null;
  size: string | null;
}

export interface Grid {
  columns: number[];
  rows: number[];
  steps_all: number;
  rows_all: number;
  cells: string;
  outlines: [number, number, string][];
  arrows: [number, number, number, number, string][];
  arrows_left: number;
  mark: [number, number] | null;
  known: boolean;
  why: string | null;
}

type Size = number | 'equal' | 'unknown';

export interface Line {
  group: string;
  median: Size[];
  low: Size[];
  high: Size[];
}

export interface Fan {
  steps: number[];
  lines: Line[];
}

export interface Survival {
  runs: number;
  steps: number;
  unsure: number;
  left: [number, number][];
}

export interface Compared {
  verdict: {
    outcome: string;
    bitwise: string;
    headline: string;
    first: Finding | null;
    origins: Finding[];
    then: { what: string; step: number }[];
    equal_before: string | null;
    drift_per_step: number | null;
    steps: { reference: number; compared: number; differing: number; differing_exact: boolean };
    shift: number;
  };
  grid: Grid | null;
  classes: { runs: number[]; parent: number | null; step: number | null }[] | null;
  survival: Survival | null;
  fan: Fan;
  rows_all: number;
  steps_all: number;
  estimated: boolean;
}

export interface Field {
  columns: { first: number; last: number; steps: number }[];
  rows: {
    name: string;
    rank: number | null;
    phase: string;
    kind: string;
    group: string;
    tensors: number;
    differ: number;
    first: number | null;
    mixed: boolean;
  }[];
  tensors: number;
  tensors_here: number;
  steps: number;
  mark: [number, number] | null;
  cells: string;
}

export interface ComparedAnswer {
  verdict: Verdict;
  runs: { id: string; name: string; agreed: Agreed; folder: boolean; place: number | null }[];
  other: number;
  compared: Compared;
  heatmap: Field;
}

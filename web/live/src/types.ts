// SPDX-License-Identifier: Apache-2.0
// What the API says; its schemas: src/serve/schemas.

export interface Facts {
  project: string;
  family: string;
  contributor: string;
  sweep: string;
  ci: boolean;
  snapshots: number | null;
  deterministic: number | null;
  nondeterministic_calls: number | null;
  loss: number | null;
}

export interface Run {
  id: string;
  name: string;
  label: string;
  command: string;
  host: string;
  state: string;
  exit_code: number;
  start_ns: number;
  wall_s: number | null;
  steps: number;
  records: number;
  dropped: number;
  folder_removed: boolean;
  facts: Facts | null;
}

export type Agreed = '' | 'agrees' | 'differs' | 'unknown';

export interface Verdict {
  id: string;
  time_ns: number;
  verb: string;
  command: string;
  outcome: string;
  first: string;
  first_step: number | null;
  cause: string;
  layer: string;
  repeats: boolean;
  checkpoints: { compared: number; same: number; unknown: number; missing: number } | null;
  runs: { id: string; agreed: Agreed }[];
}

export interface Artifact {
  path: string;
  kind: string;
  sha256: string;
  bytes: number;
}

export interface RunAnswer {
  run: Run;
  artifacts: Artifact[];
  verdicts: Verdict[];
}

export type State = 'kept' | 'broken' | 'not-known' | 'shown';

export interface Indicator {
  indicator: string;
  words: string;
  scope: 'all' | 'project' | 'family' | 'contributor';
  name: string;
  subject: string;
  state: State;
  unit: 'share' | 'ratio' | 'count' | 'seconds' | 'tau';
  value: number | null;
  interval: [number, number] | null;
  p90: number | null;
  counts: { good: number; bad: number; unknown: number; from: number };
  target: { value: number | null; at_least: boolean; window_s: number; needed: number };
  budget: { events: number | null; left: number | null };
  why: string;
  burned: { run: string; project: string; cause: string; time_ns: number; count: number }[];
}

export interface Indicators {
  outcome: 'kept' | 'broken' | 'not-known';
  until_ns: number;
  indicators: Indicator[];
}

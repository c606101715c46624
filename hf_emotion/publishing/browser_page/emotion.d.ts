// SPDX-License-Identifier: Apache-2.0
export interface Label { label: string; score: number }
/** `text.slice(start, end)` is the term: places are in UTF-16 units. */
export interface Term extends Label { term: string; start: number; end: number }
export interface Details {
  labels: Label[];
  scores: Record<string, number>;
  /** The words as the model reads them, and for each label the share of its attention on each; only with `details: true`, of models with label attention. */
  words?: string[];
  attention?: Record<string, number[]>;
}
export interface Options {
  /** "skip": a text that is empty or holds half of a character gets null; "error" (default): it is an Error. */
  onBad?: "error" | "skip";
  /** The k most probable labels, instead of those above their thresholds. */
  topK?: number;
  onProgress?: (progress: { done: number; total: number }) => void;
  signal?: AbortSignal;
}
export interface Model {
  readonly task: "emotion-classification" | "aspect-extraction";
  readonly labels: string[];
  readonly device: "webgpu" | "wasm";
  predict(texts: string | string[], options: Options & { details: true | "scores" }): Promise<(Details | null)[]>;
  predict(texts: string | string[], options?: Options): Promise<(Label[] | null)[] | (Term[] | null)[]>;
  /** What the model cannot read of each text: whether it was cut, the share of its letters in unknown words, and the language, if it is probably none of the model's. */
  unread(texts: string | string[]): Promise<{ truncated: boolean; unknown: number; language: string | null }[]>;
  /** End the worker and free its memory. */
  close(): void;
}
export function load(url?: string, options?: {
  onProgress?: (progress: { loaded: number; total: number }) => void;
  device?: "wasm";
  threads?: number;
  signal?: AbortSignal;
}): Promise<Model>;

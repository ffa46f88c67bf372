// What the API tells of drills, and their orders in words; no markup.
import type { State } from "./runs";

export interface Parameter {
  name: string;
  says: string;
  kind: "number" | "whole" | "text";
  default: number | string | null;
  unit: string;
  least: number | null;
  most: number | null;
}
export interface Kind {
  kind: string;
  says: string;
  parameters: Parameter[];
  on: ("own-cluster" | "this-cluster")[];
}
export interface Order {
  kind?: string;
  on?: string;
  split?: string;
  node?: number;
  nodes?: number;
  seconds?: number;
  warm_up?: number;
  after?: number;
}
export interface Mark {
  at: number;
  node: string;
  kind: string;
  peer: string;
  detail: string;
}
export interface Progress {
  step: string;
  at: number;
  phases: { name: string; begin: number; end: number }[];
  sides: { name: string; nodes: string[] }[];
  marks: Mark[];
  sees: Record<string, Record<string, "up" | "suspect" | "down">>;
  sent: number;
  delivered: number;
  owed: number;
  dropped: number;
}
export interface Drill {
  id: string;
  node: string;
  state: State;
  order: Order;
  by: string;
  began_at: number;
  ended_at: number;
  says: string;
  words: string;
  happened: string;
  verdicts: { promise: string; kept: boolean | null; expected: string; got: string }[];
  figures: [string, string, string][];
  report: boolean;
  progress: Progress | null;
}
export interface Drills {
  kinds: Kind[];
  common: Parameter[];
  here: boolean;
  running: string;
  items: Drill[];
}

export function orderText(order: Order): string {
  const what = [order.kind, order.split, order.node ? `node${order.node}` : ""].filter(Boolean).join(" ");
  return what + (order.kind && order.seconds ? `, ${order.seconds} s` : "");
}

/** The sides that ``split`` makes of ``names``; null where it is not of the form 2/1. */
export function sidesOf(split: string, names: string[]): string[][] | null {
  const shape = split || `${names.length - Math.floor(names.length / 2)}/${Math.floor(names.length / 2)}`;
  if (!/^\d+(\/\d+)+$/.test(shape)) return null;
  const sizes = shape.split("/").map(Number);
  if (sizes.reduce((sum, size) => sum + size, 0) !== names.length) return null;
  let begin = 0;
  return sizes.map((size) => names.slice(begin, (begin += size)));
}

/** The steps in order; a drill of this cluster has fewer. */
export const steps = (order: Order) =>
  order.on === "this-cluster"
    ? ["split", "heal", "done"]
    : ["starting", "connecting", "warm-up", "split", "heal", "after", "draining", "closing", "done"];

// What the cluster does now, kept for a few minutes: one stream for all pages.
import { computed, signal } from "@preact/signals";
import { events, get, locked, who } from "./api";

export interface Seen {
  status: "online" | "suspect" | "offline" | "stopped" | "left";
  link: "self" | "up" | "connecting" | "down";
}
export interface Alarm {
  name: string;
  active: boolean;
  since: number;
  until: number;
  text: string;
  plan: string;
}
export interface Pulse {
  node: string;
  at: number;
  creation: number;
  uptime: number;
  state: string;
  version: string;
  connections: number;
  sessions: number;
  filters: number;
  retained: number;
  queued_bytes: number;
  received: number;
  sent: number;
  dropped: number;
  forwarded_bytes: Record<string, number>;
  loop_lag: number;
  memory: number;
  sees: Record<string, Seen>;
  phase: string;
  alarms: Alarm[];
}
export interface Sample {
  asked: string;
  nodes: Pulse[];
  missing: Record<string, string>;
}
export interface Rates {
  received: number;
  sent: number;
  dropped: number;
  forwarded: Record<string, number>;
}

/** Samples that are kept of each node: the last two make a rate, and history is the node's to keep. */
const KEPT = 2;

export const sample = signal<Sample | null>(null);
export const connected = signal(false);
/** Per node: rates of the last samples, the newest last; null where it did not answer. */
export const history = signal<Map<string, (Rates | null)[]>>(new Map());

let before = new Map<string, Pulse>();

function rates(now: Pulse, then: Pulse | undefined): Rates | null {
  if (!then || then.creation !== now.creation || now.at <= then.at) return null;
  const seconds = now.at - then.at;
  const forwarded: Record<string, number> = {};
  for (const [peer, bytes] of Object.entries(now.forwarded_bytes))
    forwarded[peer] = Math.max(0, bytes - (then.forwarded_bytes[peer] ?? 0)) / seconds;
  return {
    received: (now.received - then.received) / seconds,
    sent: (now.sent - then.sent) / seconds,
    dropped: (now.dropped - then.dropped) / seconds,
    forwarded,
  };
}

function take(next: Sample) {
  const pulses = new Map(next.nodes.map((pulse) => [pulse.node, pulse]));
  const names = new Set([...history.value.keys(), ...pulses.keys(), ...Object.keys(next.missing)]);
  const kept = new Map<string, (Rates | null)[]>();
  for (const name of [...names].sort()) {
    const pulse = pulses.get(name);
    const row = pulse ? rates(pulse, before.get(name)) : null;
    kept.set(name, [...(history.value.get(name) ?? []), row].slice(-KEPT));
  }
  before = pulses;
  history.value = kept;
  sample.value = next;
}

/** As people count: node2 before node10. */
export const inOrder = new Intl.Collator("en", { numeric: true }).compare;

export const names = computed(() => {
  const all = new Set<string>();
  for (const pulse of sample.value?.nodes ?? []) {
    all.add(pulse.node);
    for (const [name, seen] of Object.entries(pulse.sees)) if (seen.status !== "left") all.add(name);
  }
  for (const name of Object.keys(sample.value?.missing ?? {})) all.add(name);
  return [...all].sort(inOrder);
});

export const latest = (name: string): Rates | null => history.value.get(name)?.at(-1) ?? null;

/** The nodes in groups that see each other; more than one group with answers is a split. */
export const sides = computed(() => {
  const pulses = new Map((sample.value?.nodes ?? []).map((pulse) => [pulse.node, pulse]));
  const sees = (from: string, to: string) => {
    const pulse = pulses.get(from);
    return pulse ? pulse.sees[to]?.status === "online" && pulse.sees[to]?.link !== "down" : false;
  };
  const left = new Set(names.value);
  const groups: string[][] = [];
  for (const first of names.value) {
    if (!left.delete(first)) continue;
    const group = [first];
    for (const one of group)
      for (const other of [...left])
        if (sees(one, other) && (sees(other, one) || !pulses.has(other))) {
          left.delete(other);
          group.push(other);
        }
    groups.push(group);
  }
  return groups;
});

let stop: AbortController | null = null;

// A browser has six connections to a node for all its tabs: one that nobody looks at keeps none.
document.addEventListener("visibilitychange", () => {
  if (document.hidden) stop?.abort();
  else if (!locked.value) follow();
});

/** Read the stream, and come back when it breaks. */
export async function follow(): Promise<void> {
  stop?.abort();
  const mine = (stop = new AbortController());
  while (!mine.signal.aborted) {
    try {
      who.value = await get("/whoami");
      locked.value = "";
      for await (const next of events<Sample>("/live", mine.signal)) {
        connected.value = true;
        take(next);
      }
    } catch {
      // Said by the banner; a wrong token is said by its form.
    }
    connected.value = false;
    if (locked.value) return;
    await new Promise((done) => setTimeout(done, 1000));
  }
}

// The last hour as the nodes remember it, with what they say now at its end.
import { computed, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "./api";
import { Chart, type Series } from "./chart";
import { latest, names, sample } from "./live";
import { Card, Choice, Missing, Oops, usePoll } from "./ui";
import { bytes, count, short } from "./words";

interface NodeHistory {
  node: string;
  step: number;
  at: number[];
  received: number[];
  sent: number[];
  dropped: number[];
  connections: number[];
  cpu: number[];
  memory: number[];
  loop_lag: number[];
}
type Kind = Exclude<keyof NodeHistory, "node" | "step" | "at">;

const STEP = 30;
const HOUR = 3600;
/** A cluster that is younger than an hour has the width for what there is, but not for less than this. */
const LEAST = 300;

const begin = (first: number | undefined, now: number) => Math.max(now - HOUR, Math.min(first ?? now - HOUR, now - LEAST));

const told = signal<NodeHistory[]>([]);
const loaded = signal(false);
/** Each node's own, by name. */
export const past = computed(() => new Map(told.value.map((one) => [one.node, one])));

/** Asks again now and then, while a page shows it. */
export function usePast() {
  const { data, error } = usePoll(() => get<{ nodes: NodeHistory[]; missing: Record<string, string> }>("/history", { step: STEP }), 15);
  useEffect(() => {
    if (!data) return;
    told.value = data.nodes;
    loaded.value = true;
  }, [data]);
  return { error, missing: data?.missing };
}

const cores = (value: number) => `${value.toFixed(value < 0.1 ? 2 : 1)} core${value === 1 ? "" : "s"}`;

export function LastHour() {
  const picked = useSignal("");
  const { error, missing } = usePast();
  const now = (sample.value?.nodes ?? []).reduce((last, pulse) => Math.max(last, pulse.at), 0) || Date.now() / 1000;
  const nodes = told.value.filter((one) => !picked.value || one.node === picked.value);
  const at = [...new Set(nodes.flatMap((one) => one.at))].filter((time) => time <= now).sort((a, b) => a - b);
  const index = new Map(at.map((time, number) => [time, number]));
  const column = (one: NodeHistory, kind: Kind): (number | null)[] => {
    const values = new Array<number | null>(at.length).fill(null);
    one.at.forEach((time, number) => {
      const place = index.get(time);
      if (place !== undefined) values[place] = one[kind][number]!;
    });
    return values;
  };
  // What the pulses say ends the lines, so that they move with the page.
  const pulses = (sample.value?.nodes ?? []).filter((pulse) => !picked.value || pulse.node === picked.value);
  const live = pulses.length > 0 && at.length > 0;
  const times = live ? [...at, now] : at;
  const end = (value: number | null) => (live ? [value] : []);
  const rate = (kind: "received" | "sent" | "dropped") => pulses.reduce((all, pulse) => all + (latest(pulse.node)?.[kind] ?? 0), 0);
  const sum = (kind: Kind, name: string, color: string, last: number): Series => {
    const values = new Array<number | null>(at.length).fill(null);
    for (const one of nodes)
      column(one, kind).forEach((value, place) => {
        if (value !== null) values[place] = (values[place] ?? 0) + value;
      });
    return { name, color, values: [...values, ...end(last)] };
  };
  const each = (kind: Kind, color: string): Series[] =>
    nodes.map((one) => ({ name: one.node, color, thin: nodes.length > 1, values: [...column(one, kind), ...end(null)] }));
  const busiest = (series: Series[], text: (value: number) => string) => (number: number) => {
    let best: [string, number] | null = null;
    // The pulse at the end says nothing of it.
    for (let place = number; place >= 0 && place > number - 2 && !best; place--)
      for (const one of series) {
        const value = one.values[place];
        if (value !== null && value !== undefined && (!best || value > best[1])) best = [one.name, value];
      }
    return best ? `${text(best[1])}${series.length > 1 ? ` at ${short(best[0])}` : ""}` : "–";
  };
  const span = { at: times, from: begin(at[0], now), to: now, gap: 2.5 * STEP };
  const cpu = each("cpu", "var(--accent)");
  const dropped = sum("dropped", "dropped", "var(--bad)", rate("dropped"));
  const whose = picked.value ? short(picked.value) : "all nodes";
  return (
    <Card
      title="The last hour"
      aside={<Choice label="Of" all="all nodes" value={picked.value} of={names.value} onPick={(name) => (picked.value = name)} />}
    >
      <Oops error={error} />
      <Missing missing={missing} />
      {!at.length && !error && (
        <p class="empty">{loaded.value ? "The nodes have just begun to remember: their first numbers come within seconds." : "Asking the nodes…"}</p>
      )}
      <div class="charts">
        <Chart
          {...span}
          title="Messages a second"
          label={`Messages a second of ${whose} in the last hour`}
          text={count}
          least={1}
          series={[
            sum("received", "in", "var(--second)", rate("received")),
            sum("sent", "out", "var(--accent)", rate("sent")),
            ...(dropped.values.some((value) => value! > 0) ? [dropped] : []),
          ]}
        />
        <Chart
          {...span}
          title="Clients"
          label={`Clients of ${whose} in the last hour`}
          text={(value) => count(Math.round(value))}
          least={1}
          series={[sum("connections", "", "var(--accent)", pulses.reduce((all, pulse) => all + pulse.connections, 0))]}
        />
        <Chart {...span} title="Processor" label={`Processor time of ${whose} in the last hour`} text={cores} least={0.1} series={cpu} tell={busiest(cpu, cores)} />
        <Chart
          {...span}
          title="Memory"
          label={`Memory of ${whose} in the last hour`}
          text={bytes}
          least={2 ** 20}
          series={[sum("memory", "", "var(--second)", pulses.reduce((all, pulse) => all + pulse.memory, 0))]}
        />
      </div>
    </Card>
  );
}

/** A small line of one node's last hour. */
export function Spark(props: { node: string; kind: "received" | "sent"; label: string; color: string }) {
  const one = past.value.get(props.node);
  const values = one ? [...one[props.kind], latest(props.node)?.[props.kind] ?? 0] : [];
  const times = one ? [...one.at, sample.value?.nodes.find((pulse) => pulse.node === props.node)?.at ?? 0] : [];
  const to = times.at(-1) || Date.now() / 1000;
  const from = begin(times[0], to);
  const top = Math.max(1, ...values);
  let [path, last] = ["", -Infinity];
  times.forEach((time, number) => {
    if (time < from || time < last) return;
    path += `${time - last > 2.5 * STEP ? "M" : "L"}${((240 * (time - from)) / (to - from)).toFixed(1)} ${(42 - (values[number]! / top) * 38).toFixed(1)}`;
    last = time;
  });
  return (
    <svg class="line" viewBox="0 0 240 44" preserveAspectRatio="none" role="img" aria-label={props.label}>
      <path d={path} stroke={props.color} fill="none" vector-effect="non-scaling-stroke" />
    </svg>
  );
}

// What all pages are made of.
import { signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "./api";

export function Card(props: { title?: string; aside?: ComponentChildren; wide?: boolean; children?: ComponentChildren }) {
  return (
    <section class={`card${props.wide ? " wide" : ""}`}>
      {props.title && (
        <header>
          <h2>{props.title}</h2>
          <span class="aside">{props.aside}</span>
        </header>
      )}
      {props.children}
    </section>
  );
}

/** What a click opened, elsewhere on the page maybe: brought into view. */
export function Opened(props: { children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.scrollIntoView({ block: "nearest" }), []);
  return <div ref={box}>{props.children}</div>;
}

export function Badge(props: { kind: "good" | "warn" | "bad" | "dim"; children: ComponentChildren }) {
  return <span class={`badge ${props.kind}`}>{props.children}</span>;
}

export const statusKind = (status: string) =>
  status === "online" || status === "up" || status === "self" || status === "running"
    ? "good"
    : status === "suspect" || status === "connecting" || status === "starting"
      ? "warn"
      : status === "left"
        ? "dim"
        : "bad";

export function Table(props: {
  head: string[];
  rows: ComponentChildren[][];
  empty: string;
  onPick?: (row: number) => void;
  label: string;
}) {
  if (!props.rows.length) return <p class="empty">{props.empty}</p>;
  return (
    <div class="scroll" role="region" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {props.head.map((name) => (
              <th scope="col" key={name}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((cells, row) => (
            <tr
              key={row}
              class={props.onPick ? "pick" : ""}
              onClick={() => props.onPick?.(row)}
            >
              {cells.map((cell, column) => (
                // By keyboard a row is picked by a button in it, whose click is the row's.
                <td key={column}>{props.onPick && column === 0 ? <button class="picks">{cell}</button> : cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A line of the last values; nulls are gaps. */
export function Line(props: { values: (number | null)[]; label: string; color?: string }) {
  const width = 240;
  const height = 44;
  const top = Math.max(1, ...props.values.map((value) => value ?? 0));
  const step = width / Math.max(1, props.values.length - 1);
  const runs: string[] = [];
  let pen = false;
  props.values.forEach((value, index) => {
    if (value === null) {
      pen = false;
      return;
    }
    const y = height - 2 - (value / top) * (height - 6);
    runs.push(`${pen ? "L" : "M"}${(index * step).toFixed(1)} ${y.toFixed(1)}`);
    pen = true;
  });
  return (
    <svg class="line" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img" aria-label={props.label}>
      <path d={runs.join("")} stroke={props.color ?? "var(--accent)"} fill="none" vector-effect="non-scaling-stroke" />
    </svg>
  );
}

const notes = signal<{ id: number; bad: boolean; text: string }[]>([]);
let serial = 0;

export function tell(text: string, bad = false) {
  const id = ++serial;
  notes.value = [...notes.value, { id, bad, text }];
  setTimeout(() => (notes.value = notes.value.filter((note) => note.id !== id)), bad ? 9000 : 4000);
}

export const say = (error: unknown) => tell(error instanceof Error ? error.message : String(error), true);

export function Notes() {
  return (
    <div class="notes" role="status" aria-live="polite">
      {notes.value.map((note) => (
        <p key={note.id} class={note.bad ? "bad" : ""}>
          {note.text}
        </p>
      ))}
    </div>
  );
}

/** Ask again every ``seconds``, and when ``deps`` change; the last good answer stays. ``again``: ask anew, of the same. */
export function usePoll<T>(load: () => Promise<T>, seconds: number, deps: unknown[] = [], again: unknown = 0): { data: T | null; error: string } {
  const data = useSignal<T | null>(null);
  const error = useSignal("");
  useEffect(() => {
    data.value = null;
    error.value = "";
  }, deps);
  useEffect(() => {
    let gone = false;
    let timer = 0;
    const turn = async () => {
      try {
        const next = await load();
        if (gone) return;
        data.value = next;
        error.value = "";
      } catch (problem) {
        if (gone) return;
        error.value = problem instanceof Problem ? problem.message : String(problem);
      }
      timer = window.setTimeout(turn, seconds * 1000);
    };
    turn();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [...deps, again]);
  return { data: data.value, error: error.value };
}

export function Oops(props: { error: string }) {
  return props.error ? (
    <p class="oops" role="alert">
      {props.error}
    </p>
  ) : null;
}

export function Missing(props: { missing?: Record<string, string> }) {
  const rows = Object.entries(props.missing ?? {});
  return rows.length ? (
    <p class="oops">
      Incomplete: {rows.map(([node, why]) => `${node} (${why})`).join(", ")}
    </p>
  ) : null;
}

export function NodePicker(props: { names: string[]; value: string; onPick: (name: string) => void }) {
  return (
    <label class="inline">
      Node{" "}
      <select value={props.value} onChange={(event) => props.onPick(event.currentTarget.value)}>
        {props.names.map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

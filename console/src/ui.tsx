// What all pages are made of.
import { signal, useSignal, type Signal } from "@preact/signals";
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
    : status === "suspect" || status === "stopped" || status === "connecting" || status === "starting"
      ? "warn"
      : status === "left"
        ? "dim"
        : "bad";

/** A sorted column: its name or number, downwards with "-" before it. */
export type Sorting = string;

/** The same, as the nodes are asked for it. */
export const sorted = (sort: Sorting) => ({ sort: sort.replace(/^-/, ""), order: sort.startsWith("-") ? "desc" : "asc" });

export interface Column {
  name: string;
  /** What the column is sorted by, where whoever gives the rows sorts them. */
  by?: string;
  /** Numbers stand right. */
  number?: boolean;
}

/**
 * A table. ``keys`` (a text or number for each cell) lets it sort its rows by itself; ``sort`` with ``onSort`` lets
 * whoever gives the rows do it, by columns that have a ``by``. Either way a column sorts up, down, and as it was.
 */
export function Table(props: {
  head: (string | Column)[];
  rows: ComponentChildren[][];
  empty: string;
  onPick?: (row: number) => void;
  label: string;
  keys?: (string | number)[][];
  /** What each row is, where rows come and go. */
  ids?: (string | number)[];
  sort?: Sorting;
  onSort?: (sort: Sorting) => void;
}) {
  const own = useSignal<Sorting>("");
  if (!props.rows.length) return <p class="empty">{props.empty}</p>;
  const { keys } = props;
  const sort = props.onSort ? (props.sort ?? "") : own.value;
  const [by, down] = [sort.replace(/^-/, ""), sort.startsWith("-")];
  const order = props.rows.map((_, row) => row);
  if (keys && by) {
    const key = (row: number) => keys[row]![Number(by)]!;
    const compare = (one: string | number, other: string | number) =>
      typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
    order.sort((one, other) => compare(key(one), key(other)) * (down ? -1 : 1));
  }
  const turn = (column: string, first: string) => {
    const next = by !== column ? first + column : sort === first + column ? (first ? "" : "-") + column : "";
    if (props.onSort) props.onSort(next);
    else own.value = next;
  };
  const columns = props.head.map((one) => (typeof one === "string" ? { name: one } : one));
  return (
    <div class="scroll" role="region" aria-label={props.label} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column, number) => {
              const its = keys ? String(number) : column.by;
              const on = its !== undefined && its === by;
              return (
                <th
                  scope="col"
                  key={number}
                  class={column.number ? "number" : ""}
                  aria-sort={on ? (down ? "descending" : "ascending") : undefined}
                >
                  {its === undefined || !column.name ? (
                    column.name
                  ) : (
                    <button class="sorts" title={`Sort by ${column.name.toLowerCase()}`} onClick={() => turn(its, column.number ? "-" : "")}>
                      {column.name}
                      <span aria-hidden="true">{on ? (down ? " ↓" : " ↑") : ""}</span>
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {order.map((row) => (
            <tr key={props.ids?.[row] ?? row} class={props.onPick ? "pick" : ""} onClick={() => props.onPick?.(row)}>
              {props.rows[row]!.map((cell, column) => (
                // By keyboard a row is picked by a button in it, whose click is the row's.
                <td key={column} class={columns[column]?.number ? "number" : ""}>
                  {props.onPick && column === 0 ? <button class="picks">{cell}</button> : cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Pages of a long list: cursors of those before, and what the page now says of the next. */
export function Pager(props: { after: Signal<string[]>; next: string | null | undefined }) {
  const { after } = props;
  const page = after.value.length + 1;
  if (page === 1 && !props.next) return null;
  return (
    <span class="pager">
      <span class="dim">page {page}</span>
      <button disabled={page === 1} onClick={() => (after.value = after.value.slice(0, -1))}>previous</button>
      <button disabled={!props.next} onClick={() => (after.value = [...after.value, props.next!])}>next</button>
    </span>
  );
}

/** A field whose text counts once nobody types for a moment. */
export function Search(props: { label: string; value: string; placeholder?: string; onChange: (text: string) => void }) {
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <label>
      {props.label}
      <input
        type="search"
        autocomplete="off"
        spellcheck={false}
        placeholder={props.placeholder}
        defaultValue={props.value}
        onInput={(event) => {
          const text = event.currentTarget.value.trim();
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => props.onChange(text), 250);
        }}
      />
    </label>
  );
}

/** One of a few; the empty value stands for all. */
export function Choice(props: { label: string; value: string; all: string; of: (string | [string, string])[]; onPick: (value: string) => void }) {
  return (
    <label>
      {props.label}
      <select value={props.value} onChange={(event) => props.onPick(event.currentTarget.value)}>
        <option value="">{props.all}</option>
        {props.of.map((one) => {
          const [value, text] = typeof one === "string" ? [one, one] : one;
          return <option key={value} value={value}>{text}</option>;
        })}
      </select>
    </label>
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
      const begin = performance.now();
      try {
        const next = await load();
        if (gone) return;
        data.value = next;
        error.value = "";
      } catch (problem) {
        if (gone) return;
        error.value = problem instanceof Problem ? problem.message : String(problem);
      }
      // What takes a node long is asked for less often.
      timer = window.setTimeout(turn, Math.max(seconds * 1000, 10 * (performance.now() - begin)));
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

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { at, lines } from "./api";
import { Card, Oops } from "./ui";
import { count, instant } from "./words";

interface Event {
  at: number;
  event: string;
  way: string;
  peer: string;
  text: string;
}

/** Rows that are shown; what is older goes. */
const SHOWN = 200;
/** Milliseconds between two paintings: nobody reads faster, and frames in between are free for what the person does. */
const PAINTED = 80;
/** Lines of one request; when they are over, the next begins. */
const LINES = 100_000;

const HEAD = ["Time", "Event", "Way", "Peer", "What"];

function rowOf(event: Event): HTMLElement {
  const row = document.createElement("div");
  row.setAttribute("role", "row");
  for (const text of [instant(event.at), event.event, event.way, event.peer, event.text]) {
    const cell = document.createElement("div");
    cell.setAttribute("role", "cell");
    cell.textContent = text;
    row.append(cell);
  }
  return row;
}

/**
 * What one process takes in and sends out, as it happens, until it is closed. However many lines come, the page is
 * made a few times a second, and of the latest alone. Held still it goes on reading, so that nothing waits at the
 * node, and keeps the latest for when it goes on.
 *
 * Rows are put before each other by hand: comparing two hundred of them with those of the frame before costs more than
 * the frame has. Those that are out of sight are not laid out at all (``content-visibility``).
 */
export function Trace(props: { node: string; pid: string; onClose: () => void }) {
  const body = useRef<HTMLDivElement>(null);
  const taken = useSignal(0);
  const still = useSignal(false);
  const over = useSignal(false);
  const error = useSignal("");
  const buffer = useRef<Event[]>([]);
  const frame = useRef(0);
  const painted = useRef(0);
  const number = useRef(0);

  const paint = (now: number) => {
    if (now - painted.current < PAINTED) {
      frame.current = requestAnimationFrame(paint);
      return;
    }
    frame.current = 0;
    painted.current = now;
    taken.value = number.current;
    const rows = body.current;
    if (still.value || !rows) return;
    // The newest first, and of those that came since no more than are shown.
    const fresh = buffer.current.splice(0).slice(-SHOWN).reverse();
    rows.prepend(...fresh.map(rowOf));
    while (rows.childElementCount > SHOWN) rows.lastElementChild!.remove();
  };
  const take = (event: Event) => {
    number.current += 1;
    buffer.current.push(event);
    // Held still, or out of sight: cut now and then, not with each line.
    if (buffer.current.length > 4 * SHOWN) buffer.current = buffer.current.slice(-SHOWN);
    frame.current ||= requestAnimationFrame(paint);
  };

  useEffect(() => {
    const stop = new AbortController();
    buffer.current = [];
    body.current?.replaceChildren();
    error.value = "";
    number.current = taken.value = 0;
    still.value = over.value = false;
    (async () => {
      try {
        const path = at(props.node, "/trace");
        for (let goes = true; goes; ) {
          goes = false;
          for await (const row of lines<Event>(path, { pid: props.pid, seconds: 3600, limit: LINES }, stop.signal)) {
            // It was cut off by its own bound, and the process lives on.
            if (row.event === "over") goes = true;
            else if (row.event !== "tracing" || !number.current) take(row);
          }
        }
        over.value = !stop.signal.aborted;
      } catch (problem) {
        if (!stop.signal.aborted) error.value = problem instanceof Error ? problem.message : String(problem);
      }
    })();
    return () => {
      stop.abort();
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, [props.node, props.pid]);

  return (
    <Card
      title="Live trace"
      aside={
        <span class="pager">
          <span class="dim">
            {over.value ? "the process ended · " : still.value ? "held still · " : ""}
            {count(taken.value)} {taken.value === 1 ? "line" : "lines"}
          </span>
          <button aria-pressed={still.value} disabled={over.value} onClick={() => { still.value = !still.value; painted.current = 0; paint(performance.now()); }}>
            {still.value ? "go on" : "pause"}
          </button>
          <button onClick={props.onClose}>stop</button>
        </span>
      }
    >
      <p class="dim">
        Process <code>{props.pid}</code> on {props.node}; the latest {SHOWN} lines, the newest first.
      </p>
      <Oops error={error.value} />
      {!taken.value && <p class="empty">Nothing yet: it is quiet.</p>}
      <div class="scroll lines" role="region" aria-label="Trace" tabIndex={0}>
        <div role="table" aria-label="Lines of the trace">
          <div role="rowgroup" class="head">
            <div role="row">{HEAD.map((name) => <div role="columnheader" key={name}>{name}</div>)}</div>
          </div>
          <div role="rowgroup" ref={body} />
        </div>
      </div>
    </Card>
  );
}

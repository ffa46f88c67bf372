import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { count, many } from "./words";

/** Rows that are shown; what is older goes. */
const SHOWN = 200;
/** Milliseconds between two paintings: nobody reads faster, and frames in between are free for what the person does. */
const PAINTED = 80;

/** Lines that come, of which the latest are kept, whether a page shows them or not. */
export class Feed {
  /** How many came. */
  taken = 0;
  /** Called for each, while somebody looks. */
  onLine = () => {};
  private latest: string[][] = [];

  add(cells: string[]) {
    this.taken += 1;
    this.latest.push(cells);
    // Cut now and then, not with each line.
    if (this.latest.length > 4 * SHOWN) this.latest = this.latest.slice(-SHOWN);
    this.onLine();
  }

  /** The latest of those after the first `seen`, the newest first, and no more than are shown. */
  after(seen: number): string[][] {
    const fresh = Math.min(this.taken - seen, SHOWN);
    return fresh ? this.latest.slice(-fresh).reverse() : [];
  }
}

function rowOf(cells: string[]): HTMLElement {
  const row = document.createElement("div");
  row.setAttribute("role", "row");
  for (const text of cells) {
    const cell = document.createElement("div");
    cell.setAttribute("role", "cell");
    cell.textContent = text;
    row.append(cell);
  }
  return row;
}

/**
 * The lines of a feed as they come. However many do, the page is made a few times a second, and of the latest alone.
 * Held still it goes on reading, so that nothing waits at the node, and keeps the latest for when it goes on.
 *
 * Rows are put before each other by hand: comparing two hundred of them with those of the frame before costs more than
 * the frame has. Those that are out of sight are not laid out at all (``content-visibility``).
 */
export function Lines(props: { feed: Feed; label: string; kind: string; head: string[]; empty: string; over?: string }) {
  const { feed } = props;
  const body = useRef<HTMLDivElement>(null);
  const taken = useSignal(0);
  const still = useSignal(false);
  const frame = useRef(0);
  const painted = useRef(0);
  const seen = useRef(0);

  const paint = (now: number) => {
    if (now - painted.current < PAINTED) {
      frame.current = requestAnimationFrame(paint);
      return;
    }
    frame.current = 0;
    painted.current = now;
    taken.value = feed.taken;
    const rows = body.current;
    if (still.value || !rows) return;
    rows.prepend(...feed.after(seen.current).map(rowOf));
    seen.current = feed.taken;
    while (rows.childElementCount > SHOWN) rows.lastElementChild!.remove();
  };
  const hold = () => {
    still.value = !still.value;
    painted.current = 0;
    paint(performance.now());
  };

  useEffect(() => {
    body.current?.replaceChildren();
    seen.current = painted.current = taken.value = 0;
    still.value = false;
    feed.onLine = () => {
      frame.current ||= requestAnimationFrame(paint);
    };
    paint(performance.now());
    return () => {
      feed.onLine = () => {};
      cancelAnimationFrame(frame.current);
      frame.current = 0;
    };
  }, [feed]);

  return (
    <>
      {!taken.value && <p class="empty">{props.empty}</p>}
      <div hidden={!taken.value}>
        <p class="dim pager">
          {props.over ? `${props.over} · ` : still.value ? "held still · " : ""}
          {many(taken.value, "line")}{taken.value > SHOWN ? `, the latest ${count(SHOWN)} of them here` : ""}, the newest first
          <button class="small" aria-pressed={still.value} onClick={hold}>{still.value ? "go on" : "pause"}</button>
        </p>
        <div class={`scroll lines ${props.kind}`} role="region" aria-label={props.label} tabIndex={0}>
          <div role="table" aria-label={`Lines of ${props.label}`}>
            <div role="rowgroup" class="head">
              <div role="row">{props.head.map((name) => <div role="columnheader" key={name}>{name}</div>)}</div>
            </div>
            <div role="rowgroup" ref={body} />
          </div>
        </div>
      </div>
    </>
  );
}

import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { at, lines } from "./api";
import { Feed, Lines } from "./lines";
import { Card, Oops } from "./ui";
import { instant } from "./words";

interface Event {
  at: number;
  event: string;
  way: string;
  peer: string;
  text: string;
}

/** Lines of one request; when they are over, the next begins. */
const LINES = 100_000;

/** What one process takes in and sends out, as it happens, until it is closed. */
export function Trace(props: { node: string; pid: string; onClose: () => void }) {
  const over = useSignal(false);
  const error = useSignal("");
  const feed = useMemo(() => new Feed(), [props.node, props.pid]);

  useEffect(() => {
    const stop = new AbortController();
    error.value = "";
    over.value = false;
    (async () => {
      try {
        const path = at(props.node, "/trace");
        for (let goes = true; goes; ) {
          goes = false;
          for await (const row of lines<Event>(path, { pid: props.pid, seconds: 3600, limit: LINES }, stop.signal)) {
            // It was cut off by its own bound, and the process lives on.
            if (row.event === "over") goes = true;
            else if (row.event !== "tracing" || !feed.taken) feed.add([instant(row.at), row.event, row.way, row.peer, row.text]);
          }
        }
        over.value = !stop.signal.aborted;
      } catch (problem) {
        if (!stop.signal.aborted) error.value = problem instanceof Error ? problem.message : String(problem);
      }
    })();
    return () => stop.abort();
  }, [feed]);

  return (
    <Card title="Live trace" aside={<button onClick={props.onClose}>stop</button>}>
      <p class="dim">Process <code>{props.pid}</code> on {props.node}.</p>
      <Oops error={error.value} />
      <Lines
        feed={feed}
        label="Trace"
        kind="trace"
        head={["Time", "Event", "Way", "Peer", "What"]}
        empty="Nothing yet: it is quiet."
        over={over.value ? "the process ended" : ""}
      />
    </Card>
  );
}

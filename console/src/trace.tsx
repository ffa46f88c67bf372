import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { at, lines } from "./api";
import { Card, Oops, Table } from "./ui";
import { clock } from "./words";

interface Event {
  at: number;
  event: string;
  way: string;
  peer: string;
  text: string;
}

/** What one process takes in and sends out, as it happens, until it is closed. */
export function Trace(props: { node: string; pid: string; onClose: () => void }) {
  const rows = useSignal<Event[]>([]);
  const error = useSignal("");
  useEffect(() => {
    const stop = new AbortController();
    rows.value = [];
    error.value = "";
    (async () => {
      try {
        const path = at(props.node, "/trace");
        for await (const row of lines<Event>(path, { pid: props.pid, seconds: 600, limit: 5000 }, stop.signal))
          rows.value = [row, ...rows.value].slice(0, 200);
      } catch (problem) {
        if (!stop.signal.aborted) error.value = problem instanceof Error ? problem.message : String(problem);
      }
    })();
    return () => stop.abort();
  }, [props.node, props.pid]);
  return (
    <Card title={`Trace of ${props.pid} on ${props.node}`} aside={<button onClick={props.onClose}>stop</button>}>
      <Oops error={error.value} />
      <Table
        label="Trace"
        head={["Time", "Event", "Way", "Peer", "What"]}
        empty="Nothing yet: it is quiet."
        rows={rows.value.map((row) => [clock(row.at), row.event, row.way, <code>{row.peer}</code>, <code>{row.text}</code>])}
      />
    </Card>
  );
}

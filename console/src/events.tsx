import { useSignal } from "@preact/signals";
import { get, type Page } from "./api";
import { names } from "./live";
import { Badge, Card, Choice, Missing, Oops, Pager, Search, Table, usePoll } from "./ui";
import { day, instant } from "./words";

interface Event {
  position: string;
  node: string;
  at: number;
  kind: string;
  peer: string;
  text: string;
}

/** Kinds, with how serious they are and what they say of the peer. */
const KINDS: Record<string, ["good" | "warn" | "bad" | "dim", string]> = {
  up: ["good", "is a member"],
  suspected: ["warn", "does not answer probes"],
  refuted: ["good", "was suspected, and lives"],
  down: ["bad", "is held for dead"],
  left: ["dim", "left in order"],
  link_up: ["good", "link stands"],
  link_down: ["warn", "link is gone"],
  partition: ["bad", "was apart, and is met again"],
  confirmed: ["bad", "was apart, confirmed"],
  plan: ["dim", "a heal is planned"],
  coordinates: ["dim", "carries out a heal"],
  reloaded: ["warn", "the store was reloaded"],
  healed: ["good", "a split is healed"],
  removed: ["dim", "was removed by autoclean"],
};

export function Events() {
  const text = useSignal("");
  const node = useSignal("");
  const kind = useSignal("");
  const after = useSignal<string[]>([]);
  const page = usePoll(
    () => get<Page<Event>>("/timeline", { limit: 50, after: after.value.at(-1), search: text.value, node: node.value, kind: kind.value }),
    3,
    [after.value.length, text.value, node.value, kind.value],
  );
  const set = (what: { value: string }) => (value: string) => {
    what.value = value;
    after.value = [];
  };
  const rows = page.data?.items ?? [];
  return (
    <Card title="What nodes saw lately" aside={<Pager after={after} next={page.data?.next} />}>
      <div class="tools">
        <Search label="Search" value={text.value} placeholder="part of a peer or a reason" onChange={set(text)} />
        <Choice label="Seen by" all="all nodes" value={node.value} of={names.value} onPick={set(node)} />
        <Choice label="Kind" all="all kinds" value={kind.value} of={Object.keys(KINDS).map((one) => [one, one.replace("_", " ")])} onPick={set(kind)} />
      </div>
      <Oops error={page.error} />
      <Missing missing={page.data?.missing} />
      {(page.data || !page.error) && (
        <Table
          label="Events"
          head={["At", "Seen by", "Event", "Peer", "What"]}
          empty={!page.data ? "Asking the nodes…" : text.value || node.value || kind.value ? "No event is like that." : "Nothing happened lately."}
          ids={rows.map((row) => `${row.node} ${row.position}`)}
          rows={rows.map((row) => {
            const [colour, means] = KINDS[row.kind] ?? ["dim", ""];
            return [
              <time>{day(row.at)} {instant(row.at)}</time>,
              row.node,
              <Badge kind={colour}>{row.kind.replace("_", " ")}</Badge>,
              row.peer,
              <>{means}{row.text ? <span class="dim">{means ? ": " : ""}{row.text}</span> : ""}</>,
            ];
          })}
        />
      )}
      <p class="dim">The latest first, by the clocks of the nodes. Each keeps its last 2,000 since it started.</p>
    </Card>
  );
}

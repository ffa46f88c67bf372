import { useSignal } from "@preact/signals";
import { get, order, type Page } from "./api";
import { ask } from "./ask";
import { refused } from "./rights";
import { Card, Oops, Pager, Search, Table, say, sorted, tell, usePoll } from "./ui";
import { bytes, moment } from "./words";

interface Retained {
  topic: string;
  qos: number | null;
  bytes: number | null;
  expires_at: number | null;
}

const HEAD = [
  { name: "Topic", by: "topic" },
  { name: "QoS", by: "qos", number: true },
  { name: "Size", by: "bytes", number: true },
  { name: "Expires", by: "expires_at" },
  { name: "" },
];

export function RetainedMessages() {
  const filter = useSignal("");
  const sort = useSignal("");
  const after = useSignal<string[]>([]);
  const turn = useSignal(0);
  const page = usePoll(
    () =>
      get<Page<Retained>>("/retained", {
        limit: 100,
        after: after.value.at(-1),
        filter: filter.value || "#",
        ...sorted(sort.value),
      }),
    4,
    [after.value.length, filter.value, sort.value],
    turn.value,
  );
  const may = refused("operator", "Removing a retained message");
  const remove = async (topic: string) => {
    const text = <>Who subscribes to <code>{topic}</code> later gets nothing until the next message that is to be retained.</>;
    if (!(await ask("Remove this retained message?", text, "remove it"))) return;
    try {
      await order("DELETE", "/retained", undefined, { topic });
      tell(`${topic}: nothing is retained any more`);
    } catch (problem) {
      say(problem);
    }
    turn.value++;
  };
  const set = (what: { value: string }) => (value: string) => {
    what.value = value;
    after.value = [];
  };
  const rows = page.data?.items ?? [];
  return (
    <Card title="Topics with a retained message" aside={<Pager after={after} next={page.data?.next} />}>
      <div class="tools">
        <Search label="Topic filter" value={filter.value} placeholder="plant/+/limit" onChange={set(filter)} />
      </div>
      <p class="dim">The same on every node. What is in a message nobody can read here: subscribe to its topic, as one who may.</p>
      <Oops error={page.error} />
      {(page.data || !page.error) && (
        <Table
          label="Retained messages"
          head={HEAD}
          sort={sort.value}
          onSort={set(sort)}
          empty={!page.data ? "Asking the node…" : filter.value ? "No retained message has a topic that this filter matches." : "Nothing is retained."}
          rows={rows.map((row) => [
            <code>{row.topic}</code>,
            row.qos ?? "",
            row.bytes === null ? <span class="dim">on other nodes</span> : bytes(row.bytes),
            row.expires_at ? moment(row.expires_at) : <span class="dim">never</span>,
            <button class="small" disabled={!!may} title={may} aria-label={`remove ${row.topic}`} onClick={() => remove(row.topic)}>remove</button>,
          ])}
        />
      )}
      {may && rows.length > 0 && <p class="dim">{may}</p>}
    </Card>
  );
}

import { useSignal } from "@preact/signals";
import { get, type Page } from "./api";
import { names } from "./live";
import { asked } from "./route";
import { Badge, Card, Choice, Missing, Oops, Pager, Search, Table, sorted, usePoll } from "./ui";

interface Subscription {
  client: string;
  filter: string;
  node: string;
  qos: number;
  no_local: boolean;
  retain_as_published: boolean;
  identifier: number | null;
}

const HEAD = [
  { name: "Client", by: "client" },
  { name: "Filter", by: "filter" },
  { name: "QoS", by: "qos", number: true },
  { name: "Node", by: "node" },
  { name: "Options" },
];

const options = (row: Subscription) =>
  [
    row.no_local && "not its own",
    row.retain_as_published && "retain as published",
    row.identifier !== null && `identifier ${row.identifier}`,
  ].filter(Boolean).join(", ");

export function Subscriptions() {
  const text = useSignal(asked("search"));
  const node = useSignal("");
  const sort = useSignal("");
  const after = useSignal<string[]>([]);
  const page = usePoll(
    () =>
      get<Page<Subscription>>("/subscriptions", {
        limit: 100,
        after: after.value.at(-1),
        search: text.value,
        node: node.value,
        ...sorted(sort.value),
      }),
    4,
    [after.value.length, text.value, node.value, sort.value],
  );
  const set = (what: { value: string }) => (value: string) => {
    what.value = value;
    after.value = [];
  };
  const rows = page.data?.items ?? [];
  return (
    <Card title="Subscriptions of all sessions" aside={<Pager after={after} next={page.data?.next} />}>
      <div class="tools">
        <Search label="Client or filter contains" value={text.value} placeholder="part of it, in any case" onChange={set(text)} />
        <Choice label="Node" all="all nodes" value={node.value} of={names.value} onPick={set(node)} />
      </div>
      <Oops error={page.error} />
      <Missing missing={page.data?.missing} />
      {(page.data || !page.error) && (
        <Table
          label="Subscriptions"
          head={HEAD}
          sort={sort.value}
          onSort={set(sort)}
          empty={!page.data ? "Asking the nodes…" : text.value || node.value ? "No subscription is like that." : "Nobody subscribes to anything."}
          rows={rows.map((row) => [
            <a href={`#/clients?search=${encodeURIComponent(row.client)}`}><code>{row.client}</code></a>,
            <>
              <code>{row.filter}</code>{" "}
              {row.filter.startsWith("$share/") && <Badge kind="dim">shared</Badge>}
            </>,
            row.qos,
            row.node,
            <span class="dim">{options(row)}</span>,
          ])}
        />
      )}
    </Card>
  );
}

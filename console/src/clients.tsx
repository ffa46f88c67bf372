import { useSignal } from "@preact/signals";
import { get, order, type Page } from "./api";
import { ask } from "./ask";
import { names } from "./live";
import { refused } from "./rights";
import { asked } from "./route";
import { Trace } from "./trace";
import { Badge, Card, Choice, Missing, Oops, Opened, Pager, Search, Table, say, sorted, tell, usePoll } from "./ui";
import { count, moment, span } from "./words";

interface Client {
  client: string;
  connected: boolean;
  node: string;
  address: string;
  version: string;
  username: string;
  keepalive: number;
  session_expiry: number;
  connected_at: number;
  subscriptions: number;
  inflight: number;
  queued: number;
  dropped: number;
  process: string;
}
interface Subscription {
  client: string;
  filter: string;
  node: string;
  qos: number;
}

const SIZE = 50;
const HEAD = [
  { name: "Client", by: "client" },
  { name: "User", by: "username" },
  { name: "Node", by: "node" },
  { name: "State", by: "connected_at" },
  { name: "Address", by: "address" },
  { name: "MQTT" },
  { name: "Subscriptions", by: "subscriptions", number: true },
  { name: "In flight", by: "inflight", number: true },
  { name: "Queued", by: "queued", number: true },
  { name: "Dropped", by: "dropped", number: true },
];

export function Clients() {
  const text = useSignal(asked("search"));
  const where = useSignal("search");
  const node = useSignal("");
  const state = useSignal("");
  const sort = useSignal("");
  const after = useSignal<string[]>([]);
  const picked = useSignal<Client | null>(null);
  const page = usePoll(
    () =>
      get<Page<Client>>("/clients", {
        limit: SIZE,
        after: after.value.at(-1),
        [where.value]: text.value,
        node: node.value,
        connected: state.value,
        ...sorted(sort.value),
      }),
    2,
    [after.value.length, text.value, where.value, node.value, state.value, sort.value],
  );
  // Another question begins with its first page.
  const set = (what: { value: string }) => (value: string) => {
    what.value = value;
    after.value = [];
  };
  const narrowed = !!(text.value || node.value || state.value);
  const rows = page.data?.items ?? [];
  return (
    <>
      {picked.value && (
        <Opened key={picked.value.client}>
          <Detail client={picked.value} onClose={() => (picked.value = null)} />
        </Opened>
      )}
      <Card title="Clients of all nodes" aside={<Pager after={after} next={page.data?.next} />}>
        <div class="tools">
          <Search label="Search" value={text.value} placeholder="part of it, in any case" onChange={set(text)} />
          <label>
            In
            <select value={where.value} onChange={(event) => set(where)(event.currentTarget.value)}>
              <option value="search">identifier</option>
              <option value="user">user name</option>
              <option value="address">address</option>
            </select>
          </label>
          <Choice label="Node" all="all nodes" value={node.value} of={names.value} onPick={set(node)} />
          <Choice label="State" all="connected or away" value={state.value} of={[["true", "connected"], ["false", "away"]]} onPick={set(state)} />
        </div>
        <Oops error={page.error} />
        <Missing missing={page.data?.missing} />
        {(page.data || !page.error) && (
          <Table
            label="Clients"
            head={HEAD}
            sort={sort.value}
            onSort={set(sort)}
            empty={!page.data ? "Asking the nodes…" : narrowed ? "No client is like that." : "No clients: nobody is connected, and no session is kept."}
            onPick={(row) => (picked.value = rows[row]!)}
            rows={rows.map((row) => [
              <code>{row.client}</code>,
              row.username,
              row.node,
              <Badge kind={row.connected ? "good" : "dim"}>{row.connected ? "connected" : "away"}</Badge>,
              row.address,
              row.version,
              count(row.subscriptions),
              count(row.inflight),
              count(row.queued),
              count(row.dropped),
            ])}
          />
        )}
      </Card>
    </>
  );
}

function Detail(props: { client: Client; onClose: () => void }) {
  const { client } = props;
  const tracing = useSignal(false);
  const page = usePoll(() => get<Page<Subscription>>("/subscriptions", { client: client.client, limit: 200 }), 3, [client.client]);
  const may = { trace: refused("admin", "Tracing"), kick: refused("operator", "Kicking a client") };
  const kick = async () => {
    if (!(await ask(`Kick ${client.client}?`, "Its connection and its session end; a client that is set to will come back.", "kick it"))) return;
    try {
      await order("DELETE", `/clients/${encodeURIComponent(client.client)}`);
      tell(`${client.client} is kicked`);
      props.onClose();
    } catch (error) {
      say(error);
    }
  };
  const rows = page.data?.items ?? [];
  return (
    <>
      <Card
        title={client.client}
        aside={
          <span class="pager">
            {client.process && (
              <button disabled={!!may.trace} title={may.trace} onClick={() => (tracing.value = !tracing.value)}>
                {tracing.value ? "stop trace" : "live trace"}
              </button>
            )}
            <button class="danger" disabled={!!may.kick} title={may.kick} onClick={kick}>kick</button>
            <button onClick={props.onClose}>close</button>
          </span>
        }
      >
        <p class="dim">
          {client.connected ? `connected to ${client.node} since ${moment(client.connected_at)}` : `away; its session is kept by ${client.node}`}
          {client.username ? `, as ${client.username}` : ""}
          {client.keepalive ? `, keep alive ${span(client.keepalive)}` : ""}
          {client.session_expiry ? `, session kept for ${client.session_expiry > 4e9 ? "ever" : span(client.session_expiry)}` : ""}
        </p>
        <Oops error={page.error} />
        <Table
          label="Subscriptions"
          head={["Filter", { name: "QoS", number: true }, "Node"]}
          empty={page.data ? "It subscribes to nothing." : "Asking the nodes…"}
          keys={rows.map((row) => [row.filter, row.qos, row.node])}
          rows={rows.map((row) => [<code>{row.filter}</code>, row.qos, row.node])}
        />
        {page.data?.next && <p class="dim">The first 200; <a href={`#/subscriptions?search=${encodeURIComponent(client.client)}`}>all of them</a>.</p>}
      </Card>
      {tracing.value && <Trace node={client.node} pid={client.process} onClose={() => (tracing.value = false)} />}
    </>
  );
}

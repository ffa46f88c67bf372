import { useSignal } from "@preact/signals";
import { get, order } from "./api";
import { ask } from "./ask";
import { Trace } from "./trace";
import { Badge, Card, Missing, Oops, Opened, Table, say, tell, usePoll } from "./ui";
import { count, span } from "./words";

interface Client {
  client: string;
  connected: boolean;
  node: string;
  address: string;
  version: string;
  username: string;
  keepalive: number;
  session_expiry: number;
  subscriptions: number;
  inflight: number;
  queued: number;
  process: string;
}
interface Subscription {
  client: string;
  filter: string;
  node: string;
  qos: number;
}
interface Page<T> {
  items: T[];
  next: string | null;
  missing: Record<string, string>;
}

export function Clients() {
  const wanted = useSignal("");
  const after = useSignal<string[]>([]);
  const picked = useSignal<Client | null>(null);
  const page = usePoll(
    () => get<Page<Client>>("/clients", { limit: 50, after: after.value.at(-1), client: wanted.value || undefined }),
    2,
    [after.value.length, wanted.value],
  );
  return (
    <>
      {picked.value && (
        <Opened key={picked.value.client}>
          <Detail client={picked.value} onClose={() => (picked.value = null)} />
        </Opened>
      )}
      <Card
        title="Clients of all nodes"
        aside={
          <>
            <button disabled={!after.value.length} onClick={() => (after.value = after.value.slice(0, -1))}>previous</button>{" "}
            <button disabled={!page.data?.next} onClick={() => (after.value = [...after.value, page.data!.next!])}>next</button>
          </>
        }
      >
        <label>
          Client identifier, exactly
          <input name="client" autocomplete="off" spellcheck={false} value={wanted.value} onChange={(event) => { wanted.value = event.currentTarget.value; after.value = []; }} />
        </label>
        <Oops error={page.error} />
        <Missing missing={page.data?.missing} />
        <Table
          label="Clients"
          head={["Client", "Node", "State", "Address", "MQTT", "Keep alive", "Subscriptions", "In flight", "Queued"]}
          empty="no clients"
          onPick={(row) => (picked.value = page.data!.items[row]!)}
          rows={(page.data?.items ?? []).map((row) => [
            <code>{row.client}</code>,
            row.node,
            <Badge kind={row.connected ? "good" : "dim"}>{row.connected ? "connected" : "away"}</Badge>,
            row.address,
            row.version,
            row.keepalive ? span(row.keepalive) : "",
            count(row.subscriptions),
            count(row.inflight),
            count(row.queued),
          ])}
        />
      </Card>
    </>
  );
}

function Detail(props: { client: Client; onClose: () => void }) {
  const { client } = props;
  const tracing = useSignal(false);
  const page = usePoll(() => get<Page<Subscription>>("/subscriptions", { client: client.client, limit: 200 }), 3, [client.client]);
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
  return (
    <>
      <Card
        title={client.client}
        aside={
          <>
            {client.process && <button onClick={() => (tracing.value = !tracing.value)}>{tracing.value ? "stop trace" : "live trace"}</button>}{" "}
            <button class="danger" onClick={kick}>kick</button> <button onClick={props.onClose}>close</button>
          </>
        }
      >
        <p class="dim">
          on {client.node}
          {client.username ? ` as ${client.username}` : ""}
          {client.session_expiry ? `, session kept for ${span(client.session_expiry)}` : ""}
        </p>
        <Oops error={page.error} />
        <Table
          label="Subscriptions"
          head={["Filter", "QoS", "Node"]}
          empty="no subscriptions"
          rows={(page.data?.items ?? []).map((row) => [<code>{row.filter}</code>, row.qos, row.node])}
        />
      </Card>
      {tracing.value && <Trace node={client.node} pid={client.process} onClose={() => (tracing.value = false)} />}
    </>
  );
}

import { signal } from "@preact/signals";
import type { MqttClient } from "mqtt";
import { get } from "./api";
import { Feed, Lines } from "./lines";
import { sample } from "./live";
import { Badge, Card, say, tell, usePoll } from "./ui";
import { instant } from "./words";

interface Node {
  name: string;
  address: string;
  ports: Record<string, number>;
}

const client = signal<MqttClient | null>(null);
const state = signal<"off" | "connecting" | "connected">("off");
/** What came, also while another page was looked at. */
const messages = new Feed();
const filters = signal<string[]>([]);

/**
 * Where nodes listen for WebSockets; the one that this page is of comes first. A page that came over TLS may open
 * none without.
 */
function addresses(nodes: Node[]): string[] {
  const here = sample.value?.asked;
  const order = [...nodes].sort((one, other) => Number(other.name === here) - Number(one.name === here));
  const kinds = location.protocol === "https:" ? /^mqtt_wss(_|$)/ : /^mqtt_wss?(_|$)/;
  return order.flatMap((node) =>
    Object.entries(node.ports)
      .filter(([kind]) => kinds.test(kind))
      .map(([kind, port]) => {
        const bound = node.address.slice(0, node.address.lastIndexOf(":"));
        const host = node.name === here || bound.startsWith("127.") ? location.hostname : bound;
        return `${kind.startsWith("mqtt_wss") ? "wss" : "ws"}://${host}:${port}/mqtt`;
      }),
  );
}

async function connect(url: string, username: string, password: string) {
  const { default: mqtt } = await import("mqtt");
  disconnect();
  state.value = "connecting";
  const made = mqtt.connect(url, {
    protocolVersion: 5,
    clientId: `console-${Math.random().toString(36).slice(2, 10)}`,
    reconnectPeriod: 2000,
    // The others run in a worker made of text, which the policy of the page forbids.
    timerVariant: "native",
    ...(username ? { username, password } : {}),
  });
  made.on("connect", () => {
    state.value = "connected";
    if (filters.value.length) made.subscribe(filters.value, { qos: 1 });
  });
  made.on("close", () => (state.value = client.value === made ? "connecting" : "off"));
  made.on("error", (error) => {
    say(error);
    // Refused by the node, and not tried again: not for want of a connection, whose errors have no number.
    if (client.value === made && "code" in error && typeof error.code === "number") disconnect();
  });
  made.on("disconnect", ({ reasonCode, properties }) => {
    const why = properties?.reasonString ? `: ${properties.reasonString}` : "";
    tell(`The node ended the connection, reason 0x${(reasonCode ?? 0).toString(16).padStart(2, "0")}${why}`, true);
  });
  made.on("message", (topic, payload, packet) => {
    const text = new TextDecoder().decode(payload).slice(0, 2000);
    messages.add([instant(Date.now() / 1000), topic, String(packet.qos), packet.retain ? "retained" : "", text]);
  });
  client.value = made;
}

function disconnect() {
  const old = client.value;
  client.value = null;
  state.value = "off";
  old?.end(true);
}

function subscribe(filter: string) {
  client.value?.subscribe(filter, { qos: 1 }, (error) => {
    if (error) say(error);
    else filters.value = [...new Set([...filters.value, filter])];
  });
}

function unsubscribe(filter: string) {
  filters.value = filters.value.filter((one) => one !== filter);
  client.value?.unsubscribe(filter, (error) => error && say(error));
}

export function Mqtt() {
  const nodes = usePoll(() => get<Node[]>("/nodes"), 10);
  const known = addresses(nodes.data ?? []);
  const on = state.value === "connected";
  return (
    <>
      <Card title="MQTT client" aside={<Badge kind={on ? "good" : state.value === "off" ? "dim" : "warn"}>{state.value}</Badge>}>
        {!known.length && nodes.data && (
          <p class="hint">
            A browser speaks MQTT over WebSockets, and no node listens for them yet: add{" "}
            <code>{location.protocol === "https:" ? "- {type: wss, port: 8084, tls: …}" : "- {type: ws, port: 8083}"}</code> to{" "}
            <code>mqtt.server.listeners</code> in a node's configuration and start it again, and this page finds it.
          </p>
        )}
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            const form = new FormData(event.currentTarget as HTMLFormElement);
            if (client.value) disconnect();
            else connect(String(form.get("url")), String(form.get("username")), String(form.get("password"))).catch(say);
          }}
        >
          <label>Address <input name="url" required list="addresses" size={30} key={known[0]} defaultValue={known[0] ?? ""} /></label>
          <datalist id="addresses">{known.map((url) => <option key={url} value={url} />)}</datalist>
          <label>User name <input name="username" autocomplete="username" /></label>
          <label>Password <input name="password" type="password" autocomplete="current-password" /></label>
          <button disabled={!known.length && !client.value}>{client.value ? "disconnect" : "connect"}</button>
        </form>
      </Card>
      <Card title="Subscribe and publish" aside={on ? "" : "connect first"}>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            subscribe(String(new FormData(event.currentTarget as HTMLFormElement).get("filter")));
          }}
        >
          <label>Filter <input name="filter" required placeholder="plant/#" /></label>
          <button disabled={!on}>subscribe</button>
          {filters.value.map((filter) => (
            <button key={filter} type="button" disabled={!on} aria-label={`unsubscribe from ${filter}`} title="Unsubscribe" onClick={() => unsubscribe(filter)}>
              <code>{filter}</code> ×
            </button>
          ))}
        </form>
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            const form = new FormData(event.currentTarget as HTMLFormElement);
            const qos = Number(form.get("qos")) as 0 | 1 | 2;
            client.value?.publish(String(form.get("topic")), String(form.get("payload")), { qos, retain: form.has("retain") }, (error) => error && say(error));
          }}
        >
          <label>Topic <input name="topic" required placeholder="plant/3/temperature" /></label>
          <label>Payload <input name="payload" size={24} /></label>
          <label>QoS <select name="qos"><option>0</option><option>1</option><option>2</option></select></label>
          <label class="inline"><input type="checkbox" name="retain" /> retain</label>
          <button disabled={!on}>publish</button>
        </form>
        <Lines
          feed={messages}
          label="Messages"
          kind="messages"
          head={["Time", "Topic", "QoS", "", "Payload"]}
          empty={on ? "No message came yet." : "Nothing is here before you connect and subscribe."}
        />
      </Card>
    </>
  );
}

import { useSignal } from "@preact/signals";
import { ClusterMap } from "./map";
import { LastHour, Spark } from "./lasthour";
import { latest, names, sample, sides, type Pulse } from "./live";
import { Badge, Card, Oops, Table, statusKind } from "./ui";
import { bytes, count, short, span } from "./words";

/** Nodes that have a card each; more of them are rows of a table. */
const CARDS = 6;

export function SplitBanner() {
  const now = sample.value;
  if (!now) return null;
  const answering = new Set(now.nodes.map((pulse) => pulse.node));
  const groups = sides.value.filter((group) => group.some((name) => answering.has(name)));
  const silent = Object.entries(now.missing);
  return (
    <>
      {groups.length > 1 && (
        <p class="banner bad" role="alert">
          <strong>Split:</strong> {groups.map((group) => group.map(short).join(", ")).join("  |  ")}
        </p>
      )}
      {silent.length > 0 && (
        <p class="banner" role="status">
          <strong>Out of reach:</strong> {silent.map(([name, why]) => `${short(name)} (${why})`).join(", ")}: dead, or on the other side of a split. What these pages show is of the nodes that answer.
        </p>
      )}
    </>
  );
}

export function Overview() {
  const picked = useSignal("");
  const now = sample.value;
  if (!now) return <p class="empty">Waiting for the first pulse of the cluster…</p>;
  const sum = (key: "received" | "sent" | "dropped") => names.value.reduce((all, name) => all + (latest(name)?.[key] ?? 0), 0);
  const connections = now.nodes.reduce((all, pulse) => all + pulse.connections, 0);
  const pulse = now.nodes.find((one) => one.node === picked.value);
  return (
    <>
      <div class="figures">
        <Figure label="Nodes that answer" value={`${now.nodes.length} of ${names.value.length}`} />
        <Figure label="Clients" value={count(connections)} />
        <Figure label="Messages in" value={`${count(sum("received"))} /s`} />
        <Figure label="Messages out" value={`${count(sum("sent"))} /s`} />
        <Figure label="Dropped, or for nobody" value={`${count(sum("dropped"))} /s`} />
      </div>
      <Card title="Who sees whom" aside="one line: they see each other, and links are up · amber: suspects it · red: holds it for down">
        <ClusterMap picked={picked.value} onPick={(name) => (picked.value = picked.value === name ? "" : name)} />
      </Card>
      {picked.value && (
        <Card title={picked.value} aside={pulse ? `up ${span(pulse.uptime)}, ${pulse.version}` : ""}>
          {pulse ? (
            <Table
              label={`What ${picked.value} sees`}
              head={["Sees", "As", "Link", { name: "Sends", number: true }]}
              empty="nobody"
              keys={Object.entries(pulse.sees).map(([name, seen]) => [name, seen.status, seen.link, latest(pulse.node)?.forwarded[name] ?? 0])}
              rows={Object.entries(pulse.sees).map(([name, seen]) => [
                name,
                <Badge kind={statusKind(seen.status)}>{seen.status}</Badge>,
                <Badge kind={statusKind(seen.link)}>{seen.link}</Badge>,
                name === pulse.node ? "" : `${bytes(latest(pulse.node)?.forwarded[name] ?? 0)}/s`,
              ])}
            />
          ) : (
            <Oops error={now.missing[picked.value] ?? "it does not answer"} />
          )}
        </Card>
      )}
      <LastHour />
      {names.value.length > CARDS ? (
        <Nodes pulses={now.nodes} missing={now.missing} />
      ) : (
        <div class="grid">
          {names.value.map((name) => (
            <NodeCard key={name} name={name} pulse={now.nodes.find((one) => one.node === name)} why={now.missing[name]} />
          ))}
        </div>
      )}
    </>
  );
}

function NodeCard(props: { name: string; pulse: Pulse | undefined; why: string | undefined }) {
  const { name, pulse } = props;
  const rate = latest(name);
  return (
    <Card title={name} aside={<Badge kind={pulse ? statusKind(pulse.state) : "bad"}>{pulse ? pulse.state : "silent"}</Badge>}>
      {pulse ? (
        <>
          <dl class="facts">
            <div><dt class="in">In</dt><dd>{rate ? count(rate.received) : "–"} /s</dd></div>
            <div><dt class="out">Out</dt><dd>{rate ? count(rate.sent) : "–"} /s</dd></div>
            <div><dt>Clients</dt><dd>{count(pulse.connections)}</dd></div>
            <div><dt>Filters</dt><dd>{count(pulse.filters)}</dd></div>
            <div><dt>Memory</dt><dd>{bytes(pulse.memory)}</dd></div>
            <div><dt>Loop late</dt><dd class={pulse.loop_lag > 0.1 ? "bad" : ""}>{span(pulse.loop_lag)}</dd></div>
          </dl>
          <Spark node={name} kind="sent" color="var(--accent)" label={`Messages out of ${name} in the last hour`} />
          <Spark node={name} kind="received" color="var(--second)" label={`Messages into ${name} in the last hour`} />
        </>
      ) : (
        <Oops error={props.why ?? "it does not answer"} />
      )}
    </Card>
  );
}

const NODES = [
  "Node",
  "State",
  ...["In /s", "Out /s", "Clients", "Filters", "Memory", "Loop late"].map((name) => ({ name, number: true })),
];

function Nodes(props: { pulses: Pulse[]; missing: Record<string, string> }) {
  const rows = names.value.map((name) => ({ name, pulse: props.pulses.find((one) => one.node === name), rate: latest(name) }));
  return (
    <Card title="Nodes">
      <Table
        label="Nodes"
        head={NODES}
        empty="no nodes"
        keys={rows.map(({ name, pulse, rate }) => [
          name, pulse?.state ?? "silent", rate?.received ?? -1, rate?.sent ?? -1,
          pulse?.connections ?? -1, pulse?.filters ?? -1, pulse?.memory ?? -1, pulse?.loop_lag ?? -1,
        ])}
        rows={rows.map(({ name, pulse, rate }) => [
          name,
          <Badge kind={pulse ? statusKind(pulse.state) : "bad"}>{pulse ? pulse.state : "silent"}</Badge>,
          ...(pulse
            ? [rate ? count(rate.received) : "–", rate ? count(rate.sent) : "–", count(pulse.connections), count(pulse.filters), bytes(pulse.memory), span(pulse.loop_lag)]
            : ["–", "–", "–", "–", "–", "–"]),
        ])}
      />
    </Card>
  );
}

function Figure(props: { label: string; value: string }) {
  return (
    <div class="figure">
      <span>{props.label}</span>
      <strong>{props.value}</strong>
    </div>
  );
}

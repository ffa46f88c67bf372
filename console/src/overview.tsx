import { useSignal } from "@preact/signals";
import { ClusterMap } from "./map";
import { history, latest, names, sample, sides } from "./live";
import { Badge, Card, Line, Oops, Table, statusKind } from "./ui";
import { bytes, count, short, span } from "./words";

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
      <Card title="Who sees whom" aside="green: sees it, and the link is up · amber: suspects it · red: holds it for down">
        <ClusterMap picked={picked.value} onPick={(name) => (picked.value = picked.value === name ? "" : name)} />
      </Card>
      {picked.value && (
        <Card title={picked.value} aside={pulse ? `up ${span(pulse.uptime)}, ${pulse.version}` : ""}>
          {pulse ? (
            <Table
              label={`What ${picked.value} sees`}
              head={["Sees", "As", "Link", "Sends"]}
              empty="nobody"
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
      <div class="grid">
        {names.value.map((name) => {
          const node = now.nodes.find((one) => one.node === name);
          const rows = history.value.get(name) ?? [];
          const rate = latest(name);
          return (
            <Card
              key={name}
              title={name}
              aside={<Badge kind={node ? statusKind(node.state) : "bad"}>{node ? node.state : "silent"}</Badge>}
            >
              {node ? (
                <>
                  <dl class="facts">
                    <div><dt class="in">In</dt><dd>{rate ? count(rate.received) : "–"} /s</dd></div>
                    <div><dt class="out">Out</dt><dd>{rate ? count(rate.sent) : "–"} /s</dd></div>
                    <div><dt>Clients</dt><dd>{count(node.connections)}</dd></div>
                    <div><dt>Filters</dt><dd>{count(node.filters)}</dd></div>
                    <div><dt>Memory</dt><dd>{bytes(node.memory)}</dd></div>
                    <div><dt>Loop late</dt><dd class={node.loop_lag > 0.1 ? "bad" : ""}>{span(node.loop_lag)}</dd></div>
                  </dl>
                  <Line label={`Messages out of ${name} in the last minutes`} values={rows.map((row) => row?.sent ?? null)} />
                  <Line label={`Messages into ${name} in the last minutes`} color="var(--second)" values={rows.map((row) => row?.received ?? null)} />
                </>
              ) : (
                <Oops error={now.missing[name] ?? "it does not answer"} />
              )}
            </Card>
          );
        })}
      </div>
    </>
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

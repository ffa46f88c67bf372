import { useSignal } from "@preact/signals";
import { get } from "./api";
import { asked } from "./route";
import { Badge, Card, Oops, Opened, Table, usePoll } from "./ui";
import { bytes, count, many, short, span } from "./words";

interface Queue {
  name: string;
  type: string;
  replication_group: string;
  depth: number;
  bytes: number;
  oldest: number;
  consumers: number;
  held: number;
  appended: number;
  settled: number;
  redelivered: number;
  dead: number;
  dropped: number;
  topics: string[];
}

interface Consumer {
  client: string;
  node: string;
  held: number;
  limit: number;
  stuck: boolean;
}

interface Details extends Queue {
  groups: { name: string; cursor: number; committed: number; waiting: number; held: number; delayed: number; consumers: Consumer[] }[];
}

const number = (name: string) => ({ name, number: true });

/** Consumer groups of one queue, how far each is, and who consumes. */
function One({ name }: { name: string }) {
  const { data, error } = usePoll(() => get<Details>(`/queues/${encodeURIComponent(name)}`), 2, [name]);
  const consumers = data?.groups.flatMap((group) => group.consumers.map((one) => ({ ...one, group: group.name }))) ?? [];
  return (
    <Card title={`Queue ${name}`} aside={data ? `${data.type}, in group ${data.replication_group}` : ""}>
      <Oops error={error} />
      {data && (
        <>
          <p>
            {many(data.appended, "message")} came, {count(data.settled)} settled, {count(data.redelivered)} given again,{" "}
            {count(data.dead)} dead letters, {count(data.dropped)} dropped.
            {data.topics.length > 0 && <> It captures {data.topics.map((one) => <code key={one}>{one} </code>)}</>}
          </p>
          <Table
            label="Consumer groups"
            head={["Consumer group", number("Waiting"), number("Held"), number("Delayed"), number("Committed"), number("Cursor"), "Consumers"]}
            empty="No consumer group: nobody has consumed."
            rows={data.groups.map((group) => [
              group.name,
              group.waiting > 0 && !group.consumers.length ? <Badge kind="warn">{count(group.waiting)}</Badge> : count(group.waiting),
              count(group.held),
              count(group.delayed),
              String(group.committed),
              String(group.cursor),
              group.consumers.length ? count(group.consumers.length) : <Badge kind={group.waiting ? "warn" : "dim"}>none</Badge>,
            ])}
          />
          {consumers.length > 0 && (
            <Table
              label="Consumers"
              head={["Consumer", "Consumer group", "Node", number("Held"), number("At most"), "State"]}
              empty=""
              rows={consumers.map((one) => [
                one.client,
                one.group,
                short(one.node),
                count(one.held),
                count(one.limit),
                one.stuck ? <Badge kind="bad">stuck</Badge> : <Badge kind="good">consumes</Badge>,
              ])}
            />
          )}
        </>
      )}
    </Card>
  );
}

export function Queues() {
  const name = useSignal(asked("queue"));
  const { data, error } = usePoll(() => get<Queue[]>("/queues"), 3, []);
  const queues = data ?? [];
  return (
    <>
      <Card title="Queues" aside={data ? `${many(queues.reduce((sum, one) => sum + one.depth, 0), "message")} wait` : ""}>
        <Oops error={error} />
        <Table
          label="Queues"
          head={["Queue", "Type", number("Depth"), number("Size"), number("Oldest"), number("Consumers"), number("Held"), number("Dead"), "Topics"]}
          empty="No queues: gossamer queues create NAME makes one."
          ids={queues.map((one) => one.name)}
          onPick={(row) => (name.value = queues[row]!.name)}
          keys={queues.map((one) => [one.name, one.type, one.depth, one.bytes, one.oldest, one.consumers, one.held, one.dead, one.topics.join(" ")])}
          rows={queues.map((one) => [
            one.name,
            one.type,
            count(one.depth),
            bytes(one.bytes),
            one.depth ? span(one.oldest) : "",
            one.depth && !one.consumers ? <Badge kind="warn">none</Badge> : count(one.consumers),
            count(one.held),
            count(one.dead),
            one.topics.join(" "),
          ])}
        />
      </Card>
      {queues.some((one) => one.name === name.value) && (
        <Opened key={name.value}>
          <One name={name.value} />
        </Opened>
      )}
    </>
  );
}

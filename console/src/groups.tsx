import { get } from "./api";
import { names } from "./live";
import { Badge, Card, Oops, Table, usePoll } from "./ui";
import { count, short } from "./words";

interface Replica {
  node: string;
  replica: number;
  voter: boolean;
  match: number | null;
  flow: string;
}

interface Group {
  kind: string;
  group: string;
  leader: string;
  term: number;
  committed: number;
  changing: boolean;
  members: Replica[];
}

/** What a node has of a group; how many entries it lacks, where its leader knows. */
function Place({ group, node }: { group: Group; node: string }) {
  const member = group.members.find((one) => one.node === node);
  if (!member) return <span class="dim">–</span>;
  if (node === group.leader) return <Badge kind="good">leads</Badge>;
  const lacks = member.match === null ? 0 : Math.max(0, group.committed - member.match);
  const kind = member.flow === "snapshot" || lacks > 256 ? "warn" : "dim";
  return (
    <Badge kind={kind}>
      {member.voter ? "voter" : "learner"}
      {lacks > 0 ? `, lacks ${count(lacks)}` : ""}
    </Badge>
  );
}

export function Groups() {
  const { data, error } = usePoll(() => get<Group[]>("/raft"), 3, []);
  const groups = data ?? [];
  const told = groups.flatMap((group) => group.members.map((member) => member.node)).filter(Boolean);
  const nodes = [...new Set([...names.value, ...told])].sort();
  const led = groups.filter((group) => group.leader).length;
  return (
    <Card title="Groups of replicas" aside={data ? `${led} of ${groups.length} have a leader` : ""}>
      <Oops error={error} />
      <Table
        label="Groups of replicas"
        head={["Group", "Term", "Committed", "State", ...nodes.map(short)]}
        empty="No groups: they are founded once three nodes have been together for some seconds."
        rows={groups.map((group) => [
          <span title={`number ${group.group}`}>{group.kind}</span>,
          count(group.term),
          count(group.committed),
          group.leader
            ? <Badge kind={group.changing ? "warn" : "good"}>{group.changing ? "voters change" : "led"}</Badge>
            : <Badge kind="bad">no quorum</Badge>,
          ...nodes.map((node) => <Place group={group} node={node} />),
        ])}
      />
      <p class="dim">
        <code>names</code> has the holders of unique names, <code>basekv/…</code> are ranges of keys with the copies of
        persistent sessions, <code>queues/…</code> have queues. A group goes on while more than half of its voters are up.
      </p>
    </Card>
  );
}

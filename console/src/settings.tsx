import { useSignal } from "@preact/signals";
import { at, get, order, setToken, token, who } from "./api";
import { ask } from "./ask";
import { follow, names, sample } from "./live";
import { Badge, Card, NodePicker, Oops, Table, say, tell, usePoll } from "./ui";
import { moment } from "./words";

interface Token {
  id: string;
  name: string;
  role: string;
  created_at: number;
  expires_at: number;
  created_by: string;
  expired: boolean;
}

export function Settings() {
  const node = useSignal("");
  const turn = useSignal(0);
  const made = useSignal("");
  const name = node.value || sample.value?.asked || "";
  const tokens = usePoll(() => get<Token[]>("/tokens"), 5, [turn.value, token.value]);
  const level = usePoll(() => (name ? get<{ level: string }>(at(name, "/log-level")) : Promise.resolve(null)), 5, [name, turn.value]);
  const config = usePoll(() => (name ? get<{ changed: object }>(at(name, "/config")) : Promise.resolve(null)), 30, [name]);
  const act = async (what: () => Promise<unknown>, done: string) => {
    try {
      await what();
      tell(done);
    } catch (error) {
      say(error);
    }
    turn.value++;
  };
  const create = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    act(async () => {
      const body = { name: form.get("name"), role: form.get("role"), expires: `${form.get("days")}d` };
      made.value = (await order<{ token: string }>("POST", "/tokens", body)).token;
    }, "token made: copy it now");
  };
  return (
    <>
      <Card title="You" aside={who.value ? `${who.value.name}, ${who.value.role}` : ""}>
        <p class="dim">
          {token.value ? "This page uses a token, kept until the tab is closed." : "Without a token you are what this node lets your address be."}
        </p>
        {token.value && <button onClick={() => { setToken(""); follow(); }}>forget the token</button>}
      </Card>
      <Card title="Tokens">
        <Oops error={tokens.error} />
        <Table
          label="Tokens"
          head={["Name", "Role", "Made", "By", "Expires", ""]}
          empty="no tokens: nobody is let in from other machines"
          rows={(tokens.data ?? []).map((row) => [
            row.name,
            row.role,
            moment(row.created_at),
            row.created_by,
            row.expired ? <Badge kind="bad">expired</Badge> : moment(row.expires_at) || "never",
            <button class="danger" onClick={async () => (await ask(`Revoke ${row.name}?`, "Who uses this token is let in no more, at any node, at once.", "revoke it")) && act(() => order("DELETE", `/tokens/${row.id}`), `${row.name} is let in no more`)}>revoke</button>,
          ])}
        />
        <form class="row" onSubmit={create}>
          <label>Name <input name="name" required maxLength={100} pattern="[\w.@ \-]+" /></label>
          <label>Role <select name="role"><option>viewer</option><option>operator</option><option>admin</option></select></label>
          <label>Days <input name="days" type="number" min={1} max={3650} value={90} /></label>
          <button>make a token</button>
        </form>
        {made.value && <p class="banner">Shown once: <code>{made.value}</code></p>}
      </Card>
      <Card title="This node runs with" aside={<NodePicker names={names.value} value={name} onPick={(picked) => (node.value = picked)} />}>
        <div class="row">
          <label>
            Log level{" "}
            <select value={level.data?.level ?? "info"} onChange={(event) => act(() => order("PUT", at(name, "/log-level"), { level: event.currentTarget.value }), "log level changed")}>
              {["debug", "info", "warning", "error"].map((one) => <option key={one}>{one}</option>)}
            </select>
          </label>
          <button onClick={() => act(() => order("POST", at(name, "/config/reload"), {}), "certificates, passwords and access lists were read again")}>read files again</button>
        </div>
        <Oops error={config.error} />
        <pre tabIndex={0}>{config.data ? JSON.stringify(config.data.changed, null, 2) : ""}</pre>
      </Card>
    </>
  );
}

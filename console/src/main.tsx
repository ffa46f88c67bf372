import { signal } from "@preact/signals";
import { render, type FunctionComponent } from "preact";
import { useEffect } from "preact/hooks";
import { locked, setToken, who } from "./api";
import { Questions } from "./ask";
import { Clients } from "./clients";
import { Events } from "./events";
import { connected, follow, sample } from "./live";
import { Mqtt } from "./mqtt";
import { Overview, SplitBanner } from "./overview";
import { Processes } from "./processes";
import { RetainedMessages } from "./retained";
import { pageName } from "./route";
import { Subscriptions } from "./subscriptions";
import { Tables } from "./tables";
import { Topics } from "./topics";
import { Notes, Oops } from "./ui";

/** A page that is loaded when somebody opens it. */
function later(load: () => Promise<FunctionComponent>): FunctionComponent {
  const page = signal<FunctionComponent | null>(null);
  const error = signal("");
  return () => {
    useEffect(() => {
      if (page.value) return;
      load().then(
        (loaded) => (page.value = loaded),
        () => (error.value = "This page did not come: the node does not answer. Open it again."),
      );
    }, []);
    const Page = page.value;
    return Page ? <Page /> : <Oops error={error.value} />;
  };
}

const PAGES = [
  ["overview", "Cluster", Overview],
  ["clients", "Clients", Clients],
  ["subscriptions", "Subscriptions", Subscriptions],
  ["topics", "Topics", Topics],
  ["retained", "Retained", RetainedMessages],
  ["queues", "Queues", later(async () => (await import("./queues")).Queues)],
  ["events", "Events", Events],
  ["processes", "Processes", Processes],
  ["tables", "Tables", Tables],
  ["groups", "Groups", later(async () => (await import("./groups")).Groups)],
  ["healing", "Healing", later(async () => (await import("./healing")).Healing)],
  ["drills", "Drills", later(async () => (await import("./drills")).Drills)],
  ["audit", "Audit", later(async () => (await import("./audit")).Audit)],
  ["mqtt", "MQTT client", Mqtt],
  ["settings", "Settings", later(async () => (await import("./settings")).Settings)],
  ["api", "API", later(async () => (await import("./apidoc")).ApiDoc)],
] as const;

const page = signal(pageName());
window.addEventListener("hashchange", () => {
  page.value = pageName();
  document.querySelector("main")?.focus({ preventScroll: true });
  scrollTo(0, 0);
});

const theme = signal(localStorage.getItem("theme") ?? "");
const paint = () => {
  if (theme.value) document.documentElement.dataset.theme = theme.value;
  else delete document.documentElement.dataset.theme;
};
paint();

function turn() {
  const dark = theme.value ? theme.value === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  theme.value = dark ? "light" : "dark";
  localStorage.setItem("theme", theme.value);
  paint();
}

function Login() {
  return (
    <form
      class="card login"
      onSubmit={(event) => {
        event.preventDefault();
        setToken(String(new FormData(event.currentTarget as HTMLFormElement).get("token")));
        follow();
      }}
    >
      <h1>gossamer</h1>
      <p class="oops">{locked.value}</p>
      <label>
        Token
        <input name="token" type="password" autocomplete="off" placeholder="gsm_…" required autofocus />
      </label>
      <button>come in</button>
      <p class="dim">Make one on a node: <code>gossamer tokens create NAME --role operator</code></p>
    </form>
  );
}

function App() {
  // On a phone the pages stand in a row that scrolls.
  useEffect(() => {
    const nav = document.querySelector<HTMLElement>("nav");
    const link = nav?.querySelector<HTMLElement>("[aria-current]");
    if (nav && link) nav.scrollLeft = link.offsetLeft - (nav.clientWidth - link.offsetWidth) / 2;
  }, [page.value, locked.value]);
  if (locked.value) return <Login />;
  const [, title, Page] = PAGES.find(([name]) => name === page.value) ?? PAGES[0];
  document.title = `${title} · gossamer`;
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.querySelector("main")?.focus(); }}>Skip to the page</a>
      <nav aria-label="Pages">
        <a class="logo" href="#/overview"><img src="/console/icon.svg" alt="" width="24" height="24" /> gossamer</a>
        {PAGES.map(([name, text]) => (
          <a key={name} href={`#/${name}`} aria-current={page.value === name ? "page" : undefined}>{text}</a>
        ))}
        <button class="theme" onClick={turn} aria-label="Light or dark">◐</button>
      </nav>
      <main id="main" tabIndex={-1}>
        <header class="top">
          <h1>{title}</h1>
          <span class="dim" role="status">
            {connected.value ? `live from ${sample.value?.asked ?? ""}` : "the node does not answer; trying again"}
            {who.value ? ` · ${who.value.name}, ${who.value.role}` : ""}
          </span>
        </header>
        <SplitBanner />
        <Page />
      </main>
      <Questions />
      <Notes />
    </>
  );
}

render(<App />, document.getElementById("app")!);
follow();

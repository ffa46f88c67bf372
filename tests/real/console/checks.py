"""What a page is asked in the browser, as JavaScript: each gives a list of what is wrong, as text."""

from playwright.sync_api import expect

PATIENCE = 30_000
"""Milliseconds that a page gets to show something."""
PAGES = (
    *("overview", "clients", "subscriptions", "topics", "retained", "queues", "events"),
    *("processes", "tables", "groups", "healing"),
    *("drills", "audit", "mqtt", "settings", "api"),
)

NAMELESS = """() => {
  const text = node => (node.getAttribute('aria-label') ?? node.textContent ?? '').trim();
  const wrong = [];
  for (const node of document.querySelectorAll('input, select, textarea'))
    if (!node.labels?.length && !node.getAttribute('aria-label')) wrong.push(node.outerHTML);
  for (const node of document.querySelectorAll('button, a, [role=button]'))
    if (!text(node)) wrong.push(node.outerHTML);
  const regions = '[role=img], [role=region], [role=tree], svg.map, iframe, nav';
  for (const node of document.querySelectorAll(regions))
    if (!node.getAttribute('aria-label') && !node.title) wrong.push(node.outerHTML.slice(0, 200));
  return wrong;
}"""
"""Fields, buttons, pictures and regions that a reader of screens has no name for."""

MOVING = """() => [...document.querySelectorAll('*')].filter(node => {
  const style = getComputedStyle(node);
  const lasts = style.transitionDuration.split(', ').some(one => parseFloat(one) > 0);
  return style.animationName !== 'none' || lasts;
}).map(node => node.outerHTML.slice(0, 100))"""
"""What moves although the person asked for less of it."""

FAINT = """() => {
  const read = text => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = node => {
    for (; node; node = node.parentElement) {
      const found = read(getComputedStyle(node).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const wrong = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(one => one.nodeType === 3 && one.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest(':disabled, noscript')) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(read(node.closest('svg') ? style.fill : style.color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) wrong.push(`${ratio.toFixed(2)} ${node.outerHTML.slice(0, 120)}`);
  }
  return wrong;
}"""
"""Text with less contrast than WCAG's AA asks of text of this size."""

NOTE_SILENCE = """name => {
  const look = () => {
    const banner = document.querySelector('.banner')?.textContent;
    if (banner?.includes(`Out of reach: ${name}`)) document.documentElement.dataset.told = name;
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Sets ``data-told`` once the page says that a node does not answer, however soon it is back."""

OVERLAPS = """() => {
  const map = document.querySelector('svg.map').getBoundingClientRect();
  const texts = [...document.querySelectorAll('.map .name, .map .flow, .map .rate')];
  const boxes = texts.map(node => [node.textContent, node.getBoundingClientRect()]);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const wrong = [];
  boxes.forEach(([name, a], at) => {
    if (a.left < map.left - 1 || a.right > map.right + 1) wrong.push(`${name} is cut off`);
    for (const [other, b] of boxes.slice(at + 1)) if (meet(a, b)) wrong.push(`${name} ${other}`);
    for (const circle of document.querySelectorAll('.map .node circle')) {
      const b = circle.getBoundingClientRect();
      const [x, y] = [(b.left + b.right) / 2, (b.top + b.bottom) / 2];
      const aside = [Math.max(a.left - x, x - a.right, 0), Math.max(a.top - y, y - a.bottom, 0)];
      if (Math.hypot(...aside) < b.width / 2 - 1) wrong.push(`${name} on ${circle.nextSibling.textContent}`);
    }
  });
  return wrong;
}"""
"""Names, figures and nodes on the map that lie over each other, or beyond its edge."""

PAINTINGS = """milliseconds => new Promise(done => {
  let paintings = 0;
  const observer = new MutationObserver(() => paintings++);
  observer.observe(document.querySelector('.lines'), { subtree: true, childList: true });
  setTimeout(() => done(paintings), milliseconds);
})"""
"""How often the lines of a trace were drawn."""


def names(cluster):
    """Return the names of the nodes, in order."""
    return [node["name"] for node in cluster.nodes]


def talk(page, text):
    """Connect the page's MQTT client, and publish a text to itself."""
    page.get_by_role("button", name="connect").click()
    expect(page.get_by_text("connected", exact=True)).to_be_visible()
    page.get_by_label("Filter").fill("console/#")
    page.get_by_role("button", name="subscribe").click()
    page.get_by_label("Topic").fill("console/test")
    page.get_by_label("Payload").fill(text)
    page.get_by_role("button", name="publish").click()
    expect(page.get_by_role("cell", name=text)).to_be_visible()

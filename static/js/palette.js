// The palette finds a page or an act by a few letters of its name. The last pages stay in this browser, for each person.
// Without this file the field in the bar searches all texts.

const dialog = document.getElementById("palette");
const SHOWN = 5; // of the last pages
const WAIT = 90; // milliseconds without a letter before the server is asked

const opener = document.querySelector(".top-search button"); // the pages of logging in have none

if (dialog && opener) {
  const form = dialog.querySelector("form");
  const field = form.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const status = dialog.querySelector("[role=status]");
  const key = `last-pages-${dialog.dataset.person}`;
  let asked = new AbortController();
  let answered = Promise.resolve(); // when the rows fit the letters
  let chosen = null;

  const listed = () => [...list.querySelectorAll("[role=option]")];
  const words = () => field.value.trim();
  const searchUrl = () => `${form.action}?${new URLSearchParams({ q: words() })}`;
  const readLast = () => {
    try { return JSON.parse(localStorage.getItem(key)) ?? []; } catch { return []; }
  };

  function keepPage() {
    const here = { title: document.title.replace(/ · Skillglass$/, ""), url: location.pathname + location.search };
    const others = readLast().filter((each) => each.url !== here.url);
    try { localStorage.setItem(key, JSON.stringify([here, ...others].slice(0, SHOWN + 1))); } catch { /* full or forbidden */ }
  }

  function open() {
    if (document.querySelector("dialog[open]")) return;
    field.value = "";
    dialog.showModal();
    answered = ask();
  }

  async function ask() {
    asked.abort();
    asked = new AbortController();
    const { signal } = asked;
    const text = words();
    if (!text) return show([{ title: "Last pages", rows: readLast().filter((each) => each.url !== location.pathname + location.search).slice(0, SHOWN) }]);
    await new Promise((done) => setTimeout(done, WAIT));
    if (signal.aborted) return;
    let groups = [];
    let problem = "";
    try {
      const reply = await fetch(`${dialog.dataset.asks}?${new URLSearchParams({ q: text })}`, { signal, headers: { Accept: "application/json" } });
      if (reply.ok) groups = (await reply.json()).groups;
      else problem = "The server did not answer";
    } catch {
      problem = "The server did not answer";
    }
    if (signal.aborted) return;
    const isOfActs = text.startsWith(">");
    show(isOfActs ? groups : [...groups, { title: "All texts", rows: [{ title: `Search all texts for “${text}”`, url: searchUrl() }] }]);
    const found = groups.reduce((total, group) => total + group.rows.length, 0);
    status.textContent = problem || (found ? `${found} found` : "Nothing has this name");
  }

  function show(groups) {
    const full = groups.filter((group) => group.rows.length);
    list.replaceChildren(...full.map(drawGroup));
    list.hidden = !full.length;
    field.setAttribute("aria-expanded", String(!list.hidden));
    status.textContent = "";
    choose(listed()[0]);
  }

  function drawGroup({ title, rows }, place) {
    const group = document.createElement("div");
    const heading = document.createElement("p");
    heading.id = `palette-group-${place}`;
    heading.textContent = title;
    group.setAttribute("role", "group");
    group.setAttribute("aria-labelledby", heading.id);
    group.append(heading, ...rows.map((row, at) => drawRow(row, `palette-${place}-${at}`)));
    return group;
  }

  function drawRow(row, id) {
    const link = document.createElement("a");
    const title = document.createElement("span");
    const about = document.createElement("small");
    Object.assign(link, { id, href: row.url, tabIndex: -1 });
    link.setAttribute("role", "option");
    title.append(...mark(row.title));
    about.textContent = row.about ?? "";
    link.append(title, about);
    return link;
  }

  // The title with the letters that were typed marked.
  function mark(title) {
    const parts = words().replace(/^>/, "").split(/\s+/).filter(Boolean).map((word) => word.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    if (!parts.length) return [title];
    return title.split(new RegExp(`(${parts.join("|")})`, "i")).map((piece, at) => {
      if (at % 2 === 0) return piece;
      const found = document.createElement("mark");
      found.textContent = piece;
      return found;
    });
  }

  function choose(row) {
    chosen?.setAttribute("aria-selected", "false");
    chosen = row ?? null;
    chosen?.setAttribute("aria-selected", "true");
    chosen?.scrollIntoView({ block: "nearest" });
    if (chosen) field.setAttribute("aria-activedescendant", chosen.id);
    else field.removeAttribute("aria-activedescendant");
  }

  function step(by) {
    const rows = listed();
    choose(rows[(rows.indexOf(chosen) + by + rows.length) % rows.length]);
  }

  function go(url, isNewTab) {
    dialog.close();
    if (isNewTab) window.open(url, "_blank", "noopener");
    else location.assign(url);
  }

  async function onKey(event) {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      step(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      await answered;
      if (chosen) go(chosen.href, event.ctrlKey || event.metaKey);
    } else if (event.key === "Tab" && !event.shiftKey && words() && !words().startsWith(">")) {
      event.preventDefault();
      go(searchUrl(), false);
    }
  }

  if (dialog.hasAttribute("data-keeps")) keepPage();
  if (/Mac|iP/.test(navigator.platform)) opener.querySelector("kbd").textContent = "⌘ K";
  opener.addEventListener("click", open);
  field.addEventListener("input", () => { answered = ask(); });
  field.addEventListener("keydown", onKey);
  document.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
}

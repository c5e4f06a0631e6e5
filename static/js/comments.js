// Comments on a step, a line or a chart. Every link that carries data-comment leads to the thread's own page; with this
// file it opens in a sheet beside what it is about. m opens the one at hand. What is typed stays in this tab's storage
// until it was taken.

const sheet = document.getElementById("comments");
let opener = null;

// --- lines: one link for all of them, drawn into the line at hand ---------------------------------------------------

let files = null;
let counts = {};

function lineOf(row) {
  const file = row.closest("[data-file]");
  const anchor = row.querySelector("a[id]");
  const found = anchor && /-([LR])(\d+)$/.exec(anchor.id);
  const old = found ? found[1] === "L" : true;
  const number = found ? found[2] : row.querySelector(".n")?.textContent.trim();
  const digest = file && (old ? file.dataset.old || file.dataset.new : file.dataset.new || file.dataset.old);
  return digest && number ? { digest, path: file.dataset.file, number, side: old ? "old" : "new" } : null;
}

function lineLink(row) {
  const line = lineOf(row);
  if (!line) return null;
  const count = counts[`${line.digest} ${line.path} line ${line.number}`] ?? 0;
  const link = document.createElement("a");
  const { digest, path, number, side } = line;
  const more = new URLSearchParams({ digest, file: path, line: number, side });
  link.href = `${files.dataset.lineComments}&${more}`;
  link.className = count ? "says some" : "says";
  link.dataset.comment = "";
  link.textContent = count ? `${count} comment${count === 1 ? "" : "s"}` : "comment";
  link.setAttribute("aria-label", `${link.textContent} on line ${number}`);
  return link;
}

function putLink(row) {
  if (row.querySelector("[data-comment]")) return row.querySelector("[data-comment]");
  const link = lineLink(row);
  if (link) [...row.querySelectorAll(".code")].pop().append(link);
  return link;
}

// Called again when a page swapped its lines for others.
function takeLines() {
  const found = document.querySelector("[data-line-comments]");
  if (!found || found === files) return;
  files = found;
  counts = JSON.parse(document.getElementById("comment-counts")?.textContent ?? "{}");
  for (const row of Object.keys(counts).length ? files.querySelectorAll(".diff tr") : []) {
    const link = lineLink(row);
    if (link?.classList.contains("some")) putLink(row);
  }
  files.addEventListener("pointerover", (event) => {
    const row = event.target.closest(".diff tr");
    if (!row || row.querySelector("[data-comment]")) return;
    files.querySelector("a.says.passing:not(:focus)")?.remove();
    putLink(row)?.classList.add("passing");
  });
}

takeLines();
document.addEventListener("htmx:afterSettle", takeLines);

// --- the sheet ------------------------------------------------------------------------------------------------------

function close() {
  if (!sheet?.open) return;
  sheet.close();
  opener?.focus();
}

function tell(text) {
  const problem = sheet?.querySelector(".sheet-problem");
  if (!problem) return;
  problem.textContent = text;
  problem.hidden = !text;
}

function open(link) {
  opener = link;
  tell("");
  document.getElementById("thread").replaceChildren("Loading…");
  if (!sheet.open) sheet.show();
  sheet.scrollTop = 0;
  htmx.ajax("GET", link.href, { target: "#thread", swap: "outerHTML" });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("[data-comment]");
  if (link && sheet && event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    open(link);
  }
  if (event.target.closest?.("[data-closes]")) close();
});

function atHand() {
  const row = files?.querySelector(".diff tr.at, .diff tr:has(a:target)") ?? files?.querySelector(".diff tr.add, .diff tr");
  if (row) return putLink(row);
  const here = ".steps > li:is(.at, :target, .pointed) [data-comment]";
  return document.querySelector(here) ?? document.querySelector("main [data-comment]");
}

document.addEventListener(
  "keydown",
  (event) => {
    if (event.key === "Escape" && sheet?.open) {
      event.preventDefault();
      close();
      return;
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.closest?.(".say")) {
      event.preventDefault();
      event.target.closest(".say").requestSubmit();
      return;
    }
    if (event.key !== "m" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !sheet) return;
    if (event.target.closest?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
    const link = atHand();
    if (!link) return;
    event.preventDefault();
    open(link);
  },
  true,
);

// --- what is typed --------------------------------------------------------------------------------------------------

const kept = (form) => `comment:${form.dataset.say}`;

function settle(root) {
  for (const form of root.querySelectorAll(".say")) {
    const area = form.querySelector("textarea");
    const text = area.value || sessionStorage.getItem(kept(form)) || "";
    area.value = text;
    if (text) form.closest("details")?.setAttribute("open", "");
  }
}

document.addEventListener("input", (event) => {
  const form = event.target.closest?.(".say");
  if (form) sessionStorage.setItem(kept(form), event.target.value);
});

document.addEventListener("htmx:afterSwap", (event) => {
  const thread = document.getElementById("thread");
  if (!thread) return;
  if (thread.dataset.taken !== undefined) sessionStorage.removeItem(`comment:${thread.dataset.taken}`);
  htmx.process(thread); // htmx itself waits a moment, and a text sent meanwhile would leave by the plain way
  settle(thread);
  const total = Number(thread.dataset.total);
  if (opener?.isConnected && !Number.isNaN(total)) {
    const word = total ? `${total} comment${total === 1 ? "" : "s"}` : "comment";
    const place = opener.getAttribute("aria-label").replace(/^.*? on /, "");
    opener.textContent = word;
    opener.setAttribute("aria-label", `${word} on ${place}`);
    opener.classList.toggle("some", total > 0);
    if (total) opener.classList.remove("passing");
  }
  if (sheet?.open) document.getElementById("say-new")?.focus({ preventScroll: true });
});

// 401, 403, 500 or no network: the text stays where it is, and what to do is said.
function failed(event) {
  const status = event.detail.xhr?.status ?? 0;
  const said = {
    0: "The server does not answer. Your text is kept; try again.",
    401: "You are logged out. Your text is kept: log in in a second tab, then try again.",
    403: "You cannot open this.",
    404: "This place no longer exists.",
  };
  const text = said[status] ?? "The server refused it. Your text is kept; try again.";
  const form = event.target.closest?.(".say");
  const problem = form?.querySelector(".problem");
  if (problem) {
    problem.textContent = text;
    problem.hidden = false;
  } else {
    document.getElementById("thread")?.replaceChildren();
    tell(text);
  }
}

document.addEventListener("htmx:responseError", failed);
document.addEventListener("htmx:sendError", failed);

settle(document);

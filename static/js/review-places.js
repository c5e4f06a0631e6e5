// Places in the evidence: steps and lines one walks through, texts one selects, and the anchors they give.
// Offsets count characters (not UTF-16 units) of the text as shown; the server knows the way to the record.

const MAX_QUOTE = 2000;

const points = (text) => [...text].length;
const firstPoints = (text, count) => [...text].slice(0, count).join("");

class ReviewEvidence {
  constructor(root) {
    this.root = root;
    this.at = -1;
    this.cursor = null;
  }

  // What j and k walk: steps, else the changed lines of a decision, else the lines of a library.
  get stops() {
    const steps = this.root.querySelectorAll(".steps > li[data-step]");
    if (steps.length) return [...steps];
    const changed = this.root.querySelectorAll("[data-path] .diff tr:is(.add, .del)");
    return [...(changed.length ? changed : this.root.querySelectorAll("[data-path] .diff tr"))];
  }

  get stop() {
    return this.stops[this.at] ?? null;
  }

  get trajectory() {
    return Number(this.root.querySelector("ol.steps")?.dataset.trajectory ?? 0);
  }

  go(index) {
    const stop = this.stops[index];
    if (!stop) return false;
    this.root.querySelectorAll(".at").forEach((each) => each.classList.remove("at"));
    this.at = index;
    stop.classList.add("at");
    stop.scrollIntoView({ block: stop.matches("tr") ? "nearest" : "start" });
    return true;
  }

  goToStep(number) {
    return this.go(this.stops.findIndex((stop) => Number(stop.dataset.step) === number));
  }

  goToLine({ path, field, start }) {
    return this.go(this.stops.findIndex((stop) => stop.matches("tr") && isLine(stop, path, field, start)));
  }

  // kind: error, skill, or change, which is a step that writes, or the first line of a run of changed lines.
  seek(kind, step) {
    const is = kind === "change" ? beginsChange : (stop) => stop.classList.contains(kind);
    const places = this.stops.map((stop, index) => [index, stop]).filter(([index]) => (step > 0 ? index > this.at : index < this.at));
    const found = (step > 0 ? places : places.reverse()).find(([, stop]) => is(stop));
    return Boolean(found) && this.go(found[0]);
  }

  // The place keys speak of: selected text, else the step or line one stands on, else none.
  place() {
    return this.selected() ?? this.ofStop(this.stop);
  }

  ofStop(stop) {
    if (!stop) return null;
    if (stop.dataset.step) return { trajectory: this.trajectory, step: Number(stop.dataset.step) };
    return this.#ofRows([stop]);
  }

  selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    if (!this.root.contains(range.commonAncestorContainer)) return null;
    const rows = [...this.root.querySelectorAll("[data-path] .diff tr")].filter((row) => range.intersectsNode(row));
    if (rows.length) return this.#ofRows(rows);
    const texts = [...this.root.querySelectorAll("pre[data-field]")];
    const text = texts.find((each) => range.intersectsNode(each) && this.#within(each, range));
    return text ? this.ofText(text, ...this.#within(text, range)) : null;
  }

  ofText(text, start, end) {
    const whole = text.textContent;
    const first = Number(text.dataset.start) + points(whole.slice(0, start));
    const quoted = whole.slice(start, end);
    return {
      trajectory: this.trajectory,
      step: Number(text.closest("[data-step]").dataset.step),
      field: text.dataset.field,
      start: first,
      end: first + points(quoted),
      quote: firstPoints(quoted, MAX_QUOTE),
    };
  }

  // Start and end in a text of what a range covers of it; null where it covers nothing.
  #within(text, range) {
    const inner = document.createRange();
    inner.selectNodeContents(text);
    if (range.compareBoundaryPoints(Range.START_TO_START, inner) > 0) inner.setStart(range.startContainer, range.startOffset);
    if (range.compareBoundaryPoints(Range.END_TO_END, inner) < 0) inner.setEnd(range.endContainer, range.endOffset);
    const before = document.createRange();
    before.selectNodeContents(text);
    before.setEnd(inner.startContainer, inner.startOffset);
    const start = before.toString().length;
    const end = start + inner.toString().length;
    return end > start ? [start, end] : null;
  }

  // Lines of one file on one side of a difference; lines of the other side between them do not count.
  #ofRows(rows) {
    const numbered = rows.map((row) => ({ row, ...lineOf(row) })).filter((each) => each.line);
    if (!numbered.length) return null;
    const { side, path } = numbered[0];
    const same = numbered.filter((each) => each.side === side && each.path === path);
    const quote = same.map((each) => each.row.querySelector(".code").textContent).join("\n");
    return { path, field: side, start: same[0].line, end: same.at(-1).line, quote: firstPoints(quote, MAX_QUOTE) };
  }

  // --- what is marked ---

  draw(marks, active, nameOf) {
    this.root.querySelectorAll(".stripes").forEach((each) => each.remove());
    this.root.querySelectorAll(".marked").forEach((each) => each.classList.remove("marked"));
    const ranges = { all: [], now: [] };
    for (const mark of marks) {
      const stop = this.#stopOf(mark);
      if (!stop) continue;
      stop.classList.add("marked");
      if (mark.step) this.#stripe(stop, mark, nameOf);
      const range = this.#rangeOf(stop, mark);
      if (range) ranges[mark.id === active ? "now" : "all"].push(range);
    }
    if (!("highlights" in CSS)) return;
    CSS.highlights.set("review-mark", new Highlight(...ranges.all));
    CSS.highlights.set("review-mark-now", new Highlight(...ranges.now));
  }

  #stopOf(mark) {
    if (mark.step && mark.trajectory === this.trajectory) return this.root.querySelector(`.steps > li[data-step="${mark.step}"]`);
    if (!mark.path) return null;
    const rows = [...this.root.querySelectorAll(`[data-path="${CSS.escape(mark.path)}"] .diff tr`)];
    return rows.find((row) => isLine(row, mark.path, mark.field, mark.start)) ?? null;
  }

  #stripe(stop, mark, nameOf) {
    let stripes = stop.querySelector(".stripes");
    if (!stripes) {
      stripes = document.createElement("span");
      stripes.className = "stripes";
      stop.querySelector(".step-name").append(stripes);
    }
    const names = mark.labels.map((label) => nameOf(label.code));
    stripes.append(...(names.length ? names : ["marked"]).map((text) => made("span", { class: "badge acc", text })));
    if (mark.first) stripes.append(made("span", { class: "badge warn", text: "first mistake" }));
  }

  #rangeOf(stop, mark) {
    if (mark.start === null || !mark.step) return null;
    for (const text of stop.querySelectorAll(`pre[data-field="${CSS.escape(mark.field)}"]`)) {
      const characters = [...text.textContent];
      const start = Math.max(mark.start - Number(text.dataset.start), 0); // the key of a call's main argument is not on the page
      if (mark.end <= Number(text.dataset.start) || start >= characters.length) continue;
      const end = Math.min(mark.end - Number(text.dataset.start), characters.length);
      const range = document.createRange();
      range.setStart(...nodeAt(text, characters.slice(0, start).join("").length));
      range.setEnd(...nodeAt(text, characters.slice(0, end).join("").length));
      return range;
    }
    return null;
  }
}

const WRITES = /^(?:write|edit|multi_?edit|create|str_replace|apply_patch|insert|notebook_?edit)|(?:^|[^>&\d-])>{1,2}\s*[\w./"'~$]|\btee\b|\bsed\s+-i|\bapply_patch\b/i;

function beginsChange(stop) {
  if (stop.matches("tr")) return stop.matches(".add, .del") && !stop.previousElementSibling?.matches(".add, .del");
  return [...stop.querySelectorAll(".call-title b, pre.call")].some((call) => WRITES.test(call.textContent));
}

// A row of a difference says its side itself; in a library the file does.
function lineOf(row) {
  const file = row.closest("[data-path]");
  return { path: file.dataset.path, side: row.dataset.side ?? file.dataset.side ?? "", line: Number(row.dataset.line) || null };
}

function isLine(row, path, side, line) {
  const found = lineOf(row);
  return found.path === path && found.side === side && found.line === line;
}

// The text node and offset at which a place in an element's text lies.
function nodeAt(element, index) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let left = index;
  let node = walker.nextNode();
  while (node && left > node.data.length) {
    left -= node.data.length;
    node = walker.nextNode();
  }
  return node ? [node, left] : [element, element.childNodes.length];
}

// Selecting by keyboard: arrows move a line or a word, with Shift they grow and shrink. The browser's own selection
// shows it, so whoever selects with the mouse sees the same.
class TextCursor {
  constructor(stop) {
    this.isRows = stop.matches("tr");
    this.texts = this.isRows ? siblingsOf(stop) : [...stop.querySelectorAll("pre[data-field]")].filter((text) => text.textContent.trim());
    this.text = this.isRows ? this.texts.indexOf(stop) : 0;
    this.last = this.text; // of rows
    this.#take(this.isRows ? [0, 0] : this.#lines()[0]);
  }

  get isEmpty() {
    return !this.texts.length;
  }

  key(event) {
    const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return false;
    const isWord = event.key === "ArrowRight" || event.key === "ArrowLeft";
    if (this.isRows) this.#rows(step, event.shiftKey);
    else if (event.shiftKey) this.#grow(isWord ? this.#words() : this.#lines(), step);
    else this.#move(isWord, step);
    this.show();
    return true;
  }

  show() {
    if (this.isEmpty) return;
    const [first, last] = this.isRows ? [this.texts[this.text], this.texts[this.last]] : [this.#here, this.#here];
    const from = this.isRows ? [first.querySelector(".code"), 0] : nodeAt(first, this.start);
    const code = this.isRows && last.querySelector(".code");
    const to = this.isRows ? [code, code.childNodes.length] : nodeAt(last, this.end);
    getSelection().setBaseAndExtent(...from, ...to);
    (this.isRows ? last : from[0].parentElement).scrollIntoView({ block: "nearest" });
  }

  get #here() {
    return this.texts[this.text];
  }

  #take(span) {
    [this.start, this.end] = span ?? [0, 0];
  }

  #rows(step, grows) {
    const clamp = (place, low) => Math.max(low, Math.min(place, this.texts.length - 1));
    this.last = clamp(this.last + step, grows ? this.text : 0);
    if (!grows) this.text = this.last;
  }

  #move(isWord, step) {
    const spans = isWord ? this.#words() : this.#lines();
    const inside = spans.filter(([start, end]) => start >= this.start && end <= this.end);
    if (isWord && inside.length > 1) return this.#take(step > 0 ? inside[0] : inside.at(-1));
    const next = step > 0 ? spans.find(([start]) => start >= this.end) : spans.findLast(([, end]) => end <= this.start);
    if (next) return this.#take(next);
    if (!this.texts[this.text + step]) return;
    this.text += step;
    const others = isWord ? this.#words() : this.#lines();
    this.#take(step > 0 ? others[0] : others.at(-1));
  }

  #grow(spans, step) {
    const next = step > 0 ? spans.find(([, end]) => end > this.end) : spans.findLast(([, end]) => end < this.end && end > this.start);
    if (next) this.end = next[1];
  }

  #lines() {
    return spansOf(this.#here, /[^\n]*\S[^\n]*/g);
  }

  #words() {
    return spansOf(this.#here, /\S+/g);
  }
}

function spansOf(text, pattern) {
  return text ? [...text.textContent.matchAll(pattern)].map((match) => [match.index, match.index + match[0].length]) : [];
}

function siblingsOf(row) {
  return [...row.closest("[data-path]").querySelectorAll(".diff tr")];
}

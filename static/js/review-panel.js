// The right side: what stands in the draft, drawn. It reads the draft and never changes it.

const CONFIDENCE = { 1: "low", 2: "medium", 3: "high" };

function made(tag, { text, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== false) element.setAttribute(name, value);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

class ReviewPanel {
  constructor(root, page) {
    this.root = root;
    this.names = new Map([...page.codes, ...page.other_codes].map((code) => [code.id, code.name]));
    this.known = new Set(page.codes.map((code) => code.id));
    this.whyWaiting = page.why_waiting;
    this.waits = new Set(page.codes.filter((code) => code.waits).map((code) => code.id));
    this.states = document.querySelector("[data-status]");
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  nameOf = (code) => this.names.get(code) ?? "a code of another version";

  draw(draft) {
    const mark = draft.mark;
    this.#drawCodes(mark);
    this.#drawMarks(draft);
    this.#drawEditor(draft, mark);
    this.#fill("[data-memo]", draft.memo);
    for (const button of this.root.querySelectorAll("[data-confidence]")) setPressed(button, Number(button.dataset.confidence) === draft.confidence);
    setPressed(this.find("[data-act=nothing]"), draft.nothing);
    this.find("[data-act=undo]").disabled = !draft.past.length;
    this.find("[data-act=redo]").disabled = !draft.future.length;
  }

  #drawCodes(mark) {
    const set = new Set(mark?.labels.map((label) => label.code));
    for (const button of this.root.querySelectorAll("[data-toggle]")) setPressed(button, set.has(button.dataset.toggle));
  }

  #drawMarks(draft) {
    this.find("[data-marks-total]").textContent = draft.marks.length;
    this.find("[data-no-marks]").hidden = draft.marks.length > 0;
    const list = this.find("[data-marks]");
    list.replaceChildren(...draft.marks.map((mark) => this.#line(mark, mark.id === draft.active)));
    const now = list.querySelector(".now");
    if (now) list.scrollTop = now.offsetTop - (list.clientHeight - now.offsetHeight) / 2; // the list alone
  }

  #line(mark, isActive) {
    const badges = mark.labels.map((label) => {
      const isForeign = !this.known.has(label.code);
      const text = this.nameOf(label.code) + (label.needs_look || isForeign ? ": look again" : "");
      return made("span", { class: `badge ${label.needs_look || isForeign ? "warn" : "acc"}`, text });
    });
    if (mark.attribution) badges.push(made("span", { class: "badge", text: this.#attribution(mark.attribution) }));
    if (mark.first) badges.push(made("span", { class: "badge warn", text: "first mistake" }));
    const button = made("button", { type: "button", "data-mark": mark.id, "aria-current": isActive ? "true" : null },
      made("b", { text: placeWords(mark) }), ...badges);
    const words = mark.memo || mark.quote;
    if (words) button.append(made("span", { class: mark.memo ? "said" : "quoted", text: firstPoints(words.trim(), 90) }));
    return made("li", { class: isActive ? "now" : "" }, button);
  }

  #drawEditor(draft, mark) {
    const editor = this.find("[data-editor]");
    editor.hidden = !mark;
    if (!mark) return;
    this.find("[data-editor-title]").textContent = `Mark ${draft.marks.indexOf(mark) + 1}: ${placeWords(mark)}`;
    const quote = this.find("[data-quote]");
    quote.hidden = !mark.quote;
    quote.textContent = firstPoints(mark.quote, 240);
    for (const button of editor.querySelectorAll("[data-attribution]")) setPressed(button, button.dataset.attribution === mark.attribution);
    setPressed(this.find("[data-act=first]"), mark.first);
    this.#fill("[data-mark-memo]", mark.memo);
  }

  #attribution(value) {
    const button = this.find(`[data-attribution="${value}"]`);
    return button?.firstChild.textContent.trim() ?? value;
  }

  // Never under the hands of somebody who types there.
  #fill(selector, text) {
    const field = this.find(selector);
    if (field.value !== text) field.value = text;
  }

  // Shows the codes whose name or definition has every word; returns them.
  filter(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [];
    for (const line of this.root.querySelectorAll("[data-code]")) {
      const isIn = (part) => words.every((word) => part.toLowerCase().includes(word));
      const isNamed = isIn(line.querySelector(".code-name").textContent);
      const isFound = isNamed || isIn(line.textContent);
      line.classList.toggle("missed", !isFound);
      line.classList.remove("found");
      if (isFound) found.push([isNamed ? 0 : 1, line]);
    }
    const lines = found.sort(([one], [other]) => one - other).map(([, line]) => line);
    if (words.length) lines[0]?.classList.add("found");
    return lines.map((line) => line.dataset.code);
  }

  // The same, and says where nothing is found; empty words show every code again.
  search(text) {
    const found = this.filter(text);
    this.find("[data-no-code]").hidden = found.length > 0;
    this.find("[data-sought]").textContent = firstPoints(text.trim(), 60);
    return found;
  }

  proposed({ name, version, url }) {
    const note = this.find("[data-proposed]");
    note.hidden = false;
    note.replaceChildren(`“${name}” is proposed in the draft `, made("a", { href: url, target: "_blank", rel: "noopener", text: version }), ". The mark and its memo stay here. Where no other code fits, skip the item.");
  }

  tell(kind, words, login = null) {
    if (!this.states || this.shown === kind + words) return; // a link in it stays the same under the pointer
    this.shown = kind + words;
    this.states.dataset.kind = kind;
    this.states.replaceChildren(words);
    if (login) this.states.append(" ", made("a", { href: login, target: "_blank", rel: "noopener", text: "Log in" }));
  }

  hint(words) {
    this.find("[data-hint]").textContent = words;
  }

  problems(words) {
    const list = this.find("[data-problems]");
    list.hidden = !words.length;
    list.replaceChildren(...words.map((text) => made("li", { text })));
  }

  conflict(mine, theirs, title = null) {
    const box = this.find("[data-conflict]");
    box.hidden = !theirs;
    if (!theirs) return;
    if (title) this.find("[data-conflict-title]").textContent = title;
    this.find("[data-mine]").replaceChildren(...this.#summary(mine));
    this.find("[data-theirs]").replaceChildren(...this.#summary(theirs));
    box.scrollIntoView({ block: "nearest" });
  }

  #summary(said) {
    const lines = said.marks.map((mark) => {
      const codes = mark.labels.map((label) => this.nameOf(label.code)).join(", ") || "no code";
      return `${placeWords(mark)}: ${codes}${mark.memo ? `. ${mark.memo}` : ""}`;
    });
    if (said.memo) lines.push(`memo: ${said.memo}`);
    if (said.confidence) lines.push(`confidence ${CONFIDENCE[said.confidence]}`);
    return (lines.length ? lines : ["nothing"]).map((text) => made("li", { text }));
  }
}

function setPressed(button, isPressed) {
  button?.setAttribute("aria-pressed", String(isPressed));
}

function placeWords(mark) {
  if (mark.path) return `${mark.path.split("/").at(-1)}${mark.start ? ` line ${mark.start}${mark.end > mark.start ? `–${mark.end}` : ""}` : ""}`;
  if (!mark.step) return "whole item";
  return `step ${mark.step}${mark.trajectory > 0 ? `, trajectory ${mark.trajectory + 1}` : ""}${mark.field ? ", text" : ""}`;
}

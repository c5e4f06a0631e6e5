// The coding screen: keys become changes of the draft, the draft is drawn and saved, the next item is fetched ahead.

const AHEAD_AFTER = 1500;
const DONT_KNOW = "";
const NO_MORE = { error: "error", change: "write or change", skill: "skill use that you may see" };

class CodingPage {
  constructor(page, next) {
    this.page = page;
    this.openNext = next;
    this.draft = new ReviewDraft(copyOf(page.draft));
    this.panel = new ReviewPanel(document.querySelector(".coding-panel"), page);
    this.evidence = new ReviewEvidence(document.getElementById("exhibit"));
    this.codeOf = new Map(page.codes.filter((code) => code.key).map((code) => [code.key, code]));
    this.prefix = "";
    this.cursor = null;
    this.ahead = null;
    this.saver = new ReviewSaver(page, this.draft, {
      tell: (kind, words, problems = []) => {
        this.panel.tell(kind, words, kind === "ended" ? page.urls.login : null);
        if (kind === "wrong") this.panel.problems(problems.length ? problems : [words]);
      },
      clash: (theirs) => this.panel.conflict(this.draft.said, theirs),
      over: (answer) => this.#over(answer),
    });
    this.saver.recover();
    if (!page.is_held && page.is_shared) this.panel.tell("lost", "you have not reserved this item; the first save reserves a free place");
    this.redraw();
    this.#startAt();
    this.evidence.root.focus({ preventScroll: true });
    this.listen();
    this.aheadTimer = setTimeout(() => this.fetchAhead(), AHEAD_AFTER);
    // A tab that was closed a moment ago still looks alive: look once more.
    this.recoverTimer = setTimeout(() => this.saver.recover() && this.redraw(), LEFT_BEHIND + 1000);
  }

  #startAt() {
    const stops = this.evidence.stops;
    const at = stops.findIndex((stop) => stop.matches(".pointed, :target"));
    if (at >= 0) this.evidence.go(at);
  }

  redraw() {
    this.panel.draw(this.draft);
    this.evidence.draw(this.draft.marks, this.draft.active, this.panel.nameOf);
  }

  change(act, typing = null) {
    if (!this.draft.change(act, typing)) return;
    this.panel.problems([]);
    this.redraw();
    this.saver.changed();
  }

  // --- marks ---

  // The mark that keys speak about: what is selected, else the chosen mark (walking on lets go of it), else the place
  // one stands at.
  #markHere(draft) {
    const text = this.evidence.selected();
    if (draft.mark && (!text || this.#isAt(draft.mark, text))) return draft.mark;
    return this.#add(draft, text ?? this.evidence.place());
  }

  #isAt(mark, place) {
    return ["start", "end", "field"].every((name) => mark[name] === place[name]) && mark.path === (place.path ?? "") && mark.step === (place.step ?? null);
  }

  #add(draft, place) {
    const mark = newMark(place ?? {});
    draft.marks.push(mark);
    draft.active = mark.id;
    return mark;
  }

  mark() {
    this.change((draft) => this.#add(draft, this.evidence.place()));
    this.leaveText();
  }

  markWhole() {
    this.change((draft) => this.#add(draft, null));
  }

  // A label that must be looked at again is confirmed by its key first, and taken off by the next press.
  toggle(code) {
    const has = this.draft.mark?.labels.some((each) => each.code === code);
    if (this.panel.waits.has(code) && !has) return this.panel.hint(`“${this.panel.nameOf(code)}” is about skills: ${this.panel.whyWaiting}.`);
    this.change((draft) => {
      const mark = this.#markHere(draft);
      const label = mark.labels.find((each) => each.code === code);
      if (label?.needs_look) label.needs_look = false;
      else if (label) mark.labels = mark.labels.filter((each) => each !== label);
      else mark.labels.push({ code, needs_look: false });
      draft.nothing = false;
    });
    this.leaveText();
  }

  // A code that the codebook lacks goes into its draft, with the place one stands at; the memo keeps the thought here too.
  async propose() {
    const name = this.panel.find("[data-find]").value.trim();
    const words = `Proposed code: ${name}`;
    this.change((draft) => {
      const mark = this.#markHere(draft);
      if (!mark.memo.includes(words)) mark.memo = mark.memo ? `${mark.memo}\n${words}` : words;
    });
    const mark = this.draft.active;
    await this.saver.save();
    const result = this.saver.isDirty ? null : await post(this.page.urls.propose, { mark, name }).catch(() => null);
    if (result?.status !== 200) return this.panel.problems([result?.answer.error ?? "The code was not proposed. Its words are in the memo: save, then try again."]);
    this.#leaveField(this.panel.find("[data-find]"));
    this.panel.proposed(result.answer);
  }

  attribute(value) {
    this.change((draft) => {
      const mark = this.#markHere(draft);
      mark.attribution = mark.attribution === value ? "" : value;
    });
  }

  first() {
    this.change((draft) => {
      const mark = this.#markHere(draft);
      const isFirst = !mark.first;
      for (const each of draft.marks) each.first = false;
      mark.first = isFirst;
    });
  }

  remove() {
    this.change((draft) => {
      const place = draft.marks.indexOf(draft.mark);
      if (place < 0) return;
      draft.marks.splice(place, 1);
      draft.active = draft.marks[Math.min(place, draft.marks.length - 1)]?.id ?? null;
    });
  }

  walkMarks(step) {
    const { marks } = this.draft;
    if (!marks.length) return;
    const place = marks.indexOf(this.draft.mark);
    this.choose(marks[(place + step + marks.length) % marks.length].id);
  }

  async choose(id) {
    this.draft.look(id);
    const mark = this.draft.mark;
    if (mark?.step && !(mark.trajectory === this.evidence.trajectory && this.evidence.goToStep(mark.step))) {
      await this.turn(`?step=${mark.step}${mark.trajectory > 0 ? `&trajectory=${mark.trajectory}` : ""}`);
      this.evidence.goToStep(mark.step);
    }
    if (mark?.path) this.evidence.goToLine(mark);
    getSelection().removeAllRanges();
    this.redraw();
  }

  sure(value) {
    this.change((draft) => { draft.confidence = draft.confidence === value ? null : value; });
  }

  nothing() {
    this.change((draft) => { draft.nothing = !draft.nothing; });
    if (this.draft.nothing && this.draft.isCoded) this.panel.problems(["Codes are set: take them off first, or press 0 again."]);
    else if (this.draft.nothing) this.panel.hint("Nothing is wrong here: Ctrl+Enter submits that.");
  }

  back(isRedo) {
    if (!(isRedo ? this.draft.redo() : this.draft.undo())) return;
    this.redraw();
    this.saver.changed();
  }

  // --- the evidence ---

  walk(step) {
    const from = this.evidence.at;
    if (this.evidence.go(from < 0 ? 0 : from + step)) return this.#arrive();
    const link = this.evidence.root.querySelector(`a[rel=${step > 0 ? "next" : "prev"}]`);
    if (link) this.turn(link.getAttribute("href"), step > 0 ? 0 : -1);
  }

  #arrive() {
    this.panel.hint("");
    const place = this.evidence.ofStop(this.evidence.stop);
    const here = this.draft.marks.findLast((mark) => (place?.step ? mark.step === place.step && mark.trajectory === place.trajectory : mark.path === place?.path && mark.start === place?.start));
    this.draft.look(here?.id ?? null);
    getSelection().removeAllRanges();
    this.redraw();
  }

  // Another page of the evidence, without leaving what is being written.
  async turn(query, at = null) {
    const url = new URL(query, location.href);
    try {
      const response = await fetch(url, { headers: { Accept: "*/*" }, credentials: "same-origin" });
      if (response.status === 401) return this.panel.tell("ended", "session ended: log in in another tab, then press R. Everything is kept in this browser", this.page.urls.login);
      if (!response.ok) throw new Error(response.status);
      const fetched = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("exhibit");
      this.evidence.root.replaceChildren(...document.importNode(fetched, true).childNodes);
    } catch {
      return this.panel.tell("offline", "offline: that page of steps cannot be fetched now; what you wrote is kept");
    }
    window.htmx?.process(this.evidence.root);
    history.replaceState(null, "", url);
    this.evidence.at = -1;
    const place = at === -1 ? this.evidence.stops.length - 1 : at;
    if (place !== null) this.evidence.go(place);
    else this.evidence.goToStep(Number(url.searchParams.get("at") ?? url.searchParams.get("step")));
    this.#arrive();
    if (place === 0) this.evidence.root.querySelector(".bar")?.scrollIntoView();
  }

  // The next or previous place of a kind; where this page of steps has none, the link to the page that has.
  seek(kind, step, link = "") {
    if (this.evidence.seek(kind, step)) return this.#arrive();
    const there = link && step > 0 && this.evidence.root.querySelector(link);
    if (there) this.turn(there.getAttribute("href"));
    else this.panel.hint(`No ${NO_MORE[kind]} ${step > 0 ? "after" : "before"} this place.`);
  }

  // The first or last step of all.
  end(isLast) {
    const link = this.evidence.root.querySelector(isLast ? "[data-end]" : "[data-start-of-steps]");
    if (link) return this.turn(link.getAttribute("href"), isLast ? -1 : 0);
    this.evidence.go(isLast ? this.evidence.stops.length - 1 : 0);
    this.#arrive();
  }

  item(step) {
    const url = step > 0 ? this.page.urls.following : this.page.urls.previous;
    if (url) this.leave(url);
    else this.panel.hint(step > 0 ? "This is the last item of the queue." : "This is the first item of the queue.");
  }

  unfold(isAll) {
    const place = isAll ? this.evidence.root : this.evidence.stop;
    const folds = [...(place?.querySelectorAll(".gap, .rest:not([open]) > summary") ?? [])];
    folds.forEach((fold) => fold.click());
    if (!folds.length) this.panel.hint("Nothing is folded here.");
  }

  selectText() {
    if (!this.evidence.stop) this.evidence.go(0);
    if (!this.evidence.stop) return;
    this.cursor = new TextCursor(this.evidence.stop);
    if (this.cursor.isEmpty) return this.leaveText("There is no text to select in this step.");
    this.cursor.show();
    this.panel.hint("Selecting text: arrows move, Shift+arrows grow, m or a code marks, Esc leaves.");
  }

  leaveText(hint = "") {
    this.cursor = null;
    getSelection().removeAllRanges();
    this.panel.hint(hint);
  }

  // --- going on ---

  async submit() {
    if (this.isSending) return;
    this.isSending = true;
    this.panel.problems([]);
    performance.mark("review-submit");
    const answer = await this.saver.finish(this.page.urls.submit, { nothing_wrong: this.draft.nothing });
    this.isSending = false;
    if (answer) await this.#goOn(answer);
  }

  askWhy() {
    const dialog = this.panel.find("[data-skip]");
    dialog.showModal();
    dialog.querySelector("[data-reason]").focus();
  }

  async skip(reason) {
    const answer = await this.saver.finish(this.page.urls.skip, { reason });
    if (answer) await this.#goOn(answer);
  }

  async release() {
    await this.saver.save();
    if (this.saver.isDirty) return this.panel.problems(["Save first, then hand it back."]);
    const result = await post(this.page.urls.release, {}).catch(() => null);
    if (result?.status === 200) this.leave(result.answer.next);
    else this.panel.tell("offline", "offline: the item was not handed back");
  }

  async #goOn({ guess, next }) {
    if (guess) await this.#guess(guess);
    await this.openNext(next, this);
  }

  // One key: a condition, or 0. Esc says "I do not know" as well.
  #guess(conditions) {
    const dialog = this.panel.find("[data-guess]");
    const choices = [...conditions, [DONT_KNOW, "I do not know"]];
    const buttons = choices.map(([value, words], place) => {
      const key = value === DONT_KNOW ? "0" : place < 9 ? String(place + 1) : "";
      const button = made("button", { type: "button", class: "button", "data-guess-value": value, "data-guess-key": key, text: `${words} ` });
      if (key) button.append(made("kbd", { text: key }));
      return made("li", {}, button);
    });
    dialog.querySelector("[data-guesses]").replaceChildren(...buttons);
    dialog.showModal();
    return new Promise((done) => {
      let guess = DONT_KNOW;
      dialog.addEventListener("click", (event) => {
        const button = event.target.closest("[data-guess-value]");
        if (!button) return;
        guess = button.dataset.guessValue;
        dialog.close();
      });
      dialog.addEventListener("close", async () => done(await sendGuess(this.page, guess)), { once: true });
    });
  }

  #over(answer) {
    if (saysTheSame(answer.draft, this.draft.said)) {
      this.saver.stop();
      location.assign(location.pathname);
      return;
    }
    this.panel.tell("wrong", "answered in another tab: that answer stays. Your text here is kept in this browser only");
    this.panel.problems([answer.error, "Copy from here what you still need, then go to the queue (u)."]);
  }

  settle(takesTheirs) {
    if (!this.saver.conflict) return;
    this.panel.conflict(null, null);
    this.saver.settle(takesTheirs);
    this.redraw();
  }

  async fetchAhead() {
    try {
      const { status, answer } = await post(this.page.urls.ahead, {});
      if (status !== 200 || !answer.next) return;
      this.ahead = { url: answer.next, html: null };
      const response = await fetch(answer.next, { headers: { Accept: "*/*" }, credentials: "same-origin" });
      if (response.ok) this.ahead.html = await response.text();
    } catch {
      // not needed: the next item is then fetched when it is wanted
    } finally {
      this.hasLookedAhead = true;
    }
  }

  // Whoever leaves gives back what was only kept ready; what they wrote is sent once more.
  leaving() {
    this.saver.save({ leaving: true });
    if (!this.ahead) return;
    const form = new FormData();
    form.append("csrfmiddlewaretoken", cookie("csrftoken"));
    navigator.sendBeacon(`${this.ahead.url}release/`, form);
    this.ahead = null;
  }

  leave(url) {
    this.isLeft = true;
    location.assign(url);
  }

  close() {
    clearTimeout(this.aheadTimer);
    clearTimeout(this.recoverTimer);
    this.ahead = null;
    this.saver.stop();
  }

  // --- fields and clicks ---

  listen() {
    const { root } = this.panel;
    for (const pane of [root, this.evidence.root]) pane.addEventListener("pointerdown", () => this.#endPrefix());
    root.addEventListener("click", (event) => this.#clicked(event));
    root.addEventListener("input", (event) => this.#typed(event.target));
    root.addEventListener("focusout", (event) => event.target.matches("textarea") && !this.saver.tries && this.saver.save());
    this.panel.find("[data-skip] form").addEventListener("submit", (event) => {
      event.preventDefault();
      const reason = this.panel.find("[data-reason]").value.trim();
      this.panel.find("[data-skip]").close();
      if (reason) this.skip(reason);
    });
    this.evidence.root.addEventListener("click", (event) => {
      const link = event.target.closest("a[href]");
      if (link?.getAttribute("href").startsWith("?") && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        this.turn(link.getAttribute("href"), link.rel ? 0 : null);
      } else if (!link && getSelection().isCollapsed) {
        const at = this.evidence.stops.findIndex((stop) => stop.contains(event.target));
        if (at >= 0 && at !== this.evidence.at) this.#standAt(at);
      }
    });
  }

  #standAt(at) {
    this.evidence.root.querySelectorAll(".at").forEach((each) => each.classList.remove("at"));
    this.evidence.at = at;
    this.evidence.stop.classList.add("at");
    this.sheet(true);
    this.#arrive();
  }

  #clicked(event) {
    const button = event.target.closest("button");
    if (!button) return;
    const { toggle, attribution, confidence, mark, act, close } = button.dataset;
    if (toggle) this.toggle(toggle);
    else if (attribution) this.attribute(attribution);
    else if (confidence) this.sure(Number(confidence));
    else if (mark) this.choose(mark);
    else if (act) this.act(act);
    else if (close !== undefined) button.closest("dialog").close();
  }

  #typed(field) {
    if (field.matches("[data-memo]")) this.change((draft) => { draft.memo = field.value; }, "memo");
    if (field.matches("[data-mark-memo]")) this.change((draft) => { if (draft.mark) draft.mark.memo = field.value; }, `memo of ${this.draft.active}`);
    if (field.matches("[data-find]")) this.panel.search(field.value);
  }

  act(name) {
    const acts = {
      mark: () => this.mark(), whole: () => this.markWhole(), select: () => this.selectText(),
      first: () => this.first(), remove: () => this.remove(), nothing: () => this.nothing(),
      undo: () => this.back(false), redo: () => this.back(true), submit: () => this.submit(),
      skip: () => this.askWhy(), release: () => this.release(), definitions: () => this.definitions(),
      sheet: () => this.sheet(!this.panel.root.classList.contains("open")),
      mine: () => this.settle(false), theirs: () => this.settle(true), propose: () => this.propose(),
    };
    acts[name]?.();
  }

  // On a phone the codes are below one row until a step is tapped.
  sheet(isOpen) {
    this.panel.root.classList.toggle("open", isOpen);
    this.panel.find("[data-act=sheet]").setAttribute("aria-expanded", isOpen);
  }

  definitions() {
    const isOpen = this.panel.find(".code-list").classList.toggle("open");
    press(this.panel.find("[data-act=definitions]"), isOpen);
  }

  focus(selector) {
    const field = this.panel.find(selector);
    field.focus();
    field.scrollIntoView({ block: "nearest" });
  }

  // --- keys ---

  // True where the key meant something here.
  key(event) {
    const { key } = event;
    if ((event.ctrlKey || event.metaKey) && key === "Enter") return this.submit(), true;
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    if (this.prefix) return this.#second(key);
    if (this.cursor && this.#inText(event)) return true;
    if (this.codeOf.has(key)) return this.#code(key), true;
    const acts = {
      j: () => this.walk(1), k: () => this.walk(-1), "]": () => this.item(1), "[": () => this.item(-1),
      e: () => this.seek("error", 1, "[data-next-error]"), E: () => this.seek("error", -1),
      n: () => this.seek("change", 1), p: () => this.seek("change", -1),
      s: () => this.seek("skill", 1), S: () => this.seek("skill", -1), G: () => this.end(true),
      x: () => this.unfold(false), X: () => this.unfold(true), r: () => this.evidence.root.classList.toggle("no-reasoning"),
      m: () => this.mark(), M: () => this.markWhole(), v: () => this.selectText(), ".": () => this.walkMarks(1), ",": () => this.walkMarks(-1),
      f: () => this.first(), Backspace: () => this.remove(), 0: () => this.nothing(), z: () => this.back(false), Z: () => this.back(true),
      i: () => this.definitions(), w: () => this.focus(this.draft.mark ? "[data-mark-memo]" : "[data-memo]"), W: () => this.focus("[data-memo]"),
      "#": () => this.focus("[data-find]"), "-": () => this.askWhy(), h: () => this.release(), u: () => this.leave(this.page.urls.queue),
      K: () => this.settle(false), L: () => this.settle(true), R: () => this.saver.save(),
      a: () => this.#begin("a", "Who or what failed? Press the number on it."), q: () => this.#begin("q", "How sure? 1 low, 2 medium, 3 high."),
      g: () => this.#begin("g", "g: the first step. h, c, r, j, i, p: another page."), Escape: () => this.leaveText(),
    };
    if (!acts[key]) return key.length === 1 && /[a-z]/i.test(key) && key !== "T"; // no other letter leads away from here
    acts[key]();
    return true;
  }

  // A code without others below it is set at once. A group waits for a second key; Enter sets the group itself.
  #code(keys) {
    const found = this.codeOf.get(keys);
    const below = this.page.codes.filter((code) => code.key.length === keys.length + 1 && code.key.startsWith(keys));
    if (!below.length) return this.toggle(found.id);
    this.#begin(keys, `${found.name}: ${below.map((code) => `${code.key.at(-1)} ${code.name}`).join(", ")}, Enter for the group.`);
  }

  // It waits for its second key however long that takes: only that key, Esc or a click ends it, so that no key means
  // something else all of a sudden. The hint says so as long as it waits.
  #begin(prefix, hint) {
    this.prefix = prefix;
    this.panel.hint(`${hint} Esc: none of these.`);
    this.panel.root.classList.add("prefixed");
  }

  #endPrefix() {
    if (!this.prefix) return;
    this.prefix = "";
    this.panel.hint("");
    this.panel.root.classList.remove("prefixed");
  }

  #second(key) {
    if (key === "Shift") return true;
    const prefix = this.prefix;
    this.#endPrefix();
    const blamed = prefix === "a" && [...this.panel.root.querySelectorAll("[data-attribution]")].find((each) => each.dataset.then === key);
    if (blamed?.disabled) this.panel.hint(blamed.title);
    else if (blamed) this.attribute(blamed.dataset.attribution);
    else if (prefix === "q" && CONFIDENCE[key]) this.sure(Number(key));
    else if (prefix === "g" && key === "g") this.end(false);
    else if (prefix === "g" && pageAt(key)) this.leave(pageAt(key));
    else if (this.codeOf.has(prefix) && key === "Enter") this.toggle(this.codeOf.get(prefix).id);
    else if (this.codeOf.has(prefix + key)) this.#code(prefix + key);
    else if (key !== "Escape") this.panel.hint(`${prefix} ${key} means nothing here.`);
    return true;
  }

  #inText(event) {
    if (event.key === "Escape" || event.key === "v") return this.leaveText(), true;
    if (event.key === "Enter") return this.mark(), true;
    return this.cursor.key(event);
  }

  // Keys while a field has the focus: Esc leaves it, Enter in the search takes the first code found.
  keyInField(event) {
    const field = event.target;
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") return this.submit(), true;
    if (event.key === "Escape") return this.#leaveField(field), true;
    if (event.key !== "Enter" || !field.matches("[data-find]")) return false;
    const [code] = this.panel.search(field.value);
    if (!code) return this.panel.find("[data-act=propose]")?.focus(), true; // one more Enter proposes it
    this.#leaveField(field);
    this.toggle(code);
    return true;
  }

  #leaveField(field) {
    if (field.matches("[data-find]")) {
      field.value = "";
      this.panel.search("");
    }
    this.evidence.root.focus({ preventScroll: true });
    this.panel.find(".panel-scroll").scrollTop = 0; // the codes are what one looks at
  }
}

async function sendGuess(page, guess) {
  return post(page.urls.guess, { guess }).catch(() => null); // the item's own page asks again
}

// --- one item after the other -----------------------------------------------------------------------------------

let coding = null;

function openCoding() {
  const data = document.getElementById("coding-page");
  const page = data && JSON.parse(data.textContent);
  coding = page?.is_open ? new CodingPage(page, openNext) : null;
  document.querySelector("[data-guess-now]")?.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-guess-value]");
    if (!button) return;
    await sendGuess(page, button.dataset.guessValue);
    location.reload();
  });
}

// The item that was fetched ahead is shown at once; any other is gone to.
async function openNext(next, from) {
  const { ahead } = from;
  from.ahead = null;
  from.close();
  if (!next) return from.leave(from.page.urls.queue);
  if (!ahead?.html || ahead.url !== next) return from.leave(next);
  const fetched = new DOMParser().parseFromString(ahead.html, "text/html");
  const main = document.importNode(fetched.getElementById("main"), true);
  countOneMore(main);
  document.getElementById("main").replaceWith(main);
  document.title = fetched.title;
  history.pushState({ coding: true }, "", next);
  window.htmx?.process(main);
  scrollTo(0, 0);
  openCoding();
  performance.measure("review-next", "review-submit");
}

// The page was fetched before the last item was done: it counts one too few.
function countOneMore(main) {
  for (const count of main.querySelectorAll("[data-done]")) {
    const now = Number(count.dataset.done) + 1;
    count.dataset.done = now;
    count.matches("progress") ? (count.value = now) : (count.textContent = now);
  }
}

document.addEventListener("keydown", (event) => {
  if (!coding || event.isComposing) return;
  coding.saver.seen();
  const dialog = document.querySelector("dialog[open]");
  if (dialog) {
    const button = dialog.matches("[data-guess]") && dialog.querySelector(`[data-guess-key="${CSS.escape(event.key)}"]`);
    if (button) event.preventDefault(), button.click();
    return;
  }
  const isField = event.target.matches?.("input, textarea, select");
  const isUsed = isField ? coding.keyInField(event) : isPressing(event) ? false : coding.key(event);
  if (!isUsed) return;
  event.preventDefault();
  event.stopPropagation();
}, true);

// Where the bar of every page leads by g and this key.
function pageAt(key) {
  return document.querySelector(`a[data-key="g ${CSS.escape(key)}"]`)?.href;
}

// Enter and space on a focused button or link press it.
function isPressing(event) {
  return (event.key === "Enter" || event.key === " ") && !event.ctrlKey && !event.metaKey && event.target.closest?.("button, a, summary");
}

for (const name of ["pointerdown", "wheel", "scroll"]) {
  document.addEventListener(name, () => coding?.saver.seen(), { passive: true, capture: true });
}
document.addEventListener("visibilitychange", () => coding?.saver.save({ leaving: document.visibilityState === "hidden" }));
document.addEventListener("htmx:afterSettle", () => coding?.redraw());
window.addEventListener("focus", () => coding?.saver.save());
window.addEventListener("online", () => coding?.saver.save());
window.addEventListener("pagehide", () => coding?.leaving());
window.addEventListener("popstate", () => location.reload());
openCoding();

// Keeps a draft: in this browser at once, on the server after a second of quiet. Whatever fails, the words stay here and
// the page says where they are. Nothing is ever overwritten: a save names the revision it started from.

const QUIET = 1000;
const IDLE = 60_000; // nobody is at work after a minute without a key, a click or a scroll
const LEFT_BEHIND = 5000; // a tab that has something unsent says so every second; one that stopped is gone
const RETRY = [2000, 4000, 8000, 15_000, 30_000];
const KEPT = "skillglass-review";

const cookie = (name) => document.cookie.match(new RegExp(`(?:^|; )${name}=([^;]*)`))?.[1] ?? "";

// A tab keeps its name over reloads, so that it finds what it kept itself.
function tabName() {
  try {
    const name = sessionStorage.getItem(`${KEPT}-tab`) ?? newId();
    sessionStorage.setItem(`${KEPT}-tab`, name);
    return name;
  } catch {
    return newId();
  }
}

// localStorage may be full or switched off; then the server alone keeps the draft, and the page says so.
class KeptDrafts {
  constructor(reviewer, item) {
    this.prefix = `${KEPT}:${reviewer}:${item}:`;
    this.key = this.prefix + tabName();
  }

  write(entry) {
    try {
      localStorage.setItem(this.key, JSON.stringify({ ...entry, at: Date.now() }));
      return true;
    } catch {
      return false;
    }
  }

  // This tab's own entry first; then those of tabs that are gone.
  read() {
    const found = [];
    try {
      for (const key of Object.keys(localStorage).filter((each) => each.startsWith(this.prefix))) {
        const entry = JSON.parse(localStorage.getItem(key));
        if (key === this.key) found.unshift({ key, ...entry });
        else if (Date.now() - entry.at > LEFT_BEHIND) found.push({ key, ...entry });
      }
    } catch {
      // unreadable is as good as none
    }
    return found;
  }

  drop(key = this.key) {
    try {
      localStorage.removeItem(key);
    } catch {
      // it was never written
    }
    return true;
  }
}

async function post(url, body, { keepalive = false } = {}) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRFToken": cookie("csrftoken") },
    body: JSON.stringify(body),
    credentials: "same-origin",
    keepalive,
    signal: AbortSignal.timeout(20_000),
  });
  const isJson = response.headers.get("Content-Type")?.startsWith("application/json");
  return { status: response.status, answer: isJson ? await response.json() : {} };
}

class ReviewSaver {
  // `tell(kind, words)` writes the line of state; `clash(theirs)` and `over(answer)` are the page's to handle.
  constructor(page, draft, { tell, clash, over }) {
    this.page = page;
    this.draft = draft;
    this.tell = tell;
    this.clash = clash;
    this.over = over;
    this.revision = page.revision;
    this.kept = new KeptDrafts(page.reviewer, page.item);
    this.isDirty = false;
    this.unanswered = []; // sent, and perhaps arrived
    this.conflict = null; // what stands on the server while the person has not chosen
    this.tries = 0;
    this.seconds = page.draft.seconds;
    this.seenAt = Date.now();
    this.tickedAt = Date.now();
    this.clock = setInterval(() => this.#tick(), 1000);
  }

  // What this browser kept from before. Built on what the server has, it goes on; else the person chooses.
  recover() {
    if (this.conflict || this.isStopped) return false;
    for (const entry of this.kept.read()) {
      if (entry.key === this.kept.key ? this.isDirty : !this.kept.drop(entry.key)) continue;
      if (!entry.isDirty || saysTheSame(entry.said, this.draft.said)) continue;
      if (this.isDirty) {
        this.#openConflict({ draft: entry.said, revision: this.revision });
      } else if (entry.revision === this.revision) {
        this.draft.replaceBy(entry.said);
        this.draft.nothing = entry.nothing ?? false;
        this.changed();
        this.tell("kept", "restored what this browser kept");
      } else {
        const theirs = this.draft.said;
        this.draft.replaceBy(entry.said);
        this.isDirty = true;
        this.#openConflict({ draft: theirs, revision: this.revision });
      }
      return true;
    }
    return false;
  }

  changed() {
    this.isDirty = true;
    const isKept = this.#keep();
    if (this.conflict) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), QUIET);
    this.tell("waiting", isKept ? "kept in this browser" : "not saved yet");
  }

  seen() {
    this.seenAt = Date.now();
  }

  // Sends what is new. Saves follow each other; one that is asked for meanwhile is done after.
  async save({ leaving = false } = {}) {
    clearTimeout(this.timer);
    if (this.isStopped || this.isFinishing || this.conflict || (!this.isDirty && !this.tries)) return;
    if (this.sending && !(leaving && this.sentState !== this.#state())) {
      this.isAskedAgain = !leaving;
      return this.sending;
    }
    this.sending = this.#send(leaving);
    await this.sending;
    this.sending = null;
    if (this.isAskedAgain) {
      this.isAskedAgain = false;
      await this.save();
    }
  }

  // For submit and skip: waits for a save under way, then sends all together; meanwhile no other save begins, since it
  // would come after the end and find the review final. null where it did not work.
  async finish(url, more) {
    if (this.isFinishing) return null;
    this.isFinishing = true;
    await this.sending;
    clearTimeout(this.timer);
    this.isAskedAgain = false;
    const answer = this.conflict ? null : await this.#sendLast(url, more);
    this.isFinishing = false;
    return answer;
  }

  async #sendLast(url, more) {
    this.isDirty = true;
    this.#keep();
    this.tell("saving", "sending");
    const result = await this.#ask(url, { ...this.#body(), ...more });
    if (result?.status !== 200) return this.#handle(result), null;
    this.stop();
    return result.answer;
  }

  stop() {
    this.isStopped = true;
    this.isDirty = false;
    clearTimeout(this.timer);
    clearInterval(this.clock);
    this.kept.drop();
  }

  settle(takesTheirs) {
    const theirs = this.conflict;
    this.conflict = null;
    this.revision = theirs.revision;
    if (takesTheirs) this.draft.replaceBy(theirs.draft);
    this.isDirty = true;
    this.#keep();
    return this.save();
  }

  async #send(leaving) {
    const sent = (this.sentState = this.#state());
    if (!this.tries) this.tell("saving", "saving");
    const result = await this.#ask(this.page.urls.save, this.#body(), { keepalive: leaving });
    if (result?.status === 200) this.#arrived(result.answer, sent);
    else await this.#handle(result);
  }

  async #ask(url, body, options) {
    this.unanswered.push(copyOf(body.draft));
    try {
      return await post(url, body, options);
    } catch {
      return null;
    }
  }

  #arrived(answer, sent) {
    this.revision = answer.revision;
    this.unanswered = [];
    this.tries = 0;
    this.isDirty = this.#state() !== sent;
    this.#keep();
    const time = new Date(answer.saved_at).toLocaleTimeString("en", { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" });
    if (answer.held === false) {
      this.tell("lost", `saved ${time}; your reservation ended and the place was taken. Continue: your review counts in addition`);
    } else {
      this.tell("saved", `saved ${time}`);
    }
    if (this.isDirty) this.changed();
  }

  // Everything but success. The words lie in this browser already.
  async #handle(result) {
    const { status, answer } = result ?? { status: 0, answer: {} };
    if (status === 409) return this.#clashed(answer);
    if (status === 410) return this.over(answer);
    if (status === 422) return this.tell("wrong", answer.problems ? "not submitted" : answer.error, answer.problems);
    if (status === 413 || status === 404) return this.tell("wrong", answer.error ?? "The server no longer has this item; the draft is kept in this browser.");
    this.tries += 1;
    if (status === 401 || status === 403) {
      const words = answer.reviewer
        ? `${answer.error} Kept in this browser: log in as ${this.page.reviewer} in another tab, then press R`
        : "session ended: log in in another tab, then press R. Everything is kept in this browser";
      return this.tell("ended", words);
    }
    this.timer = setTimeout(() => this.save(), RETRY[Math.min(this.tries, RETRY.length) - 1]);
    this.tell("offline", "offline: kept in this browser; saves again automatically");
  }

  // A save whose answer was lost looks like another tab's. What stands was sent from here: go on from it.
  async #clashed(answer) {
    if (this.unanswered.some((sent) => saysTheSame(sent, answer.draft))) {
      this.revision = answer.revision;
      this.unanswered = [];
      const isAll = saysTheSame(this.draft.said, answer.draft);
      if (!isAll) return this.#send(false);
      return this.#arrived({ ...answer, held: true }, this.#state());
    }
    if (saysTheSame(this.draft.said, answer.draft)) return this.#arrived({ ...answer, held: true }, this.#state());
    this.#openConflict(answer);
  }

  #openConflict(theirs) {
    this.conflict = theirs;
    this.#keep();
    this.tell("clash", "another tab saved a newer draft: choose");
    this.clash(theirs.draft);
  }

  #keep() {
    const { revision, isDirty } = this;
    return this.kept.write({ revision, isDirty, said: this.draft.said, nothing: this.draft.nothing });
  }

  #body() {
    const draft = { ...this.draft.said, seconds: Math.round(this.seconds * 10) / 10 };
    return { reviewer: this.page.reviewer, revision: this.revision, draft };
  }

  #state() {
    return JSON.stringify(this.draft.said);
  }

  #tick() {
    const now = Date.now();
    const isAtWork = document.visibilityState === "visible" && document.hasFocus() && now - this.seenAt < IDLE;
    if (isAtWork) this.seconds += Math.min(now - this.tickedAt, 2000) / 1000;
    this.tickedAt = now;
    if (this.isDirty) this.#keep();
  }
}

// A draft is a plain value: { marks, memo, confidence }. Every change goes through `change`, so every change can be undone.

const HISTORY = 300;

// crypto.randomUUID exists on https and localhost only; an installation may stand in a plain local network.
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

const copyOf = (value) => JSON.parse(JSON.stringify(value));

// Equal for a reader: what the server may correct (ranges, order of keys) and the time at work do not count.
function saysTheSame(one, other) {
  const said = (draft) => [
    draft.memo,
    draft.confidence,
    draft.marks.map((mark) => [
      mark.id, mark.step, mark.path, mark.attribution, mark.first, mark.memo,
      mark.labels.map((label) => [label.code, label.needs_look]),
    ]),
  ];
  return JSON.stringify(said(one)) === JSON.stringify(said(other));
}

class ReviewDraft {
  constructor(said) {
    this.marks = said.marks;
    this.memo = said.memo;
    this.confidence = said.confidence;
    this.nothing = false; // said aloud: nothing is wrong here
    this.active = null; // id of the mark that keys speak about
    this.past = [];
    this.future = [];
    this.typing = null;
  }

  get said() {
    return copyOf({ marks: this.marks, memo: this.memo, confidence: this.confidence });
  }

  get mark() {
    return this.marks.find((mark) => mark.id === this.active) ?? null;
  }

  get isCoded() {
    return this.marks.some((mark) => mark.labels.length > 0);
  }

  // `typing` names a text field: what is typed into one field in a row is one step back.
  change(act, typing = null) {
    const before = this.#state();
    act(this);
    if (this.#state() === before) return false;
    if (!typing || typing !== this.typing) this.past = [...this.past.slice(-HISTORY), before];
    this.typing = typing;
    this.future = [];
    return true;
  }

  // Looking at another mark is no change, but it ends a row of typing.
  look(id) {
    this.active = id;
    this.typing = null;
  }

  undo() {
    return this.#go(this.past, this.future);
  }

  redo() {
    return this.#go(this.future, this.past);
  }

  // What another tab wrote takes this one's place; this one's stays one step back.
  replaceBy(said) {
    return this.change((draft) => {
      Object.assign(draft, copyOf({ marks: said.marks, memo: said.memo, confidence: said.confidence }));
      draft.active = null;
    });
  }

  #go(from, to) {
    if (!from.length) return false;
    to.push(this.#state());
    Object.assign(this, JSON.parse(from.pop()));
    this.typing = null;
    return true;
  }

  #state() {
    const { marks, memo, confidence, nothing, active } = this;
    return JSON.stringify({ marks, memo, confidence, nothing, active });
  }
}

function newMark(place) {
  return {
    id: newId(), trajectory: 0, step: null, field: "", start: null, end: null, quote: "", path: "",
    labels: [], attribution: "", first: false, memo: "", ...place,
  };
}

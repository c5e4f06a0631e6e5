// Files go to the server in pieces. A lost connection costs one piece; the same files chosen again go on where they stopped.
// What is already here, and every sentence about an import, comes from the server.

const zone = document.getElementById("drop");
const line = document.getElementById("sending");
const bar = zone.querySelector("progress");
const token = zone.querySelector("[name=csrfmiddlewaretoken]").value;

const SMALLEST = 256 * 1024; // bytes of a piece on a slow line
const PIECE_SECONDS = 50; // the server waits a minute for a request
const RETRY = [1, 2, 4, 8, 15, 30]; // seconds
const LOOK = 1500; // milliseconds between two looks at an import
const SPOKEN = 1000; // and between two lines that are read out

class Lost extends Error {} // the connection, or the server for a moment: the same request may be sent again
class Stale extends Error {} // the server has other bytes than this page believes
class Refused extends Error {}

let isSending = false;

const pause = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const megabytes = (bytes) => (bytes / 1e6).toFixed(1);

async function ask(url, body, type) {
  const headers = { Accept: "application/json", "X-CSRFToken": token, ...(type && { "Content-Type": type }) };
  let response, answer;
  try {
    const signal = AbortSignal.timeout(PIECE_SECONDS * 1000);
    response = await fetch(url, { method: body === undefined ? "GET" : "POST", headers, body, signal });
    answer = response.headers.get("Content-Type")?.startsWith("application/json") ? await response.json() : {};
  } catch (error) {
    throw new Lost("Connection lost.", { cause: error });
  }
  if (response.ok) return answer;
  if (response.status === 409) throw new Stale(answer.error);
  if (response.status === 429 || (response.status >= 500 && !answer.error)) throw new Lost("The server does not answer.");
  throw new Refused(answer.error ?? (response.status === 413 ? "Too many files to list. Pack them as a .zip." : `The server answered ${response.status}.`));
}

// --- sending ---------------------------------------------------------------------------------------------------------

class Sender {
  constructor(chosen) {
    this.chosen = chosen; // path and file
    this.total = chosen.reduce((sum, { file }) => sum + file.size, 0);
    this.spokenAt = 0;
  }

  async run() {
    for (let tries = 0; ; tries += 1) {
      try {
        await this.#persist(() => this.#begin());
        while (this.at < this.chosen.length) await this.#persist(() => this.#sendNext());
        return await this.#persist(() => ask(`${this.url}finish/`, ""));
      } catch (error) {
        if (!(error instanceof Stale) || tries >= 3) throw error;
      }
    }
  }

  // Smaller pieces after each loss: on a slow line a large one never arrives in time.
  async #persist(work) {
    for (let tries = 0; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        if (!(error instanceof Lost)) throw error;
        await this.#checkReadable();
        this.piece = Math.max(SMALLEST, (this.piece ?? 0) / 2);
        const seconds = RETRY[Math.min(tries, RETRY.length - 1)];
        line.textContent = `${error.message} Trying again in ${seconds} s. What arrived stays.`;
        await pause(seconds);
      }
    }
  }

  async #checkReadable() {
    const { path, file } = this.chosen[Math.min(this.at ?? 0, this.chosen.length - 1)];
    try {
      await file.slice(0, 1).arrayBuffer();
    } catch {
      throw new Refused(`${path} changed or cannot be read. Choose the files again.`);
    }
  }

  async #begin() {
    const files = this.chosen.map(({ path, file }) => ({ path, size: file.size, modified: Math.max(0, file.lastModified) }));
    const answer = await ask(zone.dataset.begin, JSON.stringify({ files }), "application/json");
    this.url = answer.url;
    document.querySelector(`[data-upload="${answer.id}"]`)?.remove(); // it says what this line says now
    this.numbers = answer.files.map(([number]) => number);
    this.received = answer.files.map(([, received]) => received);
    this.places = new Map(this.numbers.map((number, place) => [number, place]));
    this.largest = answer.piece_bytes;
    this.most = answer.piece_files;
    this.piece ??= this.largest;
    this.at = 0;
    this.#passWhole();
    this.#show();
  }

  #passWhole() {
    while (this.at < this.chosen.length && this.received[this.at] === this.chosen[this.at].file.size) this.at += 1;
  }

  async #sendNext() {
    const parts = [], bytes = [];
    let room = this.piece;
    for (let place = this.at; place < this.chosen.length && room > 0 && parts.length < this.most; place += 1) {
      const { file } = this.chosen[place];
      const offset = this.received[place];
      const length = Math.min(room, file.size - offset);
      if (!length) continue;
      parts.push([this.numbers[place], offset, length]);
      bytes.push(file.slice(offset, offset + length));
      room -= length;
    }
    const answer = await ask(`${this.url}pieces/`, new Blob([`${JSON.stringify(parts)}\n`, ...bytes]), "application/octet-stream");
    for (const [number, received] of answer.files) this.received[this.places.get(number)] = received;
    this.piece = Math.min(this.largest, this.piece * 2);
    this.#passWhole();
    this.#show();
  }

  #show() {
    const sent = this.received.reduce((sum, bytes) => sum + bytes, 0);
    bar.value = this.total ? sent / this.total : 1;
    if (Date.now() - this.spokenAt < SPOKEN && sent < this.total) return;
    this.spokenAt = Date.now();
    line.textContent = `${megabytes(sent)} of ${megabytes(this.total)} MB, ${this.at.toLocaleString("en")} of ${this.chosen.length.toLocaleString("en")} files`;
  }
}

async function send(chosen) {
  if (isSending || !chosen.length) return;
  isSending = true;
  bar.hidden = false;
  zone.classList.remove("refused");
  try {
    await new Sender(chosen).run();
    isSending = false;
    location.assign(location.pathname); // what a worker makes of it is its headline
    return;
  } catch (error) {
    line.textContent = error.message;
    zone.classList.add("refused");
  }
  isSending = false;
  bar.hidden = true;
}

// --- choosing --------------------------------------------------------------------------------------------------------

const asFile = (entry) => new Promise((done, fail) => entry.file(done, fail));
const readSome = (reader) => new Promise((done, fail) => reader.readEntries(done, fail));

async function walk(entry, found) {
  if (entry.isFile) {
    found.push({ path: entry.fullPath.replace(/^\//, ""), file: await asFile(entry) });
    return;
  }
  const reader = entry.createReader();
  for (let some = await readSome(reader); some.length; some = await readSome(reader)) {
    for (const each of some) await walk(each, found);
  }
}

async function readDropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean); // gone after the first await
  const loose = [...transfer.files];
  const found = [];
  for (const entry of entries) await walk(entry, found);
  return found.length || entries.length ? found : loose.map((file) => ({ path: file.name, file }));
}

for (const name of ["dragover", "drop"]) {
  document.addEventListener(name, (event) => event.preventDefault()); // beside the zone a browser would open the file
}
zone.addEventListener("dragover", () => zone.classList.add("over"));
zone.addEventListener("dragleave", () => zone.classList.remove("over"));
zone.addEventListener("drop", async (event) => {
  zone.classList.remove("over");
  line.textContent = "Listing files…";
  const chosen = await readDropped(event.dataTransfer).catch(() => []);
  line.textContent = chosen.length ? "" : "There is no file in it that can be read.";
  send(chosen);
});
for (const button of zone.querySelectorAll("[data-choose]")) {
  const input = zone.querySelector(button.dataset.choose);
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    send([...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
    input.value = "";
  });
}

// --- what a worker makes of it ----------------------------------------------------------------------------------------

async function watch(url, part) {
  const shown = part.querySelector("h1, p");
  const read = part.querySelector("progress");
  for (;;) {
    await pause(LOOK / 1000);
    let answer;
    try {
      answer = await ask(url);
    } catch (error) {
      if (error instanceof Lost) continue;
      return;
    }
    if (shown.textContent !== answer.sentence) shown.textContent = answer.sentence;
    const { files, done, total } = answer.progress;
    if (read && files !== undefined) Object.assign(read, { max: answer.files_total, value: files });
    else if (read && total > 1) Object.assign(read, { max: total, value: done });
    else read?.removeAttribute("value");
    if (answer.state !== "waiting" && answer.state !== "importing") {
      if (isSending) continue; // a page that leaves would stop it
      location.assign(answer.imported ?? location.href);
      return;
    }
  }
}

for (const part of document.querySelectorAll("[data-watch]")) watch(part.dataset.watch, part);

// The sandbox's end of a tunnel to the model gateway, for sandboxes that offer no more than running commands.
//
//   node relay.js serve FOLDER             listens at 127.0.0.1, prints its port and works until it is killed
//   node relay.js exchange FOLDER FILE     hands in the frames of the file, and removes it
//   node relay.js exchange FOLDER take     waits for frames from the agent's program, and prints them
//
// A frame is one line of JSON: {"of": number of the connection, "data": base64}, or with "end" or "closed" for data.
// Printed ones begin with "@@", so that nothing else that a sandbox prints is taken for one.
"use strict";
const fs = require("fs");
const net = require("net");
const path = require("path");

const [, , action, folder, given] = process.argv;
const socketPath = path.join(folder, "relay");
const AT_ONCE = 1 << 20; // bytes of frames that one exchange takes away
const HELD = 8 << 20; // bytes after which a connection must wait
const WAIT_MS = 15000; // an exchange waits so long for something to take away

function eachLine(stream, use) {
  let rest = "";
  stream.setEncoding("utf8");
  stream.on("data", (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    lines.filter(Boolean).forEach((line) => use(line));
  });
}

function serve() {
  const connections = new Map();
  const frames = [];
  let held = 0;
  let numbers = 0;
  let waiting = null; // the exchange that waits for frames

  function hold(frame) {
    const line = JSON.stringify(frame);
    frames.push(line);
    held += line.length;
    if (held > HELD) connections.forEach((connection) => connection.pause());
    if (waiting) take(waiting);
  }

  function take(exchange) {
    waiting = null;
    clearTimeout(exchange.timer);
    let taken = 0;
    while (frames.length && taken < AT_ONCE) {
      const line = frames.shift();
      taken += line.length;
      exchange.write(line + "\n");
    }
    held -= taken;
    if (held <= HELD) connections.forEach((connection) => connection.resume());
    exchange.end();
  }

  const server = net.createServer({ allowHalfOpen: true }, (connection) => {
    const number = ++numbers;
    connections.set(number, connection);
    connection.on("data", (data) => hold({ of: number, data: data.toString("base64") }));
    connection.on("end", () => hold({ of: number, end: true }));
    connection.on("error", () => {});
    connection.on("close", () => {
      connections.delete(number);
      hold({ of: number, closed: true });
    });
  });
  server.listen(0, "127.0.0.1", () => {
    const host = net.createServer({ allowHalfOpen: true }, (exchange) => {
      exchange.on("error", () => {});
      eachLine(exchange, (line) => {
        if (line === "take") {
          exchange.timer = setTimeout(() => take(exchange), WAIT_MS);
          waiting = exchange;
          if (frames.length) take(exchange);
          return;
        }
        const frame = JSON.parse(line);
        const connection = connections.get(frame.of);
        if (!connection) return;
        if (frame.data) connection.write(Buffer.from(frame.data, "base64"));
        if (frame.end) connection.end();
      });
      exchange.on("end", () => waiting !== exchange && exchange.end());
    });
    host.listen(socketPath, () => console.log("@@" + server.address().port));
  });
}

function exchange() {
  const relay = net.connect(socketPath);
  const sent = given === "take" ? "take\n" : fs.readFileSync(given);
  relay.on("error", (error) => {
    console.error(String(error));
    process.exit(1);
  });
  eachLine(relay, (line) => console.log("@@" + line));
  relay.write(sent);
  if (given !== "take") {
    relay.end();
    relay.on("finish", () => fs.rmSync(given, { force: true }));
  }
}

({ serve, exchange })[action]();

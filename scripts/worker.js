// A worker in another language, for the tests and as an example: the .proto files are all that it shares with Python.
//   npm install --prefix scripts && node scripts/worker.js 127.0.0.1:7700 [FOLDER of certificates | insecure]
// Without a folder it takes the user's own certificates, which the first process of a cluster has made.
// It does the kinds of task below, each task in a thread. SIGTERM: it finishes the tasks that it has, then ends.
"use strict";
const fs = require("fs");
const os = require("os");
const path = require("path");
const { createHash } = require("crypto");
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");

// Kinds of task: functions from a JSON object to a JSON object.

async function noop({ seconds = 0, echo = null }) {
  const began = Date.now() / 1000;
  if (seconds) await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
  return { began, echo };
}

// Throws darts at the unit square, to the bit as class Darts of docs/examples/monte_carlo.py.
function Darts({ seed, count }) {
  let inside = 0;
  for (let number = 0; number < Math.floor(count / 4); number += 1) {
    const block = createHash("sha256").update(`${seed} ${number}`).digest();
    for (let place = 0; place < 32; place += 8) {
      const x = block.readUInt32LE(place) >>> 6;
      const y = block.readUInt32LE(place + 4) >>> 6;
      inside += x * x + y * y < 2 ** 52 ? 1 : 0;
    }
  }
  return { inside };
}

const KINDS = { noop, Darts };

// The cluster: its contract, certificates, the list of brokers.

const [nameserverAddress, certificates] = process.argv.slice(2);
const { grpc, Nameserver, Work } = isMainThread ? contract() : {}; // a task's thread starts without gRPC

function contract() {
  const grpc = require("@grpc/grpc-js");
  const folder = path.join(__dirname, "..", "neuro_cli", "broker", "proto");
  const files = ["nameserver.proto", "broker.proto"].map((name) => path.join(folder, name));
  const form = { keepCase: true, defaults: true, enums: String, longs: Number };
  return { grpc, ...grpc.loadPackageDefinition(require("@grpc/proto-loader").loadSync(files, form)).neuro.v1 };
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

// `certificates`: a folder, "insecure", or nothing for the user's own, which the first process of a cluster has made.
function credentials(certificates) {
  if (certificates === "insecure") return grpc.credentials.createInsecure();
  const own = path.join(process.env.XDG_CONFIG_HOME || path.join(os.homedir(), ".config"), "neuro", "cluster");
  const read = (file) => fs.readFileSync(path.join(certificates || own, file));
  return grpc.credentials.createSsl(read("ca.crt"), read("node.key"), read("node.crt"));
}

// All living brokers; none when the nameserver does not answer.
function brokers(nameserver) {
  return new Promise((resolve) => {
    nameserver.Brokers({}, { deadline: Date.now() + 5000 }, (error, reply) => resolve(error ? [] : reply.brokers));
  });
}

// The worker.

const CAPACITY = 8; // tasks it holds at a time
const RETRY_MS = 500;
const HEAD_BYTES = 16384; // room in a message beside a payload
const name = `node ${os.hostname()}:${process.pid}`;
let draining = false;
let goOn = () => {};

// Do one task. A thread that is marked `dropped` gives no result: nobody wants it any more.
function done(task, mostBytes, threads, key) {
  const named = { run: task.run, id: task.id, worker: name, delivery: task.delivery };
  if (!Object.hasOwn(KINDS, task.kind)) {
    return Promise.resolve({ ...named, outcome: "UNKNOWN_KIND", error: `the task's type '${task.kind}' is unknown` });
  }
  const began = Date.now();
  return new Promise((resolve) => {
    const thread = new Worker(__filename, { workerData: { kind: task.kind, payload: task.payload.toString() } });
    threads.set(key, thread);
    let timer = null;
    const ended = (result) => {
      clearTimeout(timer);
      threads.delete(key);
      resolve(result && { ...named, seconds: (Date.now() - began) / 1000, ...result });
    };
    if (task.timeout_seconds) {
      timer = setTimeout(() => {
        ended({ outcome: "TIMED_OUT", error: `the task took longer than its ${task.timeout_seconds} s` });
        thread.terminate();
      }, 1000 * task.timeout_seconds);
    }
    thread.on("message", ({ answer, error }) => {
      const payload = Buffer.from(answer ?? "");
      if (answer === undefined) ended({ outcome: "RAISED", error: error ?? "the result is no JSON" });
      else if (payload.length > mostBytes) ended({ outcome: "TOO_LARGE", error: `the result has ${payload.length} bytes, ${mostBytes} are allowed` });
      else ended({ outcome: "DONE", payload });
    });
    thread.on("error", (error) => ended({ outcome: "CRASHED", error: `the task's thread ended: ${error}` }));
    // after a message the promise is kept already
    thread.on("exit", (code) => ended(thread.dropped ? null : { outcome: "CRASHED", error: `the task's thread ended with exit code ${code}` }));
  });
}

function drop(thread) {
  if (!thread) return;
  thread.dropped = true;
  thread.terminate();
}

// Work for one broker until its stream ends.
function visit(broker) {
  return new Promise((resolve) => {
    const client = new Work(broker.address, credentials(certificates));
    const stream = client.Pull();
    const threads = new Map();
    let holding = 0;
    let beat = null;
    let mostBytes = 0;
    const say = (message) => stream.write({ capacity: draining ? 0 : CAPACITY, ...message });
    const leaveIfDone = () => draining && holding === 0 && stream.end();
    const over = () => {
      clearInterval(beat);
      for (const thread of threads.values()) drop(thread);
      client.close();
      resolve();
    };
    const keyOf = ({ run, id }) => JSON.stringify([run, id]);
    stream.on("data", (message) => {
      if (message.welcome) {
        beat = setInterval(() => say({}), 1000 * message.welcome.beat_seconds);
        mostBytes = message.welcome.message_bytes - HEAD_BYTES;
      }
      for (const task of message.tasks) {
        holding += 1;
        say({ started: [{ run: task.run, id: task.id }] });
        done(task, mostBytes, threads, keyOf(task)).then((result) => {
          holding -= 1;
          say(result ? { results: [result] } : {});
          leaveIfDone();
        });
      }
      for (const task of message.dropped) drop(threads.get(keyOf(task)));
    });
    stream.on("error", over);
    stream.on("end", over);
    goOn = () => { say({}); leaveIfDone(); };
    say({ hello: { name, kinds: Object.keys(KINDS) } });
  });
}

async function main() {
  const nameserver = new Nameserver(nameserverAddress, credentials(certificates));
  console.log(`neuro: worker ${name}`);
  while (!draining) {
    const known = await brokers(nameserver);
    known.sort((one, other) => one.workers - other.workers);
    if (known.length) await visit(known[0]);
    if (!draining) await sleep(RETRY_MS);
  }
  process.exit(0);
}

// A task's thread: the same file, with the task as its data.
function runTask() {
  Promise.resolve()
    .then(() => KINDS[workerData.kind](JSON.parse(workerData.payload || "{}")))
    .then((answer) => parentPort.postMessage({ answer: JSON.stringify(answer) }))
    .catch((error) => parentPort.postMessage({ error: String(error && error.stack) }));
}

if (isMainThread) {
  process.on("SIGTERM", () => { draining = true; goOn(); });
  main();
} else {
  runTask();
}

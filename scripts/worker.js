// A worker in another language: nothing but the .proto files ties it to the rest.
//   npm install --prefix scripts && node scripts/worker.js 127.0.0.1:7700 [FOLDER of certificates | insecure]
// Without a folder it takes the user's own certificates, which the first process of a cluster has made.
// It does the tasks of kinds.js, each in a thread. SIGTERM: it finishes what it holds, then ends.
"use strict";
const os = require("os");
const path = require("path");
const { Worker } = require("worker_threads");
const { Nameserver, Work, brokers, credentials, sleep } = require("./cluster.js");
const { KINDS } = require("./kinds.js");

const CAPACITY = 8; // tasks it holds at a time
const RETRY_MS = 500;
const HEAD_BYTES = 16384; // of a message, around a payload
const [nameserverAddress, certificates] = process.argv.slice(2);
const name = `node ${os.hostname()}:${process.pid}`;
let draining = false;
let goOn = () => {};

// Do one task. No result comes of one whose thread is marked `dropped`: nobody wants it any more.
function done(task, mostBytes, threads, key) {
  const named = { run: task.run, id: task.id, worker: name, delivery: task.delivery };
  if (!Object.hasOwn(KINDS, task.kind)) {
    return Promise.resolve({ ...named, outcome: "UNKNOWN_KIND", error: `the task's type '${task.kind}' is unknown` });
  }
  const began = Date.now();
  return new Promise((resolve) => {
    const thread = new Worker(path.join(__dirname, "kinds.js"), { workerData: { kind: task.kind, payload: task.payload.toString() } });
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

process.on("SIGTERM", () => { draining = true; goOn(); });
main();

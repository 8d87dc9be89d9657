// A worker in another language: nothing but the .proto files ties it to the rest.
//   npm install --prefix scripts && node scripts/worker.js 127.0.0.1:7700 [FOLDER of certificates | insecure]
// Without a folder it takes the user's own certificates, which the first process of a cluster has made.
// It does tasks of the kind noop. SIGTERM: it finishes what it holds, then ends.
"use strict";
const fs = require("fs");
const os = require("os");
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const CAPACITY = 8; // tasks it holds at a time
const RETRY_MS = 500;
const KINDS = {
  noop: async (payload) => {
    const began = Date.now() / 1000;
    if (payload.seconds) await sleep(1000 * payload.seconds);
    return { began, echo: payload.echo ?? null };
  },
};

const folder = path.join(__dirname, "..", "neuro_cli", "broker", "proto");
const definition = loader.loadSync(["nameserver.proto", "broker.proto"].map((name) => path.join(folder, name)), {
  keepCase: true, defaults: true, enums: String,
});
const { Nameserver, Work } = grpc.loadPackageDefinition(definition).neuro.v1;
const [nameserverAddress, certificates] = process.argv.slice(2);
const name = `node ${os.hostname()}:${process.pid}`;
let draining = false;
let goOn = () => {};

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function credentials() {
  if (certificates === "insecure") return grpc.credentials.createInsecure();
  const own = path.join(process.env.XDG_CONFIG_HOME || path.join(os.homedir(), ".config"), "neuro", "cluster");
  const read = (file) => fs.readFileSync(path.join(certificates || own, file));
  return grpc.credentials.createSsl(read("ca.crt"), read("node.key"), read("node.crt"));
}

function brokers(nameserver) {
  return new Promise((resolve) => {
    nameserver.Brokers({}, { deadline: Date.now() + 5000 }, (error, reply) => resolve(error ? [] : reply.brokers));
  });
}

async function done(task) {
  const named = { run: task.run, id: task.id, worker: name, delivery: task.delivery };
  const began = Date.now();
  try {
    if (!(task.kind in KINDS)) return { ...named, outcome: "UNKNOWN_KIND", error: `the task's type '${task.kind}' is unknown` };
    const answer = await KINDS[task.kind](JSON.parse(task.payload.toString() || "{}"));
    return { ...named, outcome: "DONE", payload: Buffer.from(JSON.stringify(answer)), seconds: (Date.now() - began) / 1000 };
  } catch (error) {
    return { ...named, outcome: "RAISED", error: String(error.stack) };
  }
}

// Work for one broker until its stream ends.
function visit(broker) {
  return new Promise((resolve) => {
    const client = new Work(broker.address, credentials());
    const stream = client.Pull();
    let holding = 0;
    let beat = null;
    const say = (message) => stream.write({ capacity: draining ? 0 : CAPACITY, ...message });
    const leaveIfDone = () => draining && holding === 0 && stream.end();
    const over = () => { clearInterval(beat); client.close(); resolve(); };
    stream.on("data", (message) => {
      if (message.welcome) beat = setInterval(() => say({}), 1000 * message.welcome.beat_seconds);
      for (const task of message.tasks) {
        holding += 1;
        say({ started: [{ run: task.run, id: task.id }] });
        done(task).then((result) => { holding -= 1; say({ results: [result] }); leaveIfDone(); });
      }
    });
    stream.on("error", over);
    stream.on("end", over);
    goOn = () => { say({}); leaveIfDone(); };
    say({ hello: { name, kinds: Object.keys(KINDS) } });
  });
}

async function main() {
  const nameserver = new Nameserver(nameserverAddress, credentials());
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

// A model's side of a task cluster in JavaScript: tasks go to a broker, their results come back on a stream.
"use strict";
const { randomBytes } = require("crypto");
const { Nameserver, Submission, brokers, credentials, grpc, sleep } = require("./cluster.js");

const RETRY_MS = 300;
const CALL_MS = 5000;
const BATCH = 200; // tasks of a message

class Client {
  // `certificates` as for credentials().
  constructor(nameserver, certificates) {
    this.credentials = credentials(certificates);
    this.nameserver = new Nameserver(nameserver, this.credentials);
    this.name = randomBytes(8).toString("hex"); // of this run
    this.token = randomBytes(32); // the run is whose who has it
    this.outstanding = new Map(); // by id: the task, and how to settle its promise
    this.unsent = [];
    this.visited = new Map(); // brokers that may have tasks of ours
    this.count = 0;
    this.closed = false;
    this.wake = () => {};
    this.work = this.keep();
  }

  // Submit a task; a promise of its result, {value, worker, seconds}, which is broken by what the task raised.
  run(kind, payload) {
    const id = String(this.count++);
    const task = { run: this.name, id, kind, payload: Buffer.from(JSON.stringify(payload)) };
    const promise = new Promise((resolve, reject) => this.outstanding.set(id, { task, resolve, reject }));
    this.unsent.push(task);
    this.wake();
    return promise;
  }

  // Drop what is left at the brokers, and end.
  async close() {
    this.closed = true;
    this.stream?.cancel();
    this.wake();
    await this.work;
    for (const address of this.visited.keys()) {
      await call(new Submission(address, this.credentials), "Cancel", { run: this.name, token: this.token }).catch(() => {});
    }
    this.nameserver.close();
  }

  // Use one broker after the other; what was sent to one that is lost is sent to the next.
  async keep() {
    while (!this.closed) {
      const known = await brokers(this.nameserver);
      known.sort((one, other) => one.waiting + one.running - other.waiting - other.running);
      if (known.length) await this.use(known[0]);
      if (!this.closed) await sleep(RETRY_MS);
    }
  }

  async use(broker) {
    const stub = new Submission(broker.address, this.credentials);
    this.visited.set(broker.address, true);
    this.unsent = [...this.outstanding.values()].map(({ task }) => task);
    let there = true;
    this.stream = stub.Results();
    const over = () => { there = false; this.wake(); };
    this.stream.on("error", over);
    this.stream.on("end", over);
    this.stream.on("data", ({ results }) => {
      for (const result of results) this.settle(result);
      if (results.length) this.stream.write({ received: results.map(({ id }) => id) });
    });
    this.stream.write({ run: this.name, token: this.token });
    try {
      while (there && !this.closed) {
        if (this.unsent.length) await this.send(stub);
        else await new Promise((resolve) => { this.wake = resolve; });
      }
    } catch (error) {
      if (error.code === grpc.status.INVALID_ARGUMENT || error.code === grpc.status.PERMISSION_DENIED) this.fail(error);
    }
    this.stream.cancel();
    stub.close();
  }

  // Send some of the tasks; later, while the broker is full.
  async send(stub) {
    const batch = this.unsent.slice(0, BATCH);
    try {
      const { accepted } = await call(stub, "Submit", { tasks: batch, token: this.token });
      this.unsent.splice(0, accepted);
    } catch (error) {
      if (error.code !== grpc.status.RESOURCE_EXHAUSTED) throw error;
      await sleep(RETRY_MS);
    }
  }

  settle(result) {
    const waiting = this.outstanding.get(result.id);
    this.outstanding.delete(result.id); // a second result finds nothing
    if (!waiting) return;
    if (result.outcome === "DONE") waiting.resolve({ value: JSON.parse(result.payload.toString()), worker: result.worker, seconds: result.seconds });
    else waiting.reject(new Error(result.error || result.outcome));
  }

  fail(error) {
    for (const { reject } of this.outstanding.values()) reject(error);
    this.outstanding.clear();
  }
}

function call(stub, method, request) {
  return new Promise((resolve, reject) => {
    stub[method](request, { deadline: Date.now() + CALL_MS }, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}

module.exports = { Client };

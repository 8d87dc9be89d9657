// Kinds of task in JavaScript: what scripts/worker.js can do. A kind is a function from a JSON object to a JSON object; each task
// runs in a thread of its own, so that the worker can go on talking to its broker.
"use strict";
const { createHash } = require("crypto");
const { isMainThread, parentPort, workerData } = require("worker_threads");

// Numbers in [0, 1) by a generator of 32 bits (mulberry32).
function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

// Standard normal numbers (Box and Muller).
function normal(seed) {
  const next = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
}

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

// Mean cross-entropy of a logistic regression, and how many examples it has right. `weights`: of the inputs, then the bias.
function judged(weights, inputs, targets) {
  let loss = 0;
  let right = 0;
  inputs.forEach((input, number) => {
    const score = input.reduce((sum, value, column) => sum + value * weights[column], weights[input.length]);
    const margin = targets[number] ? score : -score;
    loss += Math.max(0, -margin) + Math.log1p(Math.exp(-Math.abs(margin)));
    right += margin > 0 ? 1 : 0;
  });
  return { loss: loss / inputs.length, accuracy: right / inputs.length };
}

// Trains a logistic regression by an evolution strategy: antithetic pairs of normal perturbations, a step along the mean of the
// perturbations weighted by the differences of their losses.
function logistic({ inputs, targets, generations, pairs = 16, sigma = 0.1, lr = 0.5, seed = 1 }) {
  if (!Array.isArray(inputs) || !inputs.length || inputs.length !== targets.length) throw new Error("inputs and targets differ in number");
  const draw = normal(seed);
  const weights = new Array(inputs[0].length + 1).fill(0);
  const began = judged(weights, inputs, targets);
  for (let generation = 0; generation < generations; generation += 1) {
    const step = new Array(weights.length).fill(0);
    for (let pair = 0; pair < pairs; pair += 1) {
      const noise = weights.map(draw);
      const [above, below] = [1, -1].map((sign) => judged(weights.map((w, i) => w + sign * sigma * noise[i]), inputs, targets).loss);
      noise.forEach((value, column) => { step[column] += (value * (below - above)) / (2 * sigma * pairs); });
    }
    step.forEach((value, column) => { weights[column] += lr * value; });
  }
  return { weights, began, ...judged(weights, inputs, targets) };
}

const KINDS = { noop, Darts, logistic };

if (!isMainThread && workerData && workerData.kind) {
  Promise.resolve()
    .then(() => KINDS[workerData.kind](JSON.parse(workerData.payload || "{}")))
    .then((answer) => parentPort.postMessage({ answer: JSON.stringify(answer) }))
    .catch((error) => parentPort.postMessage({ error: String(error && error.stack) }));
}

module.exports = { KINDS };

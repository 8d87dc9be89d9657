// A model in another language: it estimates pi until the error is small, and trains a logistic regression, both by tasks.
//   node scripts/model.js ERROR 127.0.0.1:7700 [FOLDER of certificates | insecure]
"use strict";
const { Client } = require("./client.js");

const COUNT = 20000; // darts of a task
const [wanted, nameserver, certificates] = process.argv.slice(2);

// Throw darts, eight tasks at a time, until the standard error is small enough.
async function pi(client) {
  let inside = 0;
  let total = 0;
  let seed = 0;
  let error = Infinity;
  const workers = new Set();
  const lane = async () => {
    do {
      const { value, worker } = await client.run("Darts", { seed: seed++, count: COUNT });
      inside += value.inside;
      total += COUNT;
      workers.add(worker);
      const estimate = (4 * inside) / total;
      error = Math.sqrt((estimate * (4 - estimate)) / total);
    } while (error > Number(wanted));
  };
  await Promise.all(Array.from({ length: 8 }, lane));
  return { inside, total, error, workers: [...workers] };
}

// Points above and below a line.
function points(count) {
  const inputs = Array.from({ length: count }, (_, number) => [((number * 37) % 101) / 50 - 1, ((number * 59) % 97) / 48 - 1]);
  return { inputs, targets: inputs.map(([x, y]) => (2 * x - y + 0.3 > 0 ? 1 : 0)) };
}

async function main() {
  const client = new Client(nameserver, certificates);
  const darts = await pi(client);
  const trained = await client.run("logistic", { ...points(200), generations: 100 }).catch((error) => ({ error: error.message }));
  await client.close();
  console.log(JSON.stringify({ darts, trained }));
}

main();

// What processes of a task cluster in Node.js share: the contract of neuro_cli/broker/proto, certificates, the list of brokers.
"use strict";
const fs = require("fs");
const os = require("os");
const path = require("path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const folder = path.join(__dirname, "..", "neuro_cli", "broker", "proto");
const definition = loader.loadSync(["nameserver.proto", "broker.proto"].map((name) => path.join(folder, name)), {
  keepCase: true, defaults: true, enums: String, longs: Number,
});
const { Nameserver, Submission, Work } = grpc.loadPackageDefinition(definition).neuro.v1;

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

module.exports = { Nameserver, Submission, Work, brokers, credentials, grpc, sleep };

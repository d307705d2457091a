// Runs an exported module as a page would: node run.mjs MODULE, JSON on standard input, JSON on standard output.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { open } = await import(pathToFileURL(process.argv[2]));
const { x, y, unseen, rate } = JSON.parse(readFileSync(0, "utf8"));
const learner = await open();
const hex = () => Buffer.from(learner.save()).toString("hex");
const found = { first: hex(), predicted: unseen.map((row) => [learner.predict(row)].flat().map((out) => Array.from(out)).flat()) };
const label = (i) => (typeof y[i] === "number" ? learner.names[y[i]] ?? y[i] : y[i]);

found.losses = x.map((row, i) => learner.learn(row, label(i), { rate }));
found.learned = hex();
found.measured = learner._rates(x.map((row, i) => [...learner._sample(row), learner._label(label(i))]));
found.unchanged = hex() === found.learned;
if (learner.about.loss === "cross_entropy") found.classified = unseen.map((row) => learner.classify(row));
found.before = learner.evaluate(x, y.map((_, i) => label(i)));
found.history = await learner.fit(x, y.map((_, i) => label(i)), { epochs: 8, validation: [x, y.map((_, i) => label(i))] });
found.after = learner.evaluate(x, y.map((_, i) => label(i)));
learner.reset();
found.reset = hex();
found.refused = [];
for (const work of [
  () => learner.learn(x[0], "nobody"), () => learner.predict([1, 2]), () => learner.load(new Uint8Array(8)),
  () => learner.load(Uint8Array.from(learner.save(), (b, i) => (i === 30 ? b ^ 1 : b))), () => learner.fit([], []),
  () => learner.predict(x[0].map(() => NaN)),
]) {
  try {
    found.refused.push(await work());
  } catch (e) {
    found.refused.push(e.message);
  }
}
found.whole = hex() === found.reset;
console.log(JSON.stringify(found));

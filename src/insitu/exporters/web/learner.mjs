// A learner in a page: the compiled program as WebAssembly, and the calls that it is used by. No dependencies, nothing
// is sent anywhere. The same file works in browsers, in workers and in Node.
//
//     import { open } from "./gesture.mjs";
//     const learner = await open();
//     learner.classify(x);                     // [{ name: "wave", probability: 0.93 }, ...]
//     learner.learn(x, "wave");                // one update; the rate is measured
//     await learner.fit(samples, labels);      // several epochs
//     const bytes = learner.save();            // as Python's learner.load takes them; load(bytes) goes on
//
// Learner is all there is to call. Below it: rates, which are measured as insitu's partial_fit does; the arithmetic of
// outputs; numbers in memory.

const CAREFUL = 1 / 3; // of the derived rates: nothing tests them
const BOLD = 3; // times the derived rate: a classifier's head
const PROBES = 8; // samples to measure gains with
const AGAIN = 2; // times as many samples as at the last measurement: then gains are measured again
const LOUD = 1.5, READY = 1 / 3; // the spread of outputs once a network has learned, and the part of it to wait for
const SURE = 0.99; // of the right answer: such a sample would move nothing
const ADAM = 0.003;
const PROBE = 1e-3, FINE = 0.3, TRIES = 6, LARGER = 1e4, LARGEST = 1e4; // steps that measure: the first, and their size
const CURVATURE = { cross_entropy: 0.5, soft_cross_entropy: 0.5, binary_cross_entropy: 0.25, mse: 2 };
const REFUSED = {
  8: "a label is not a class",
  9: "an input is not finite",
  11: "the state has the wrong size",
  12: "this is not a state",
  13: "the state belongs to another model, or to another scheme of it",
  14: "the state is damaged",
};
const KINDS = {
  f32: Float32Array, f64: Float64Array, s8: Int8Array, u8: Uint8Array, s16: Int16Array, u16: Uint16Array,
  s32: Int32Array, u32: Uint32Array, s64: BigInt64Array, b8: Uint8Array,
};

export class Learner {
  /** Made by open(). */
  constructor(about, program, first) {
    this.about = about;
    this.program = program;
    this.seen = 0; // samples that it learned from
    this.known = null; // gains, and how many samples it had seen when they were measured
    this.first = first;
    program.page_begin();
    if (first) this.load(first);
  }

  /** The names of the classes; their numbers where they have none. */
  get names() {
    return this.about.classes;
  }

  /** What a sample is: [{ name, dtype, shape }, ...]. */
  get inputs() {
    return this.about.verbs.predict.inputs;
  }

  /** Bytes of memory that the program takes, and its state. */
  get info() {
    return { memory: this.program.memory.buffer.byteLength, arena: this.about.arena, state: this.about.saved };
  }

  // using -----------------------------------------------------------------------------------------

  /** The model's outputs for one sample, as Float32Array; an array of them where the model has several outputs. */
  predict(x) {
    const found = this._run("predict", this._sample(x));
    return found.length === 1 ? found[0] : found;
  }

  /** The classes of one sample with their probabilities, the likeliest first. */
  classify(x) {
    const chances = probabilities(this._run("predict", this._sample(x))[0], this.about.ends);
    const found = chances.map((probability, k) => ({ name: this.names[k] ?? String(k), probability }));
    return found.filter((_, k) => !this.about.unused.includes(k)).sort((a, b) => b.probability - a.probability);
  }

  /** { accuracy, samples }, or { error, samples } for targets. */
  evaluate(samples, labels) {
    same(samples, labels);
    const [name, measure] = this.about.loss === "mse" ? ["error", squared] : ["accuracy", RIGHT[this.about.loss]];
    const found = samples.map((x, i) => measure(this._run("predict", this._sample(x))[0], this._label(labels[i])));
    return { [name]: mean(found), samples: samples.length };
  }

  // learning --------------------------------------------------------------------------------------

  /** One update with one sample, whose label is a class's name or number (or its targets). Returns the loss before it. */
  learn(x, label, { rate = null } = {}) {
    const sample = [...this._sample(x), this._label(label)];
    const loss = this._step(sample, rate ?? this._rate([sample]));
    this.seen += 1;
    return loss;
  }

  /**
   * Learn from samples for several epochs, in an order of its own, with a rate that falls to zero. Other work goes on
   * between the samples. With validation: [samples, labels], what made these worse is undone. A signal (AbortController)
   * ends it early: what was learned stays.
   */
  async fit(samples, labels, { epochs = null, rate = null, seed = 0, validation = null, onEpoch = null, signal = null } = {}) {
    same(samples, labels);
    const all = samples.map((x, i) => [...this._sample(x), this._label(labels[i])]);
    const count = epochs ?? usualEpochs(all.length);
    const top = rate ?? this._rate(all);
    const before = validation && { state: this.save(), cost: this._cost(...validation) };
    const history = { rate: top, loss: [], restored: false };
    const steps = count * all.length, warm = Math.min(0.1 * count, 1) * all.length;
    for (let epoch = 0, step = 0, pause = now(); epoch < count && !signal?.aborted; epoch++) {
      let loss = 0;
      for (const k of shuffled(all.length, seed * 1000003 + epoch)) {
        loss += this._step(all[k], top * share(step++, steps, warm)) / all.length;
        if (now() - pause > 20) {
          await breath();
          pause = now();
          if (signal?.aborted) break;
        }
      }
      history.loss.push(loss);
      onEpoch?.({ epoch: epoch + 1, epochs: count, loss });
      await breath();
    }
    this.seen += all.length;
    if (before && !(this._cost(...validation) < before.cost)) {
      this.load(before.state);
      history.restored = true;
    }
    return history;
  }

  /** Forget what was learned here: the state that the file came with. */
  reset() {
    this.program.page_reset();
    if (this.first) this.load(this.first);
    this.known = null;
    this.seen = 0;
  }

  // keeping ---------------------------------------------------------------------------------------

  /** Everything learned, as bytes: Python's learner.load_state takes them, and those of a board with this program. */
  save() {
    this._stateful();
    this.program.page_save();
    return this._bytes(this.program.page_saved(), this.about.saved).slice();
  }

  /** Go on from saved bytes; an error if they are not of this program, and then nothing changes. */
  load(bytes) {
    this._stateful();
    const [given, names] = apart(new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength), this.about.saved);
    if (names && names.some((name, k) => name && name !== this.names[k])) {
      throw new Error(`the state has other classes, or another order: ${names.join(", ")}`);
    }
    if (given.length === this.about.saved) this._bytes(this.program.page_saved(), given.length).set(given);
    this._check(this.program.page_load(given.length));
  }

  /** Keep everything learned in this browser under a name (IndexedDB). */
  async keep(name = this._name) {
    const bytes = this.save();
    await stored("readwrite", (store) => store.put(bytes, name));
  }

  /** Go on from what keep() kept; false if there is nothing of this name. */
  async recall(name = this._name) {
    const bytes = await stored("readonly", (store) => store.get(name));
    if (bytes) this.load(bytes);
    return Boolean(bytes);
  }

  // -----------------------------------------------------------------------------------------------

  /** A picture (image, video, canvas, ImageBitmap, ImageData) as a sample of this model: resized, in its range. */
  photo(picture) {
    const photo = this.about.photo;
    if (!photo) throw new Error("this model takes no pictures");
    const { height, width } = photo;
    const canvas = typeof OffscreenCanvas === "undefined" ? document.createElement("canvas") : new OffscreenCanvas(width, height);
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d", { willReadFrequently: true });
    if (picture.data) return pixels(resized(picture, width, height), photo, this.inputs[0].dtype);
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, 0, 0, width, height);
    return pixels(context.getImageData(0, 0, width, height).data, photo, this.inputs[0].dtype);
  }

  /** Of this program: a state of another one would not fit. */
  get _name() {
    return `${this.about.name} ${this.about.program}`;
  }

  _classifies() {
    return this.about.loss === "cross_entropy";
  }

  _stateful() {
    if (!this.about.saved) throw new Error("this program has no state: it only predicts");
  }

  /** The arrays of one sample, one per input. */
  _sample(x) {
    const inputs = this.inputs;
    const given = inputs.length === 1 ? [x] : x;
    if (given?.length !== inputs.length) throw new Error(`a sample has ${inputs.length} inputs: ${inputs.map((v) => v.name)}`);
    return inputs.map((v, k) => numbers(given[k], v));
  }

  _label(label) {
    const method = this.about.verbs[this.about.method];
    if (!method) throw new Error("this program only predicts");
    const value = method.inputs[this.inputs.length];
    if (!this._classifies()) return numbers(label, value);
    const k = typeof label === "number" ? label : this.names.indexOf(String(label));
    if (!Number.isInteger(k) || k < 0 || k >= this.names.length) {
      throw new Error(`unknown class ${JSON.stringify(label)}: ${this.names.join(", ")}`);
    }
    return KINDS[value.dtype].from([k]);
  }

  /** Run a verb on its inputs' arrays; the outputs as real numbers. */
  _run(verb, arrays) {
    const { number, outputs, inputs } = this.about.verbs[verb];
    arrays.forEach((array, i) => this._view(this.program.page_input(number, i), inputs[i]).set(array));
    this._check(this.program.page_call(number));
    return outputs.map((v, i) => real(this._view(this.program.page_output(number, i), v), v));
  }

  _step(sample, rate) {
    if (this.about.method === "train_step") return this._run("train_step", [...sample, [rate]])[0][0];
    const loss = this._run("accumulate", sample)[0][0];
    this._run("apply", [[rate], [1]]);
    return loss;
  }

  /** Of samples: their loss, and 1 for a mistake. */
  _cost(samples, labels) {
    const { loss, ends } = this.about;
    return mean(samples.map((x, i) => {
      const out = this._run("predict", this._sample(x))[0], label = this._label(labels[i]);
      return loss === "mse" ? squared(out, label) : LOSSES[loss](out, label, ends) + 1 - RIGHT[loss](out, label);
    }));
  }

  _view(at, value) {
    return new KINDS[value.dtype](this.program.memory.buffer, at, size(value));
  }

  _bytes(at, count) {
    return new Uint8Array(this.program.memory.buffer, at, count);
  }

  _check(status) {
    if (status !== 0) throw new Error(REFUSED[status] ?? `the program refused (${status})`);
  }

  // rates: an update with one sample's gradient g changes that sample's outputs by about rate * K * e, where e is the
  // loss's slope there and K = |g|^2 / |e|^2. K is measured: one update, and the difference of the state.

  /** The rate of the head for these samples; that of the other layers, as a share of it, goes into the state. */
  _rate(samples) {
    const { head, body } = this._rates(samples);
    const at = this.about.bodyRate;
    if (at !== null) {
      const state = this.save();
      new DataView(state.buffer).setFloat32(at, body / head, true);
      this.load(resealed(state));
    }
    return head;
  }

  _rates(samples) {
    const { optimizer, loss, momentum, least, rests } = this.about;
    if (!this.known || this.seen + samples.length >= AGAIN * this.known.seen) {
      const step = Math.max(1, Math.floor(samples.length / PROBES));
      this.known = this._gains(samples.filter((_, i) => i % step === 0).slice(0, PROBES));
      this.known.seen = this.seen + samples.length;
    }
    const { head, body } = this.known;
    const resting = rests && this._share() === 0;
    const usual = (CAREFUL * (1 - momentum)) / this._oneSided(samples);
    if (optimizer === "adam") return { head: usual * ADAM, body: resting || !body ? 0 : usual * ADAM };
    const bold = this.about.head && ["cross_entropy", "soft_cross_entropy"].includes(loss) ? BOLD : 1;
    return { head: (usual * bold) / Math.max(head, least, 1e-30), body: resting || !body ? 0 : usual / body };
  }

  /** How many times its share the commonest class has; the square of it for samples of one or two classes only. */
  _oneSided(samples) {
    if (!this._classifies()) return 1;
    const counts = new Map();
    for (const sample of samples) counts.set(Number(sample.at(-1)[0]), (counts.get(Number(sample.at(-1)[0])) ?? 0) + 1);
    const times = Math.max(1, Math.max(...counts.values()) / Math.max(1, samples.length / this.names.length));
    return counts.size <= 2 ? times ** 2 : times;
  }

  /** The share of the rate at which layers before the head learn: a number of the state. */
  _share() {
    return this.about.bodyRate === null ? 0 : new DataView(this.save().buffer).getFloat32(this.about.bodyRate, true);
  }

  /** Of the head and of the layers before it, each measured at steps of its own size. */
  _gains(samples) {
    const start = this.save();
    const doubted = samples.map((sample) => this._doubted(sample));
    let found, rates = { head: PROBE, body: PROBE };
    for (let i = 0; i < TRIES; i++) {
      found = this._measured(start, doubted, rates);
      const better = { head: fitting(rates.head, found.head), body: fitting(rates.body, found.body) };
      if (better.head === rates.head && better.body === rates.body) break;
      rates = better;
    }
    this.load(start);
    return { head: found.head, body: found.body && found.body * this._toCome(samples) };
  }

  /** How much larger the gain of the layers before the head will be once it has learned; 0: until then, they wait. */
  _toCome(samples) {
    const outputs = samples.map((sample) => this._run("predict", sample.slice(0, -1))[0]);
    const wanted = this.about.loss === "mse" ? mean(samples.map((sample) => spread(sample.at(-1)))) : LOUD ** 2;
    const part = mean(outputs.map(spread)) / Math.max(wanted, 1e-30);
    return part < READY ** 2 ? 0 : Math.max(1, 1 / part);
  }

  /** The sample with its least likely class instead of one that the network is sure of: the gain is the same. */
  _doubted(sample) {
    if (!this._classifies()) return sample;
    const label = sample.at(-1), p = probabilities(this._run("predict", sample.slice(0, -1))[0], "softmax");
    return p[Number(label[0])] > SURE ? [...sample.slice(0, -1), label.constructor.from([p.indexOf(Math.min(...p))])] : sample;
  }

  _measured(start, samples, rates) {
    const { bodyRate, parameters, loss } = this.about;
    const base = cleared(start, this.about.cleared);
    if (bodyRate !== null) new DataView(base.buffer).setFloat32(bodyRate, rates.body / rates.head, true);
    resealed(base);
    const squares = { head: 0, body: 0 };
    let slopes = 0;
    for (const sample of samples) {
      this.load(base);
      slopes += this._slope(sample, rates.head);
      const after = this.save();
      for (const p of parameters) {
        const part = p.head || bodyRate === null ? "head" : "body";
        squares[part] += square(moved(p, base, after, rates[part]));
      }
    }
    const outputs = size(this.about.verbs[this.about.method].outputs[1]);
    const per = CURVATURE[loss] / (loss.endsWith("entropy") && loss !== "binary_cross_entropy" ? 1 : outputs);
    const scale = (2 * per) / Math.max(slopes, 1e-30);
    return { head: squares.head * scale, body: squares.body * scale };
  }

  /** Make one update; the square of the loss's slope at the outputs just before. */
  _slope(sample, rate) {
    const adds = this.about.method === "accumulate";
    const out = this._run(this.about.method, adds ? sample : [...sample, [rate]])[1];
    return square(slope(this.about.loss, out, sample.at(-1), this.about.smoothing));
  }
}

// outputs -----------------------------------------------------------------------------------------

function softmax(z) {
  const top = z.reduce((a, b) => Math.max(a, b), -Infinity);
  const e = Array.from(z, (v) => Math.exp(v - top));
  const sum = e.reduce((a, b) => a + b, 0);
  return e.map((v) => v / sum);
}

const sigmoid = (v) => 1 / (1 + Math.exp(-v));

function probabilities(out, ends) {
  if (out.length === 1) {
    const yes = ends === "" ? out[0] : sigmoid(out[0]);
    return [1 - yes, yes];
  }
  return ends === "softmax" ? softmax(out) : Array.from(out, ends === "sigmoid" ? sigmoid : (v) => Math.max(v, 0));
}

function slope(loss, out, label, smoothing) {
  if (loss === "mse") return Array.from(out, (v, i) => (2 * (v - label[i])) / out.length);
  if (loss === "binary_cross_entropy") return Array.from(out, (v, i) => (sigmoid(v) - label[i]) / out.length);
  if (loss === "soft_cross_entropy") return softmax(out).map((p, i) => p - label[i]);
  return softmax(out).map((p, k) => {
    const one = k === Number(label[0]) ? 1 : 0;
    return p - one + smoothing * (one - 1 / out.length);
  });
}

const square = (values) => values.reduce((sum, v) => sum + v * v, 0);
const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;
/** The mean square of numbers, of several classes around their mean. */
const spread = (values) => square(difference(values, Array(values.length).fill(values.length > 1 ? mean(Array.from(values)) : 0))) / values.length;
const difference = (a, b) => Array.from(a, (v, i) => v - Number(b[i]));
const largest = (values) => values.indexOf(values.reduce((a, b) => Math.max(a, b), -Infinity));

const squared = (out, target) => square(difference(out, target)) / out.length;
const unlikely = (p) => -Math.log(Math.max(p, 1e-12));

// how right an answer is, 0 to 1, and its loss: as Python's evaluate and fit have them
const RIGHT = {
  cross_entropy: (out, label) => Number(largest(out) === Number(label[0])),
  soft_cross_entropy: (out, label) => Number(largest(out) === largest(Array.from(label))),
  binary_cross_entropy: (out, label) => mean(Array.from(out, (v, i) => Number(v > 0 === label[i] > 0.5))),
};
const LOSSES = {
  cross_entropy: (out, label, ends) => unlikely(probabilities(out, ends)[Number(label[0])]),
  soft_cross_entropy: (out, label, ends) => probabilities(out, ends).reduce((sum, p, k) => sum + label[k] * unlikely(p), 0),
  binary_cross_entropy: (out, label) =>
    mean(Array.from(out, (v, i) => label[i] * unlikely(sigmoid(v)) + (1 - label[i]) * unlikely(sigmoid(-v)))),
};

// training ----------------------------------------------------------------------------------------

function usualEpochs(count) {
  return Math.min(40, Math.max(4, Math.round(20 * Math.cbrt(200 / Math.max(count, 1)))));
}

function share(step, steps, warm) {
  if (step < warm) return (step + 1) / warm;
  return 0.5 * (1 + Math.cos((Math.PI * (step - warm)) / Math.max(1, steps - warm)));
}

function shuffled(count, seed) {
  let s = (seed ^ 0x9e3779b9) >>> 0;
  const order = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    s = (Math.imul(s ^ (s >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) >>> 0;
    const k = Math.floor(((s ^ (s >>> 13)) >>> 0) / 4294967296 * (i + 1));
    [order[i], order[k]] = [order[k], order[i]];
  }
  return order;
}

const now = () => performance.now();
const breath = () => new Promise((done) => setTimeout(done));

/** The rate of the next step that measures: the same, if this one was neither too small nor too large. */
function fitting(rate, gain) {
  if (!gain) return rate < LARGEST ? rate * LARGER : rate;
  return rate * gain >= FINE / 10 && rate * gain <= FINE * 10 ? rate : FINE / gain;
}

/** The state without memory of earlier steps. */
function cleared(state, places) {
  const found = state.slice();
  for (const [at, count] of places) found.fill(0, at, at + count);
  return found;
}

/** Where a parameter of the state moved, in real units and per rate. */
function moved(p, before, after, rate) {
  if (p.sum !== null) return Array.from(new Float32Array(after.slice(p.sum, p.sum + 4 * p.size).buffer));
  const was = parameter(p, before), is = parameter(p, after);
  return is.map((v, i) => (v - was[i]) / rate);
}

function parameter(p, state) {
  const read = (at, kind) => new kind(state.slice(at, at + p.size * kind.BYTES_PER_ELEMENT).buffer);
  const whole = read(p.at, KINDS[p.dtype]);
  const rest = p.residual === null ? null : read(p.residual, KINDS[p.restKind]);
  const fine = p.master === null ? whole : read(p.master, Float32Array);
  const scale = (i) => p.scales[Math.floor(i / p.inner) % p.scales.length];
  return Array.from(fine, (v, i) => (Number(v) + (rest && p.master === null ? rest[i] / 256 : 0)) * scale(i));
}

// numbers -----------------------------------------------------------------------------------------

const size = (value) => value.shape.reduce((a, b) => a * b, 1);

function real(view, value) {
  if (value.scale === undefined) return Float32Array.from(view, Number);
  return Float32Array.from(view, (q) => (q - value.zero) * value.scale);
}

function numbers(given, value) {
  const flat = ArrayBuffer.isView(given) ? given : [given].flat(Infinity);
  if (flat.length !== size(value)) throw new Error(`${value.name} has ${value.shape.join("x")} numbers, not ${flat.length}`);
  return flat;
}

function same(samples, labels) {
  if (!samples.length || samples.length !== labels.length) {
    throw new Error(`${samples.length} samples and ${labels.length} labels`);
  }
}

/** Red, green, blue, alpha as the numbers of an input. */
function pixels(data, { height, width, channels, first, range }, dtype) {
  const found = new KINDS[dtype](height * width * channels);
  const [low, high] = range;
  for (let at = 0; at < height * width; at++) {
    const rgb = data.subarray(4 * at, 4 * at + 3);
    const values = channels === 1 ? [Math.round((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2]) / 1000)] : rgb;
    for (let c = 0; c < channels; c++) {
      const v = dtype === "u8" ? values[c] : dtype === "s8" ? values[c] - 128 : low + (values[c] * (high - low)) / 255;
      found[first ? c * height * width + at : at * channels + c] = v;
    }
  }
  return found;
}

/** An ImageData of any size as the bytes of one of this size: each pixel is the mean of those that it covers. */
function resized(image, width, height) {
  const found = new Uint8ClampedArray(4 * width * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const [top, bottom] = span(y, height, image.height), [left, right] = span(x, width, image.width);
      const sum = [0, 0, 0, 0];
      for (let v = top; v < bottom; v++) {
        for (let u = left; u < right; u++) sum.forEach((_, c) => (sum[c] += image.data[4 * (v * image.width + u) + c]));
      }
      sum.forEach((s, c) => (found[4 * (y * width + x) + c] = s / ((bottom - top) * (right - left))));
    }
  }
  return found;
}

function span(at, count, from) {
  const first = Math.floor((at * from) / count);
  return [first, Math.max(first + 1, Math.floor(((at + 1) * from) / count))];
}

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c >>> 0;
});

/** A changed state with the checksum that belongs to it. */
function resealed(state) {
  let c = 0xffffffff;
  for (const byte of state.subarray(16)) c = CRC[(c ^ byte) & 255] ^ (c >>> 8);
  new DataView(state.buffer).setUint32(12, (c ^ 0xffffffff) >>> 0, true);
  return state;
}

/** A file that Python saved: the state and, if there are any, the names of its classes behind it. */
function apart(bytes, count) {
  const behind = bytes.subarray(count);
  const named = behind.length > 8 && String.fromCharCode(...behind.subarray(0, 4)) === "INSN";
  return named ? [bytes.subarray(0, count), JSON.parse(new TextDecoder().decode(behind.subarray(8)))] : [bytes, null];
}

function stored(mode, work) {
  return new Promise((done, fail) => {
    const request = indexedDB.open("insitu", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("states");
    request.onerror = () => fail(request.error);
    request.onsuccess = () => {
      const change = request.result.transaction("states", mode);
      const asked = work(change.objectStore("states"));
      change.oncomplete = () => (request.result.close(), done(asked.result));
      change.onerror = () => fail(change.error);
    };
  });
}

/** The bytes of base64. */
function decoded(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** The learner of this file. Each call gives another one, with a memory of its own. */
export async function open() {
  const imports = { page: { answer() {} } };
  const { instance } = await WebAssembly.instantiate(decoded(MODULE), imports);
  return new Learner(ABOUT, instance.exports, STATE ? decoded(STATE) : null);
}

export default open;

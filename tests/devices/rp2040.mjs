// An RP2040 (rp2040js) that boots a .uf2 as the chip's ROM does, with random bytes in SRAM and UART0 on a TCP port.
// rp2040js has no ROM of its own: what the ROM does with the first 256 bytes of flash is done here, CRC included.
//   node rp2040.mjs <folder with node_modules> <firmware.uf2>
// Prints "port N" when it listens, and "baud N" when the firmware has set the UART's divisor.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { randomFillSync } from "node:crypto";

const [folder, uf2] = process.argv.slice(2);
const { RP2040 } = createRequire(folder + "/")("rp2040js");
const chip = new RP2040();
const FAMILY = 0xe48bff56, FLASH = 0x10000000, BOOT = 0x20041f00 - 0x20000000;
const SLICE = 20000; // instructions between two looks at the network

function flash(data) {
  for (let at = 0; at < data.length; at += 512) {
    const word = (i) => data.readUInt32LE(at + i);
    if (word(0) !== 0x0a324655 || word(4) !== 0x9e5d5157 || word(508) !== 0x0ab16f30) throw new Error("not a UF2 block");
    if (!(word(8) & 0x2000) || word(28) !== FAMILY) throw new Error("for another chip");
    if (word(24) !== data.length / 512 || word(20) !== at / 512) throw new Error("not all blocks are there");
    chip.flash.set(data.subarray(at + 32, at + 32 + word(16)), word(12) - FLASH);
  }
}

function crc(bytes) {
  let c = 0xffffffff;
  for (const byte of bytes) {
    c ^= byte << 24;
    for (let i = 0; i < 8; i++) c = c & 0x80000000 ? (c << 1) ^ 0x04c11db7 : c << 1;
  }
  return c >>> 0;
}

function boot() {
  const first = chip.flash.slice(0, 256);
  if (crc(first.subarray(0, 252)) !== Buffer.from(first).readUInt32LE(252)) throw new Error("the ROM refuses boot2: CRC");
  chip.sram.set(first, BOOT);
  chip.core.PC = 0x20041f00;
}

randomFillSync(chip.sram);
flash(readFileSync(uf2));
boot();
const uart = chip.uart[0], waiting = [];
let line = null;
uart.onByte = (byte) => line?.write(Buffer.from([byte]));
uart.onBaudRateChange = (baud) => console.log("baud", Math.round(baud));

function run() {
  for (let i = 0; i < SLICE; i++) {
    if (waiting.length && !uart.rxFIFO.full && i % 500 === 0) uart.feedByte(waiting.shift());
    chip.core.executeInstruction();
  }
  setImmediate(run);
}

const server = createServer((socket) => {
  line = socket.setNoDelay(true);
  socket.on("data", (data) => waiting.push(...data));
  socket.on("error", () => {});
});
server.listen(0, "127.0.0.1", () => {
  console.log("port", server.address().port);
  run();
});

// Numbers as exact text; in an address as decimals, or as their bits.

const PACKED = "~"; // prefix of numbers written as their bits; no decimal has it

/** The decimals that read as the same number, with a power of ten if that is shorter. */
export function exact(x) {
  const [plain, power] = [String(x), x.toExponential()].map((text) => text.replace("+", ""));
  return plain.length <= power.length ? plain : power;
}

/** Numbers as exact text, in the shorter of the two forms. */
export function written(numbers) {
  const plain = numbers.map(exact).join(",");
  const packed = packedFrom(numbers);
  return plain.length <= packed.length ? plain : packed;
}

/** The numbers in a text; NaN for anything else. */
export function numbersIn(text) {
  return text.startsWith(PACKED) ? unpackedFrom(text) : text.split(",").map((word) => (word === "" ? NaN : Number(word)));
}

/** Base64 of the bits of numbers, with characters that need no escape in an address. */
function packedFrom(numbers) {
  const bytes = new Uint8Array(Float64Array.from(numbers).buffer);
  const letters = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return PACKED + letters.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function unpackedFrom(text) {
  const letters = text.slice(PACKED.length).replaceAll("-", "+").replaceAll("_", "/");
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  return Array.from(new Float64Array(bytes.buffer));
}

// Numbers as text, exactly; in an address in decimals, or as their bits.

const PACKED = "~"; // begins numbers written as their bits; no decimal does

/** A number in decimals that read as the same number, with a power of ten where that is shorter. */
export function exact(x) {
  const [plain, power] = [String(x), x.toExponential()].map((text) => text.replace("+", ""));
  return plain.length <= power.length ? plain : power;
}

/** Numbers as text, exactly, in the shorter of the two ways. */
export function written(numbers) {
  const plain = numbers.map(exact).join(",");
  const packed = packedFrom(numbers);
  return plain.length <= packed.length ? plain : packed;
}

/** The numbers of a text; NaN where it has others. */
export function numbersIn(text) {
  return text.startsWith(PACKED) ? unpackedFrom(text) : text.split(",").map((word) => (word === "" ? NaN : Number(word)));
}

/** Base64 of their bits, in the letters that need no escape in an address. */
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
